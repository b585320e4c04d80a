-- Claim jobs of one topic within its limits. The transaction has the topic's row locked (see `lock_topic`), and this
-- statement's snapshot is younger than the lock: every earlier claim is counted, and nobody claims meanwhile. Jobs that
-- end are counted until their end is committed, those of dead workers until the reaper has taken them.
--
-- `walked` are the first ready jobs of the topic in their order, as `exchange` has them. Each counts if its key has room.
-- When so many jobs of busy keys stand before all others that the walk ends at its bound, `keys` skips through the index
-- of keyed jobs from one key to the next, a bounded number of them a claim, beginning where the last claim ended; of each
-- it looks at the first jobs in the order of enqueueing. Jobs without a key are looked for behind the walk (`beyond`),
-- bounded and resumed in the same way. What comes out is put in order again, so that with few keys the order is exact.
-- (A key is `between` itself and itself, so that it is part of the order asked for: then only that index has the order, and
-- the planner does not walk the primary key in the hope of meeting the key soon.)
-- In an ordered topic a job counts only as the first of its key; whichever waits there for its retry keeps the rest back.
--
-- The rate is a bucket of tokens: full at first, refilled evenly. The clock is the real one, since the transaction may have
-- waited for its lock; where it was set back, the bucket goes on from there.
--
-- Rows are locked last, and only those that are taken; as in `exchange`, against consumers' fenced transactions too. ctid = any(array(…)): see `exchange`. One row more, without an id,
-- tells the time, after how many seconds the next token comes if that is what was missing, and where to go on.
--
-- $1 owner, $2 topic, $3 limit, $4 lease, $5 how far to walk, $6 how many keys to skip through, $7 how many jobs of each to
-- look at, $8 the key to go on after, $9 to $11 priority, available_at and id of the job to go on after
with recursive limits as materialized (
    select held.max_running, case when held.ordered then 1 else held.max_running_per_key end as per_key, held.ordered,
           held.rate, held.rate_period, clock.now as at, held.tokens_at > clock.now as ahead,
           least(
               held.rate,
               coalesce(held.tokens, held.rate)
                   + held.rate * greatest(extract(epoch from clock.now - coalesce(held.tokens_at, clock.now))::float8, 0)
                   / extract(epoch from held.rate_period)::float8
           ) as tokens
    from "brooq".brooq_topic as held, (select clock_timestamp() as now) as clock
    where held.topic = $2::text and held.paused_at is null
),
running as materialized (
    select job.concurrency_key as key, count(*) as jobs
    from "brooq".job
    where job.state = 'processing' and job.topic = $2::text
    group by job.concurrency_key
),
room as materialized (
    select greatest(least(
               $3::int,
               case when limits.max_running is not null
                    then limits.max_running - (select coalesce(sum(jobs), 0) from running) end,
               floor(limits.tokens)
           ), 0)::int as jobs
    from limits
),
walked as materialized (
    select found.*
    from generate_series(
        (select job.priority from "brooq".job
         where job.topic = $2::text and job.state in ('pending', 'failed') order by job.priority limit 1)::int, 9
    ) as level
    cross join lateral (
        select job.ctid as place, job.concurrency_key as key, job.priority, job.available_at, job.id
        from "brooq".job
        where job.topic = $2::text and job.priority = level and job.state in ('pending', 'failed')
          and job.available_at <= now()
        order by job.available_at, job.id
        limit (select $5::int)
    ) as found
    where (select jobs from room) > 0
    limit (select $5::int)
),
near as materialized (
    select walked.*
    from walked, limits
    where walked.key is null or not limits.ordered or walked.id = (
        select head.id
        from "brooq".job as head
        where head.topic = $2::text and head.concurrency_key between walked.key and walked.key
          and head.state in ('pending', 'failed') and head.concurrency_key is not null
        order by head.concurrency_key, head.id limit 1
    )
),
beside as materialized (
    -- Whether what is near is not all that could be taken.
    select limits.per_key is not null and (select count(*) from walked) >= $5::int and (
               select count(*)
               from (
                   select near.key, coalesce(running.jobs, 0) as jobs,
                          row_number() over (partition by near.key order by near.priority, near.available_at, near.id) as nth
                   from near left join running on running.key = near.key
               ) as placed
               where placed.key is null or placed.nth + placed.jobs <= limits.per_key
           ) < (select jobs from room) as wanted
    from limits
),
keys (key, step) as (
    (select job.concurrency_key::text, 1
     from "brooq".job
     where job.topic = $2::text and job.state in ('pending', 'failed') and job.concurrency_key is not null
       and job.concurrency_key > $8::text and (select wanted from beside)
     order by job.concurrency_key limit 1)
    union all
    select (select job.concurrency_key::text from "brooq".job
            where job.topic = $2::text and job.state in ('pending', 'failed') and job.concurrency_key is not null
              and job.concurrency_key > keys.key
            order by job.concurrency_key limit 1),
           keys.step + 1
    from keys
    where keys.key is not null and keys.step <= $6::int
),
far as materialized (
    select line.*
    from limits, keys
    left join running on running.key = keys.key
    cross join lateral (
        select first.*
        from (
            select job.ctid as place, keys.key, job.priority, job.available_at, job.id
            from "brooq".job
            where job.topic = $2::text and job.concurrency_key between keys.key and keys.key
              and job.state in ('pending', 'failed') and job.concurrency_key is not null
            order by job.concurrency_key, job.id
            limit (case when limits.ordered then 1 else $7::int end)
        ) as first
        where first.available_at <= now()
        order by first.priority, first.available_at, first.id
        limit greatest(limits.per_key - coalesce(running.jobs, 0), 0)
    ) as line
    where keys.key is not null and keys.step <= $6::int
),
beyond as materialized (
    select job.ctid as place, job.concurrency_key as key, job.priority, job.available_at, job.id
    from "brooq".job
    where job.topic = $2::text and job.state in ('pending', 'failed')
      and (job.priority, job.available_at, job.id) > ($9::int, $10::timestamptz, $11::uuid)
      and (select wanted from beside)
    order by job.priority, job.available_at, job.id
    limit (select $5::int)
),
chosen as materialized (
    select ranked.place
    from (
        select every.*, row_number() over (partition by every.key order by every.priority, every.available_at, every.id) as nth
        from (
            select place, key, priority, available_at, id from near
            union
            select place, key, priority, available_at, id from far
            union
            select place, key, priority, available_at, id from beyond where key is null and available_at <= now()
        ) as every
    ) as ranked
    cross join limits
    left join running on running.key = ranked.key
    where limits.per_key is null or ranked.key is null or ranked.nth + coalesce(running.jobs, 0) <= limits.per_key
    order by ranked.priority, ranked.available_at, ranked.id
    limit (select jobs from room)
),
locked as materialized (
    select job.ctid as place
    from "brooq".job
    where job.ctid = any(array(select place from chosen)) and job.state in ('pending', 'failed')
    for update skip locked
),
taken as (
    update "brooq".job
    set state = 'processing',
        attempts = least(job.attempts, 2147483646) + 1,
        claim_seq = job.claim_seq + 1,
        locked_by = $1::text,
        locked_until = now() + $4::interval,
        updated_at = now()
    where job.ctid = any(array(select place from locked))
    returning job.id, job.claim_seq, job.topic, job.payload, job.attempts, job.max_attempts, job.priority, job.available_at,
              job.expired_leases, job.metadata
),
counted as materialized (
    select count(*) as jobs from taken
),
spent as (
    update "brooq".brooq_topic as held
    set tokens = limits.tokens - counted.jobs, tokens_at = limits.at
    from limits, counted
    where held.topic = $2::text and limits.rate is not null and (counted.jobs > 0 or limits.ahead)
)
(select id, claim_seq, topic::text, payload::text, attempts, max_attempts, priority, available_at,
        null::float8 as wait, null::text as key, null::int as mark_priority, null::timestamptz as mark_at,
        null::uuid as mark_id, expired_leases, metadata::text
 from taken order by priority, available_at, id)
union all
select null, counted.jobs, null, null, null, null, null, now(),
       case when limits.rate is not null and limits.tokens - counted.jobs < 1
            then (1 - limits.tokens + counted.jobs) / limits.rate * extract(epoch from limits.rate_period)::float8 end,
       (select keys.key from keys where keys.step = $6::int),
       last.priority, last.available_at, last.id, null, null
from counted
left join limits on true
left join lateral (
    select priority, available_at, id from beyond
    where (select count(*) from beyond) >= $5::int
    order by priority desc, available_at desc, id desc limit 1
) as last on true
