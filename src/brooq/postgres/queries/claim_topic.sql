-- Claim the next jobs of one topic: what `exchange` does for many and with outcomes. A worker that was
-- woken up asks for the topic that it heard of, and its job waits for just this statement.
--
-- The comments of `exchange` hold here too. Every parameter comes out of a subselect, so that one plan is kept for all
-- values. Levels are probed from the first priority that waits to the last: ten probes for one job would cost more than
-- all the rest. synchronous_commit is raised for this commit alone. The last row tells what `exchange` tells in its last one.
-- $1 owner, $2 topic, $3 limit, $4 lease
with steered as materialized (
    select topic, paused_at is not null as paused
    from "brooq".brooq_topic
    where topic = (select $2::text)
      and (paused_at is not null or ordered
           or coalesce(max_running, max_running_per_key, rate) is not null)
),
ready as materialized (
    select found.ctid
    from generate_series(
        (select job.priority::int from "brooq".job
         where job.topic = (select $2::text) and job.state in ('pending', 'failed')
         order by job.priority limit 1),
        (select job.priority::int from "brooq".job
         where job.topic = (select $2::text) and job.state in ('pending', 'failed')
         order by job.priority desc limit 1)
    ) as level
    cross join lateral (
        select job.ctid
        from "brooq".job
        where job.topic = (select $2::text)
          and job.priority = level
          and job.state in ('pending', 'failed')
          and job.available_at <= now()
        order by job.available_at, job.id
        limit (select $3::int)
        for update skip locked
    ) as found
    where not exists (select from steered)
    limit (select $3::int)
),
taken as (
    update "brooq".job
    set state = 'processing',
        attempts = least(job.attempts, 2147483646) + 1,
        claim_seq = job.claim_seq + 1,
        locked_by = $1,
        locked_until = now() + $4::interval,
        updated_at = now()
    where job.ctid = any(array(select ctid from ready))
      and (select case when current_setting('synchronous_commit') in ('off', 'local', 'remote_write')
                       then set_config('synchronous_commit', 'on', true) else '' end) is not null
    returning job.id, job.claim_seq, job.topic, job.payload, job.attempts, job.max_attempts, job.priority, job.available_at,
              job.expired_leases, job.metadata
)
(select id, claim_seq, topic, payload::text, attempts, max_attempts, priority, available_at, expired_leases,
        metadata::text
 from taken order by priority, available_at, id)
union all
select null, 0,
       (select steered.topic from steered
        where not steered.paused and exists (
            select from "brooq".job where job.topic = steered.topic and job.state in ('pending', 'failed')
        )),
       null, null, null, null, now(), null, null
