-- Jobs that workers hold, newest first: as few as there are slots, with an index of their own.
-- $1 ids below this one, $2 topic, $3 worker, $4 words of the last error, $5 how many
select job.id, job.topic, job.state, job.priority, job.attempts, job.max_attempts, job.expired_leases,
       coalesce(job.idempotency_key, '') as idempotency_key, job.available_at, job.locked_by, job.locked_until,
       left(job.last_error, 400) as last_error, job.tags, job.progress::text as progress, job.created_at, job.updated_at
from "brooq".job
where state = 'processing' and ($1::uuid is null or id < $1) and ($2::text is null or topic = $2)
  and ($3::text is null or locked_by = $3) and ($4::text is null or position(lower($4) in lower(last_error)) > 0)
order by id desc
limit $5
