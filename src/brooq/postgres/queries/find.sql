-- A job's row as it is now.
-- $1 id
select id, topic, payload::text as payload, state, priority, attempts, max_attempts, claim_seq, expired_leases,
       coalesce(idempotency_key, '') as idempotency_key, available_at, locked_by, locked_until, last_error,
       failures::text as failures, tags, metadata::text as metadata, created_at, updated_at,
       retry_of, coalesce(concurrency_key, '') as concurrency_key, result::text as result, progress::text as progress
from "brooq".job
where id = $1::uuid
