-- As `list`, for a state that few jobs are in: all of them by the index of their state, and the newest of these. Only
-- what is asked about is read of each before it is known which ones are shown.
-- $1 ids below this one, $2 topic, $3 state, $4 bound of the few, $5 created since, $6 created before, $7 text in
-- last_error, $8 tag, $9 beginning of the worker's name (null: any), $10 how many
with few as materialized (
    select id from "brooq".job
    where state = $3::text and ($2::text is null or topic = $2) and ($1::uuid is null or id < $1)
      and ($5::timestamptz is null or created_at >= $5) and ($6::timestamptz is null or created_at < $6)
      and ($7::text is null or position(lower($7) in lower(last_error)) > 0)
      and ($8::text is null or tags @> array[$8]) and ($9::text is null or starts_with(locked_by, $9))
    limit $4::bigint
),
shown as materialized (
    select id from few order by id desc limit $10::bigint
)
select id, topic, payload::text as payload, state, priority, attempts, max_attempts, claim_seq, expired_leases,
       coalesce(idempotency_key, '') as idempotency_key, available_at, locked_by, locked_until, last_error,
       failures::text as failures, tags, metadata::text as metadata, created_at, updated_at,
       retry_of, coalesce(concurrency_key, '') as concurrency_key, result::text as result, progress::text as progress
from shown join "brooq".job using (id)
order by id desc
