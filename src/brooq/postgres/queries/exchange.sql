-- Write the outcomes of ended attempts and claim the next jobs: one statement, one round trip, one commit.
--
-- Outcomes. The guard is the fence: only the very claim that holds the job (owner and claim_seq) may write. It waits for
-- a locked row, for at most a second: rivals that claim lock rows of ours in passing (their snapshot still shows them
-- ready) until they commit, so skipping locked rows here would skip rows by the dozen. Waiting is safe, as whoever holds
-- such a lock never waits itself; and a row that somebody really keeps locked ends in 55P03, after which the engine
-- writes its outcomes one by one. synchronous_commit is raised for this commit alone: a recorded outcome is a promise.
-- A success is what an array that is too short says: unnest fills up with nulls, so a batch of successes is two arrays.
-- The arrays come out of a subselect, and `is not distinct from` keeps the index of held jobs out of the plan: of
-- unknown length, they are looked up by primary key, not by walking all that is or was held. `any(array[…])` is no
-- equality to join by, so that each row is looked up under every plan: one from when the table was small merged all of the
-- primary key with them.
--
-- Claim. `ready` probes (topic, priority) pairs in the order asked; the outer LIMIT ends the nested loop as soon as
-- enough rows are locked, so the future, foreign topics and terminal rows are never walked, and never more rows are
-- touched than asked. Only the topics are sorted, before any of them is asked: sorted with their priorities, all would have
-- to be asked before the first row. A topic without a waiting job costs one probe. `since` is where an earlier claim of the
-- same backlog ended: dead index entries before it are not walked again (see the store, which looks from the beginning
-- often enough). Topics that are paused or limited are left out (`steered`): few, asked for once. MATERIALIZED keeps the
-- LIMIT under every plan.
-- The lock is FOR UPDATE, of which FOR NO KEY UPDATE would be enough against rivals: a consumer's transaction that was
-- told by brooq_assert_held that its claim is held keeps a FOR KEY SHARE lock on the row, which renewals and outcomes
-- (FOR NO KEY UPDATE) go past, and a next claim must not.
-- ctid = any(array(…)) instead of a join: planned for an unknown limit, a join would read the whole table for one batch.
-- It comes after the outcomes: see above who waits.
-- The order of the answer is the order of starting: priority, readiness, id. One row more, without an id, tells how many
-- outcomes were written, which ones when it was not all of them, the time, and (as its topic) which topics have jobs that
-- wait for a claim within their limits: see `claim_limited`.
--
-- $1 owner, $2 ids, $3 claim_seqs, $4 states, $5 errors, $6 delays in seconds, $7 refunds,
-- $8 topics, $9 limit, $10 lease, $11 topics, $12 priorities, $13 available_at and $14 ids of where to go on,
-- $15 results as JSON text
with settled as (
    update "brooq".job
    set state = coalesce(outcome.state, 'done'),
        attempts = greatest(job.attempts - coalesce(outcome.refund, 0), 0),
        available_at = case when outcome.delay is null then job.available_at
                            else now() + make_interval(secs => outcome.delay) end,
        locked_by = case when outcome.state in ('pending', 'failed') then null else job.locked_by end,
        locked_until = case when outcome.state in ('pending', 'failed') then null else job.locked_until end,
        last_error = coalesce(outcome.error, job.last_error),
        failures = case when outcome.error is null or outcome.state not in ('failed', 'dead') then job.failures
                        else (case when jsonb_array_length(job.failures) >= 10 then job.failures - 0
                                   else coalesce(job.failures, '[]') end)
                             || jsonb_build_object('attempt', job.attempts, 'at', now(), 'worker', job.locked_by,
                                                   'error', left(outcome.error, 500)) end,
        result = coalesce(outcome.result::jsonb, job.result),
        updated_at = now()
    from unnest(
        (select $2::uuid[]), (select $3::bigint[]), (select $4::text[]), (select $5::text[]), (select $6::float8[]),
        (select $7::int[]), (select $15::text[])
    ) as outcome (id, token, state, error, delay, refund, result)
    where job.id = any(array[outcome.id])
      and job.state is not distinct from 'processing' and job.locked_by = $1 and job.claim_seq = outcome.token
      and (select set_config('lock_timeout', '1s', true)
                  || case when current_setting('synchronous_commit') in ('off', 'local', 'remote_write')
                          then set_config('synchronous_commit', 'on', true) else '' end) is not null
    returning job.id, job.claim_seq
),
steered as materialized (
    select topic, paused_at is not null as paused
    from "brooq".brooq_topic
    where topic = any((select $8::text[])::text[])
      and (paused_at is not null or ordered
           or coalesce(max_running, max_running_per_key, rate) is not null)
),
ready as materialized (
    select found.ctid
    from (
        select wanted.topic, level, wanted.moments[array_position(wanted.levels, level)] as available_at,
               wanted.ids[array_position(wanted.levels, level)] as id
        from (
            select asked.topic, since.levels, since.moments, since.ids
            from unnest((select $8::text[])) with ordinality as asked (topic, turn)
            left join (
                select mark.topic, array_agg(mark.level) as levels, array_agg(mark.available_at) as moments,
                       array_agg(mark.id) as ids
                from unnest((select $11::text[]), (select $12::int[]), (select $13::timestamptz[]), (select $14::uuid[]))
                    as mark (topic, level, available_at, id)
                group by mark.topic
            ) as since using (topic)
            where asked.topic <> all (array(select topic from steered))
            order by asked.turn
        ) as wanted
        cross join lateral (
            select case when wanted.levels is not null then 0
                        else (select job.priority from "brooq".job
                              where job.topic = wanted.topic and job.state in ('pending', 'failed')
                              order by job.priority limit 1) end as lowest
        ) as first
        cross join lateral generate_series(first.lowest, 9) as level
    ) as probe
    cross join lateral (
        select job.ctid
        from "brooq".job
        where job.topic = probe.topic
          and job.priority = probe.level
          and job.state in ('pending', 'failed')
          and job.available_at <= now()
          and (job.available_at, job.id) > (
              coalesce(probe.available_at, '-infinity'), coalesce(probe.id, '00000000-0000-0000-0000-000000000000')
          )
        order by job.available_at, job.id
        limit (select $9::int)
        for update skip locked
    ) as found
    limit (select $9::int)
),
taken as (
    update "brooq".job
    set state = 'processing',
        attempts = least(job.attempts, 2147483646) + 1,
        claim_seq = job.claim_seq + 1,
        locked_by = $1,
        locked_until = now() + $10::interval,
        updated_at = now()
    where job.ctid = any(array(select ctid from ready))
    returning job.id, job.claim_seq, job.topic, job.payload, job.attempts, job.max_attempts, job.priority, job.available_at,
              job.expired_leases, job.metadata
)
(select id, claim_seq, topic, payload::text, attempts, max_attempts, priority, available_at, expired_leases,
        metadata::text
 from taken order by priority, available_at, id)
union all
select null, count(*),
       (select string_agg(steered.topic, ' ') from steered
        where not steered.paused and exists (
            select from "brooq".job where job.topic = steered.topic and job.state in ('pending', 'failed')
        )),
       case when count(*) < cardinality($2) then json_agg(json_build_array(id, claim_seq))::text end,
       null, null, null, now(), null, null
from settled
