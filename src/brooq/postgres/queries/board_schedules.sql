-- A page of the periodic jobs, by name, with the database's time. Never their payloads: a page that everybody may see does not
-- need them, and so many would be large. They are few, and each look is one walk along the key.
-- $1 the name at which the last page ended, $2 topic (null: any), $3 how many
select now(), name, topic, cron, timezone, null::text as payload, priority, max_attempts, coalesce(concurrency_key, ''),
       missed, missed_limit, declared, paused_at, paused_by, next_at, last_at, last_job
from "brooq".brooq_schedule
where ($1::text is null or name > $1::text) and ($2::text is null or topic = $2::text)
order by name
limit $3::int
