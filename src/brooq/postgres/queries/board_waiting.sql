-- Waiting jobs in the order of their readiness. Topics are found by skipping through the index, a bounded number of them;
-- each gives, for each priority, its first few after the point where the last page ended, and the page is the first of
-- all those. Of the other waiting state at most so many rows are passed over.
-- $1 state, $2 topic (null: any), $3 ready after this, $4 and of that moment ids above this one,
-- $5 words of the last error, $6 how many rows to look at for each topic and priority, $7 how many
with recursive
found (topic, step) as (
    (select topic, 1 from "brooq".job where state in ('pending', 'failed') and $2::text is null order by topic limit 1)
    union all
    select (select job.topic from "brooq".job
            where job.state in ('pending', 'failed') and job.topic > found.topic order by job.topic limit 1),
           step + 1
    from found
    where found.topic is not null and step < 100
),
topics as materialized (
    select topic from found where topic is not null
    union all
    select $2::text where $2::text is not null
),
page as materialized (
    select near.id, near.available_at
    from topics
    cross join generate_series(0, 9) as level
    cross join lateral (
        select id, available_at, state, last_error from "brooq".job
        where job.topic = topics.topic and job.priority = level and job.state in ('pending', 'failed')
          and ($3::timestamptz is null or (job.available_at, job.id) > ($3, $4::uuid))
        order by job.available_at, job.id limit $6
    ) as near
    where near.state = $1::text and ($5::text is null or position(lower($5) in lower(near.last_error)) > 0)
    order by near.available_at, near.id
    limit $7
)
select job.id, job.topic, job.state, job.priority, job.attempts, job.max_attempts, job.expired_leases,
       coalesce(job.idempotency_key, '') as idempotency_key, job.available_at, job.locked_by, job.locked_until,
       left(job.last_error, 400) as last_error, job.tags, job.progress::text as progress, job.created_at, job.updated_at
from page join "brooq".job using (id)
order by job.available_at, job.id
