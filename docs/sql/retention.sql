-- How far retention is behind: the age of the oldest job that has ended, and how many are older than thirty days, which is
-- QUEUE_RETENTION_TTL unless you have set it. Counts no further than a hundred thousand.
select (select now() - min(updated_at) from job where state in ('done', 'dead', 'canceled')) as oldest,
       (select count(*) from (
            select from job
            where state in ('done', 'dead', 'canceled') and updated_at < now() - interval '30 days'
            limit 100000
        ) as overdue) as overdue;
