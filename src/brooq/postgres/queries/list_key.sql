-- The jobs with an idempotency key, at most one of each topic. Topics that have keys at all are found by skipping through
-- the index from one to the next, a bounded number of times.
-- $1 topic (null: any), $2 key, $3 how many topics to look at
with recursive topics (topic, step) as (
    (select topic, 1 from "brooq".job
     where idempotency_key is not null and ($1::text is null or topic = $1) order by topic limit 1)
    union all
    select (select job.topic from "brooq".job
            where job.idempotency_key is not null and job.topic > topics.topic order by job.topic limit 1),
           step + 1
    from topics
    where topics.topic is not null and step < $3::int and $1::text is null
)
select id, job.topic, payload::text as payload, state, priority, attempts, max_attempts, claim_seq, expired_leases,
       coalesce(idempotency_key, '') as idempotency_key, available_at, locked_by, locked_until, last_error,
       failures::text as failures, tags, metadata::text as metadata, created_at, updated_at,
       retry_of, coalesce(concurrency_key, '') as concurrency_key, result::text as result, progress::text as progress
from topics
join "brooq".job on job.topic = topics.topic and job.idempotency_key = $2::text
order by id desc
