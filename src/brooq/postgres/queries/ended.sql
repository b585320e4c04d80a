-- Which of these jobs are there, and the whole row of each that is at its end: one statement for all who wait for a job.
-- The payloads of the others are not read.
-- $1 ids
select id, topic, case when over then payload::text end as payload, state, priority, attempts, max_attempts, claim_seq,
       expired_leases, coalesce(idempotency_key, '') as idempotency_key, available_at, locked_by, locked_until, last_error,
       failures::text as failures, tags, metadata::text as metadata, created_at, updated_at,
       retry_of, coalesce(concurrency_key, '') as concurrency_key, result::text as result, progress::text as progress
from (
    select job.*, job.state in ('done', 'dead', 'canceled') as over from "brooq".job where id = any($1::uuid[])
) as wanted
