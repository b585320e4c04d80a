-- Done jobs, those that ended last first: along the index of what has ended. The dead and the canceled that lie between
-- are few. To be run after `in_order`.
-- $1 ended before this, $2 and at that moment ids below this one, $3 how many
select job.id, job.topic, job.state, job.priority, job.attempts, job.max_attempts, job.expired_leases,
       coalesce(job.idempotency_key, '') as idempotency_key, job.available_at, job.locked_by, job.locked_until,
       left(job.last_error, 400) as last_error, job.tags, job.progress::text as progress, job.created_at, job.updated_at
from "brooq".job
where state = 'done' and state in ('done', 'dead', 'canceled')
  and ($1::timestamptz is null or updated_at <= $1)
  and ($1::timestamptz is null or updated_at < $1 or id < $2::uuid)
order by updated_at desc, id desc
limit $3
