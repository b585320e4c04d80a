-- How well the table of jobs is cleaned: from counters and catalogs, without reading a page of it. A setting of the table
-- goes before that of the server.
with option as (
    select option_name as name, option_value as value
    from pg_class cross join lateral pg_options_to_table(reloptions)
    where oid = '"brooq".job'::regclass
),
setting as (
    select coalesce((select value from option where name = 'autovacuum_enabled'), 'true')::boolean as enabled,
           coalesce((select value from option where name = 'autovacuum_vacuum_threshold'),
                    current_setting('autovacuum_vacuum_threshold'))::float8 as threshold,
           coalesce((select value from option where name = 'autovacuum_vacuum_scale_factor'),
                    current_setting('autovacuum_vacuum_scale_factor'))::float8 as scale,
           least((select value from option where name = 'autovacuum_freeze_max_age')::bigint,
                 current_setting('autovacuum_freeze_max_age')::bigint) as freeze_at
)
select greatest(reltuples, 0)::float8 as rows, pg_relation_size(class.oid) as bytes,
       coalesce(stat.n_live_tup, 0) as live, coalesce(stat.n_dead_tup, 0) as dead,
       greatest(stat.last_autovacuum, stat.last_vacuum) as cleaned_at,
       setting.enabled, setting.threshold + setting.scale * greatest(reltuples, 0)::float8 as cleaned_from,
       age(class.relfrozenxid)::bigint as age, setting.freeze_at,
       exists (select from pg_stat_progress_vacuum as progress where progress.relid = class.oid) as being_cleaned
from pg_class as class
cross join setting
left join pg_stat_user_tables as stat on stat.relid = class.oid
where class.oid = '"brooq".job'::regclass
