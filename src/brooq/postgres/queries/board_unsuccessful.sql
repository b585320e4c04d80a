-- Dead or canceled jobs, those that ended last first: topic by topic through their index, a bounded number of topics and of
-- rows in each, and the page is the first of all those.
-- $1 state, $2 topic (null: any), $3 ended before this, $4 and at that moment ids below this one,
-- $5 words of the last error, $6 how many rows to look at for each topic, $7 how many
with recursive
found (topic, step) as (
    (select topic, 1 from "brooq".job where state = $1 and state in ('dead', 'canceled') and $2::text is null
     order by topic limit 1)
    union all
    select (select job.topic from "brooq".job
            where job.state = $1 and job.state in ('dead', 'canceled') and job.topic > found.topic
            order by job.topic limit 1),
           step + 1
    from found
    where found.topic is not null and step < 200
),
topics as materialized (
    select topic from found where topic is not null
    union all
    select $2::text where $2::text is not null
),
page as materialized (
    select late.id, late.updated_at
    from topics
    cross join lateral (
        select id, updated_at, last_error from "brooq".job
        where job.state = $1 and job.state in ('dead', 'canceled')
          -- A range of one topic, in the order of this index and no other: with `=` it could be all that is terminal.
          and job.topic >= topics.topic and job.topic <= topics.topic
          and ($3::timestamptz is null or job.updated_at < $3 or (job.updated_at = $3 and job.id < $4::uuid))
          and ($3::timestamptz is null or job.updated_at <= $3)
        order by job.topic desc, job.updated_at desc, job.id desc limit $6
    ) as late
    where $5::text is null or position(lower($5) in lower(late.last_error)) > 0
    order by late.updated_at desc, late.id desc
    limit $7
)
select job.id, job.topic, job.state, job.priority, job.attempts, job.max_attempts, job.expired_leases,
       coalesce(job.idempotency_key, '') as idempotency_key, job.available_at, job.locked_by, job.locked_until,
       left(job.last_error, 400) as last_error, job.tags, job.progress::text as progress, job.created_at, job.updated_at
from page join "brooq".job using (id)
order by job.updated_at desc, job.id desc
