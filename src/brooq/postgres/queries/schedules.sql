-- The periodic jobs, the database's time, and when the next tick of any of them comes.
-- $1 whether only those whose tick has come, or whose last tick lies ahead because the clock was set back
select now(), (select min(every.next_at) from "brooq".brooq_schedule as every where every.paused_at is null),
       name, topic, cron, timezone, payload::text, priority, max_attempts, coalesce(concurrency_key, ''), missed,
       missed_limit, declared, paused_at, paused_by, next_at, last_at, last_job
from (select) as one
left join "brooq".brooq_schedule
    on not $1::boolean or (paused_at is null and (next_at <= now() or last_at > now()))
order by name
