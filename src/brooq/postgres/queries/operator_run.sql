-- Enqueue a job of a periodic one now, beside its ticks: what those enqueue, ready at once and without the key of a tick. Who
-- asked for it and why is written down in the same commit, beside the new job, whose page then tells it. Wake-ups: see `enqueue`.
-- $1 name, $2 id of the job, $3 actor, $4 reason, $5 whether to wake workers
with found as materialized (
    select name, topic, payload, priority, max_attempts, concurrency_key, jsonb_build_object('schedule', name) as told
    from "brooq".brooq_schedule where name = $1::text
),
written as (
    insert into "brooq".job (id, topic, payload, priority, max_attempts, metadata, concurrency_key)
    select $2::uuid, topic, coalesce(payload, told), priority, max_attempts, told, concurrency_key
    from found
    where (select case when current_setting('synchronous_commit') in ('off', 'local', 'remote_write')
                       then set_config('synchronous_commit', 'on', true) else '' end) is not null
    returning id, topic
),
noted as (
    insert into "brooq".brooq_operation (actor, action, job, topic, found, done, reason)
    select $3::text, 'schedule', written.id, written.topic, 'ran ' || found.name, true, $4::text from found, written
),
woken as (
    select case when pg_try_advisory_lock(hashtext('"brooq".'), hashtext(topic))
                then pg_advisory_unlock(hashtext('"brooq".'), hashtext(topic))::text
                else pg_notify('brooq_wakeups', '"brooq".' || topic)::text end as told
    from written where $5::boolean
)
select id, (select count(told) from woken) from written
