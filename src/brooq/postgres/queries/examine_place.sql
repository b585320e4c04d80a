-- Whether the tables can be asked about at all: by name, since a schema that is missing or closed would be an error.
-- $1 schema
select exists (select from pg_namespace where nspname = $1::text) as there,
       coalesce((select has_schema_privilege(oid, 'usage') from pg_namespace where nspname = $1::text), false) as open,
       exists (select from pg_class join pg_namespace on pg_namespace.oid = relnamespace
               where nspname = $1::text and relname = 'job' and relkind in ('r', 'p')) as complete
