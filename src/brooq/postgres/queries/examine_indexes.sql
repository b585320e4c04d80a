-- The indexes of the table of jobs: whether each can be used, its size, and the width of its entries as the statistics of
-- the columns have it, of which a size that it should have can be estimated without reading it.
select class.relname::text as name, index.indisvalid and index.indisready as valid, pg_relation_size(class.oid) as bytes,
       class.reltuples::float8 as rows,
       (select sum(coalesce(stats.avg_width, nullif(attribute.attlen, -1), 24))::float8
        from unnest(index.indkey::smallint[]) as key (number)
        join pg_attribute as attribute on attribute.attrelid = index.indrelid and attribute.attnum = key.number
        left join pg_stats as stats
               on stats.schemaname = place.nspname and stats.tablename = owner.relname and stats.attname = attribute.attname
       ) as width
from pg_index as index
join pg_class as class on class.oid = index.indexrelid
join pg_class as owner on owner.oid = index.indrelid
join pg_namespace as place on place.oid = owner.relnamespace
where index.indrelid = '"brooq".job'::regclass
order by class.relname
