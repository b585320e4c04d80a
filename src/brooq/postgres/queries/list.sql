-- Jobs for people to look at, newest first: a walk along the primary key from its end, over at most so many rows. What is
-- asked for is looked for among these alone, so that a page of a huge table costs what a page of a small one costs; whoever
-- has not found enough goes on where this one ended (`list_reach`).
--
-- Absent filters fold away, since the statement is planned with its values (it must not be prepared). Keyset, never OFFSET:
-- the page after a million rows costs what the first one costs.
-- $1 ids below this one, $2 ids above this one, $3 how many rows to walk, $4 topic, $5 state, $6 created since, $7 created
-- before, $8 text in last_error, $9 tag, $10 beginning of the worker's name (null: any), $11 how many
select id, topic, payload::text as payload, state, priority, attempts, max_attempts, claim_seq, expired_leases,
       coalesce(idempotency_key, '') as idempotency_key, available_at, locked_by, locked_until, last_error,
       failures::text as failures, tags, metadata::text as metadata, created_at, updated_at,
       retry_of, coalesce(concurrency_key, '') as concurrency_key, result::text as result, progress::text as progress
from (
    select * from "brooq".job
    where ($1::uuid is null or id < $1) and ($2::uuid is null or id > $2)
    order by id desc
    limit $3::bigint
) as walked
where ($4::text is null or topic = $4) and ($5::text is null or state = $5)
  and ($6::timestamptz is null or created_at >= $6) and ($7::timestamptz is null or created_at < $7)
  and ($8::text is null or position(lower($8) in lower(last_error)) > 0)
  and ($9::text is null or tags @> array[$9]) and ($10::text is null or starts_with(locked_by, $10))
order by id desc
limit $11::bigint
