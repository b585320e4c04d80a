-- Why does a job not run? What is known of it, of its topic and of what is before it, at a bounded cost: what is before
-- it is counted along the index of the claim up to a bound, what has ended lately along the index of retention up to
-- another one, and held jobs are few. No payload is read, so that whoever may only look can ask too.
-- $1 id, $2 bound of what is counted, $3 how long ago "lately" began
with asked as (
    select id, topic, state, priority, attempts, max_attempts, expired_leases, coalesce(concurrency_key, '') as key,
           available_at, locked_by, locked_until, last_error, failures, retry_of, created_at, updated_at
    from "brooq".job where id = $1::uuid
),
before as (
    select count(*) as jobs
    from (
        select
        from asked
        cross join generate_series(0, asked.priority) as level
        cross join lateral (
            -- One comparison of rows, so that it is a range of the index: an `or` would be a filter over all that waits.
            select case when level < asked.priority then now() else least(asked.available_at, now()) end as available_at,
                   case when level < asked.priority then 'ffffffff-ffff-ffff-ffff-ffffffffffff' else asked.id end as id
        ) as until
        cross join lateral (
            select from "brooq".job
            where job.topic = asked.topic and job.priority = level and job.state in ('pending', 'failed')
              and (job.available_at, job.id) < (until.available_at, until.id)
            order by job.available_at, job.id
            limit $2::bigint
        ) as waiting
        where asked.state in ('pending', 'failed')
        limit $2::bigint
    ) as found
),
held as (
    select count(*) as topic, count(*) filter (where coalesce(job.concurrency_key, '') = asked.key) as key
    from asked join "brooq".job on job.topic = asked.topic
    where job.state = 'processing'
),
first as (
    -- In an ordered topic, whoever waits before it with its key: the first of them, by the index of the keyed.
    select asked.id, (
        select job.id from "brooq".job
        where job.topic = asked.topic and job.concurrency_key between asked.key and asked.key
          and job.state in ('pending', 'failed') and job.concurrency_key is not null
        order by job.concurrency_key, job.id limit 1
    ) as of_key
    from asked where asked.key <> '' and asked.state in ('pending', 'failed')
),
ended as (
    select count(*) as looked_at, count(*) filter (where found.topic = asked.topic) as jobs,
           coalesce(extract(epoch from now() - min(found.updated_at)), 0)::float8 as reach
    from asked
    cross join lateral (
        select job.topic, job.updated_at from "brooq".job
        where job.state in ('done', 'dead', 'canceled') and job.updated_at > now() - $3::interval
        order by job.updated_at desc
        limit $2::bigint
    ) as found
)
select asked.id, asked.topic, asked.state, asked.priority, asked.attempts, asked.max_attempts, asked.expired_leases,
       asked.key, asked.available_at, asked.locked_by, asked.locked_until, asked.last_error, asked.failures::text,
       asked.retry_of, asked.created_at, asked.updated_at,
       now() as now, before.jobs as before, held.topic as held, held.key as held_of_key,
       ended.jobs as ended, ended.looked_at, ended.reach,
       topic.paused_at, topic.paused_by, topic.pause_reason, topic.max_running,
       case when topic.ordered then 1 else topic.max_running_per_key end as max_running_per_key,
       case when topic.ordered and first.of_key < asked.id then first.of_key end as behind, topic.rate,
       extract(epoch from topic.rate_period)::float8 as rate_period,
       -- The bucket as full as it is by now.
       least(topic.rate, coalesce(topic.tokens, topic.rate)
             + greatest(coalesce(extract(epoch from now() - topic.tokens_at), 0), 0) * topic.rate
               / nullif(extract(epoch from topic.rate_period), 0))::float8 as tokens,
       has_table_privilege('"brooq".brooq_operation'::regclass, 'select') as trail
from asked
cross join before
cross join held
cross join ended
left join first on first.id = asked.id
left join "brooq".brooq_topic as topic on topic.topic = asked.topic
