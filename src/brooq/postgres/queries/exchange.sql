-- Write the outcomes of ended attempts and claim the next jobs: one statement, one round trip, one commit.
--
-- Outcomes. The guard is the fence: only the very claim that holds the job (owner and claim_seq) may write. It waits for
-- a locked row, for at most a second: rivals that claim lock rows of ours in passing (their snapshot still shows them
-- ready) until they commit, so skipping locked rows here would skip rows by the dozen. Waiting is safe, as whoever holds
-- such a lock never waits itself; and a row that somebody really keeps locked ends in 55P03, after which the engine
-- writes its outcomes one by one. synchronous_commit is raised for this commit alone: a recorded outcome is a promise.
--
-- Claim. `ready` probes (topic, priority) pairs in the order asked; the outer LIMIT ends the nested loop as soon as
-- enough rows are locked, so the future, foreign topics and terminal rows are never walked, and never more rows are
-- touched than asked. MATERIALIZED keeps the LIMIT under every plan. any(array(…)) instead of a join: planned for an
-- unknown limit, a join would read the whole table for one batch. It comes after the outcomes: see above who waits.
--
-- $1 owner, $2 ids, $3 claim_seqs, $4 states, $5 errors, $6 delays in seconds, $7 refunds,
-- $8 topics, $9 limit, $10 lease
with settled as (
    update "brooq".job
    set state = outcome.state,
        attempts = greatest(job.attempts - outcome.refund, 0),
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
        updated_at = now()
    from unnest($2::uuid[], $3::bigint[], $4::text[], $5::text[], $6::float8[], $7::int[])
        as outcome (id, token, state, error, delay, refund)
    where job.id = outcome.id
      and job.state = 'processing' and job.locked_by = $1 and job.claim_seq = outcome.token
      and (select set_config('lock_timeout', '1s', true)
                  || case when current_setting('synchronous_commit') in ('off', 'local', 'remote_write')
                          then set_config('synchronous_commit', 'on', true) else '' end) is not null
    returning job.id, job.claim_seq
),
ready as materialized (
    select found.id
    from (
        select wanted.topic, level
        from unnest($8::text[]) with ordinality as wanted (topic, turn), generate_series(0, 9) as level
        order by wanted.turn, level
    ) as probe
    cross join lateral (
        select job.id
        from "brooq".job
        where job.topic = probe.topic
          and job.priority = probe.level
          and job.state in ('pending', 'failed')
          and job.available_at <= now()
        order by job.available_at, job.id
        limit $9
        for no key update skip locked
    ) as found
    limit $9
),
taken as (
    update "brooq".job
    set state = 'processing',
        attempts = least(job.attempts, 2147483646) + 1,
        claim_seq = job.claim_seq + 1,
        locked_by = $1,
        locked_until = now() + $10::interval,
        updated_at = now()
    where job.id = any(array(select id from ready))
    returning job.id, job.claim_seq, job.topic, job.payload, job.attempts, job.locked_until, job.max_attempts,
              job.priority, job.available_at
)
select id, claim_seq, null as topic, null as payload, null as attempts, null as locked_until, null as max_attempts,
       null as waited, null as priority, null as available_at
from settled
union all
select id, claim_seq, topic, payload::text, attempts, locked_until, max_attempts,
       extract(epoch from now() - available_at)::float8, priority, available_at
from taken
