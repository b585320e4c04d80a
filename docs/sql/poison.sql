-- Jobs that may be killing their workers: their lease ran out again and again, and nobody lived to write an error.
-- Such a job never becomes dead by itself; `brooq cancel ID` ends it. Reads what waits or runs, never what has ended.
select id, topic, state, attempts, expired_leases, created_at, left(last_error, 120) as last_error
from job
where state in ('pending', 'failed') and expired_leases >= 3
union all
select id, topic, state, attempts, expired_leases, created_at, left(last_error, 120)
from job
where state = 'processing' and expired_leases >= 3
order by expired_leases desc, created_at;
