-- Which of the rights that a part needs this role has; null where the table is not there.
-- $1 parts, $2 tables, $3 privileges, $4 columns (null: the whole table)
select needed.part, needed.relation, needed.privilege, needed.attribute,
       case when needed.attribute is null then has_table_privilege(class.oid, needed.privilege)
            else has_column_privilege(class.oid, needed.attribute, needed.privilege) end as granted
from unnest($1::text[], $2::text[], $3::text[], $4::text[]) with ordinality
     as needed (part, relation, privilege, attribute, turn)
left join pg_class as class
       on class.relname = needed.relation
      and class.relnamespace = (select relnamespace from pg_class where oid = '"brooq".job'::regclass)
order by turn
