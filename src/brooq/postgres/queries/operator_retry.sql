-- Do a finished job once more: as a new job that names the old one, whose row is not touched, since a terminal state is
-- never overwritten. The new one has no idempotency key: the old row goes on holding it. While an earlier retry of the same
-- job is still under way, none is made: it is told instead. Who did it and why is written down in the same commit, also
-- when nothing came of it. To be run while the row is held (`operator_hold`). Waking workers: see `enqueue`.
-- $1 id, $2 id of the new job, $3 actor, $4 reason, $5 whether to wake workers
with found as materialized (
    select id, state, topic, payload, priority, max_attempts, tags, metadata, concurrency_key
    from "brooq".job where id = $1::uuid
),
standing as materialized (
    select job.id
    from "brooq".brooq_operation as operation
    join "brooq".job on job.id = operation.made
    where operation.job = $1::uuid and operation.action = 'retry' and job.state in ('pending', 'processing', 'failed')
    order by operation.id desc limit 1
),
written as (
    insert into "brooq".job (id, topic, payload, priority, max_attempts, tags, metadata, concurrency_key, retry_of)
    select $2::uuid, topic, payload, priority, max_attempts, tags, metadata, concurrency_key, id
    from found
    where state in ('done', 'dead', 'canceled') and not exists (select from standing)
      and (select case when current_setting('synchronous_commit') in ('off', 'local', 'remote_write')
                       then set_config('synchronous_commit', 'on', true) else '' end) is not null
    returning id, topic
),
noted as (
    insert into "brooq".brooq_operation (actor, action, job, topic, found, done, reason, made)
    select $3::text, 'retry', found.id, found.topic, found.state, written.id is not null, $4::text, written.id
    from found left join written on true
),
woken as (
    select case when pg_try_advisory_lock(hashtext('"brooq".'), hashtext(topic))
                then pg_advisory_unlock(hashtext('"brooq".'), hashtext(topic))::text
                else pg_notify('brooq_wakeups', '"brooq".' || topic)::text end as told
    from written where $5::boolean
)
select found.state, found.topic, written.id, standing.id, (select count(told) from woken)
from found left join written on true left join standing on true
