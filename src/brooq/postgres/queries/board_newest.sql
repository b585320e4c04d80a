-- Jobs for the dashboard, newest first, whatever is asked for: of the newest rows before a point at most so many are looked
-- at, so that a page costs the same in any table. The answer says how far it looked, and the next page goes on there; its
-- one row without a job says so when nothing fits.
-- $1 ids below this one, $2 how many to look at, $3 topic, $4 state, $5 worker, $6 words of the last error, $7 how many
with looked as materialized (
    select id,
           ($3::text is null or topic = $3) and ($4::text is null or state = $4)
           and ($5::text is null or locked_by = $5)
           and ($6::text is null or position(lower($6) in lower(last_error)) > 0) as fits
    from "brooq".job where $1::uuid is null or id < $1 order by id desc limit $2
),
page as materialized (select id from looked where fits order by id desc limit $7)
select job.id, job.topic, job.state, job.priority, job.attempts, job.max_attempts, job.expired_leases,
       coalesce(job.idempotency_key, '') as idempotency_key, job.available_at, job.locked_by, job.locked_until,
       left(job.last_error, 400) as last_error, job.tags, job.progress::text as progress, job.created_at, job.updated_at,
       seen.last as looked_to, seen.count < $2 as looked_at_all
from (select count(*) as count, (select id from looked order by id limit 1) as last from looked) as seen
left join (page join "brooq".job using (id)) on true
order by job.id desc
