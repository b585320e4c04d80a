-- How the table is: rows and dead rows by the statistics, when it was vacuumed and analyzed, and its size with its indexes.
-- Many dead rows with an old autovacuum mean that somebody holds the past open: see horizon.sql.
select n_live_tup as rows, n_dead_tup as dead_rows, last_autovacuum, last_autoanalyze,
       pg_size_pretty(pg_table_size(relid)) as table_size, pg_size_pretty(pg_indexes_size(relid)) as indexes_size
from pg_stat_user_tables
where relid = 'job'::regclass;
