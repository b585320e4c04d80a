-- The transactions that may still be claiming as brooq_topic was before: they have looked at it, and write jobs. Whoever
-- has changed it asks after the commit, and waits until those found then have ended; a claim that comes later sees the
-- change. A statement takes its locks before its snapshot, so none is missed; a transaction that only reads, such as that
-- of a backup, or one that only writes jobs, is not waited for. pg_locks shows everybody's locks to everybody.
select distinct looking.virtualtransaction
from pg_locks as looking
join pg_locks as writing using (virtualtransaction)
where looking.locktype = 'relation' and looking.relation = '"brooq".brooq_topic'::regclass
  and looking.database = (select oid from pg_database where datname = current_database())
  and writing.locktype = 'relation' and writing.relation = '"brooq".job'::regclass
  and writing.database = looking.database and writing.mode = 'RowExclusiveLock'
  and looking.pid <> pg_backend_pid()
