-- Who keeps dead rows from being cleaned away: sessions with a snapshot or a transaction of their own, prepared
-- transactions, replication slots, and standbys that send feedback. Autovacuum and VACUUM hold nothing back, and
-- snapshots of other databases do not matter here. The oldest ones of each kind are enough.
-- $1 how many of each kind
(select 'session' as kind, application_name as name, pid, usename::text as owner,
        greatest(age(backend_xmin), age(backend_xid))::bigint as age,
        extract(epoch from clock_timestamp() - xact_start)::float8 as seconds, state, query as statement,
        coalesce(host(client_addr), '') as address, true as active, null::bigint as retained
 from pg_stat_activity
 where datname = current_database() and pid <> pg_backend_pid() and (backend_xmin is not null or backend_xid is not null)
   and backend_type not in ('autovacuum worker', 'walsender')
   and pid not in (select pid from pg_stat_progress_vacuum)
 order by age desc limit $1::bigint)
union all
(select 'prepared', gid, null, owner::text, age(transaction)::bigint as age,
        extract(epoch from clock_timestamp() - prepared)::float8, null, null, '', true, null
 from pg_prepared_xacts where database = current_database()
 order by age desc limit $1::bigint)
union all
(select 'slot', slot_name::text, active_pid, null, greatest(age(xmin), age(catalog_xmin))::bigint as age, null, slot_type, null, '',
        active,
        case when not pg_is_in_recovery() then pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::bigint end
 from pg_replication_slots
 where (database is null or database = current_database())
   and (xmin is not null or catalog_xmin is not null or not active and restart_lsn is not null)
 order by age desc nulls last limit $1::bigint)
union all
(select 'standby', application_name, pid, usename::text, age(backend_xmin)::bigint as age, null, state, null,
        coalesce(host(client_addr), ''), true, null
 from pg_stat_replication where backend_xmin is not null
 order by age desc limit $1::bigint)
