-- How many connections there are, and how many there may be: of the server for others than superusers, of this database
-- and of this role. A limit that is not set is null, and none holds for a superuser but the first.
select (select sum(numbackends) from pg_stat_database)::bigint as server,
       current_setting('max_connections')::bigint - current_setting('superuser_reserved_connections')::bigint
           - coalesce(current_setting('reserved_connections', true), '0')::bigint as server_limit,
       (select numbackends from pg_stat_database where datname = current_database())::bigint as database,
       (select nullif(datconnlimit, -1) from pg_database where datname = current_database())::bigint as database_limit,
       (select count(*) from pg_stat_activity where usename = current_user) as role,
       (select nullif(rolconnlimit, -1) from pg_roles where rolname = current_user)::bigint as role_limit
