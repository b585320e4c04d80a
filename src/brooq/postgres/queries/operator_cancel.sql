-- Cancel a job by hand, and write down who did it and why, in one commit: neither is there without the other. Otherwise
-- as `cancel`. A job that is terminal already is left alone, and that somebody tried is written down all the same.
-- $1 id, $2 actor, $3 reason
with found as materialized (
    select id, state, topic from "brooq".job where id = $1::uuid for no key update
),
canceled as (
    update "brooq".job set state = 'canceled', updated_at = now()
    from found
    where job.id = found.id and found.state in ('pending', 'failed', 'processing')
      and (select case when current_setting('synchronous_commit') in ('off', 'local', 'remote_write')
                       then set_config('synchronous_commit', 'on', true) else '' end) is not null
    returning job.id
),
noted as (
    insert into "brooq".brooq_operation (actor, action, job, topic, found, done, reason)
    select $2::text, 'cancel', found.id, found.topic, found.state, canceled.id is not null, $3::text
    from found left join canceled on true
)
select found.state, found.topic, canceled.id is not null as canceled,
       case when canceled.id is not null and found.state = 'processing'
            then pg_notify('brooq_wakeups', '"brooq". ' || canceled.id) end
from found left join canceled on true
