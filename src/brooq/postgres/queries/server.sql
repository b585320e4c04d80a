-- What the server is, and whether it keeps what it acknowledges.
select current_setting('server_version') as version, current_setting('server_version_num')::integer as number,
       current_setting('fsync') as fsync, current_setting('synchronous_commit') as synchronous_commit,
       current_setting('full_page_writes') as full_page_writes, pg_is_in_recovery() as standby, pg_backend_pid() as pid
