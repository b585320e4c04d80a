-- Who keeps the past open, so that vacuum cannot remove dead rows: transactions, replication slots, prepared transactions.
-- The oldest comes first; more than a few million transactions behind, or hours, is worth a question.
select 'session ' || pid as who, usename::text as role, state, now() - xact_start as since,
       age(backend_xmin) as transactions, left(query, 80) as what
from pg_stat_activity
where backend_xmin is not null and pid <> pg_backend_pid()
union all
select 'replication slot ' || slot_name, null, case when active then 'active' else 'inactive' end, null,
       greatest(age(xmin), age(catalog_xmin)), plugin::text
from pg_replication_slots
where xmin is not null or catalog_xmin is not null
union all
select 'prepared transaction ' || gid, owner::text, 'prepared', now() - prepared, age(transaction), null
from pg_prepared_xacts
where database = current_database()
order by transactions desc nulls last;
