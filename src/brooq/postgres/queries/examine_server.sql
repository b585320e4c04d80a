-- The server's settings that the promises rest on, as they are for this role in this database.
select current_setting('server_version') as version, current_setting('server_version_num')::integer as number,
       current_user::text as role, current_database()::text as database, pg_is_in_recovery() as standby,
       current_setting('fsync') as fsync, current_setting('full_page_writes') as full_page_writes,
       current_setting('synchronous_commit') as synchronous_commit,
       current_setting('default_transaction_isolation') as isolation,
       current_setting('default_transaction_read_only') as read_only,
       current_setting('autovacuum') as autovacuum, current_setting('track_counts') as track_counts,
       (select jsonb_object_agg(name, setting::float8 / 1000)
        from pg_settings
        where name in ('statement_timeout', 'idle_session_timeout', 'idle_in_transaction_session_timeout',
                       'transaction_timeout')
          and unit = 'ms' and setting::float8 > 0)::text as timeouts,
       -- Without it the sessions of others show neither their snapshots nor what they do.
       pg_has_role(current_user, 'pg_read_all_stats', 'usage') as sees_all,
       age((select datfrozenxid from pg_database where datname = current_database()))::bigint as oldest_transaction,
       current_setting('autovacuum_freeze_max_age')::bigint as freeze_at
