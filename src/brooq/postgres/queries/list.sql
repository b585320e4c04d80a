-- Jobs for people to look at, newest first, a page at a time.
--
-- Absent filters fold away, since the statement is planned with its values (it must not be prepared): then a state has
-- the partial index of its kind, and everything else walks the primary key from its end, no further than the page.
-- Keyset, never OFFSET: the page after a million rows costs what the first one costs.
-- $1 ids below this one, $2 topic, $3 state (null: any), $4 how many
select id, topic, payload::text as payload, state, priority, attempts, max_attempts, claim_seq, expired_leases,
       coalesce(idempotency_key, '') as idempotency_key, available_at, locked_by, locked_until, last_error,
       failures::text as failures, tags, metadata::text as metadata, created_at, updated_at,
       retry_of, coalesce(concurrency_key, '') as concurrency_key, result::text as result, progress::text as progress
from "brooq".job
where ($1::uuid is null or id < $1) and ($2::text is null or topic = $2) and ($3::text is null or state = $3)
order by id desc
limit $4
