-- Cancel a job that is not terminal, and tell the state it had. The row is locked first, so that the state told is the
-- one that was overwritten. synchronous_commit is raised for this commit alone: `canceled` is an outcome like the others,
-- and the caller is told that it is so.
-- A running handler learns of it at its worker's next renewal. Workers that listen are told, and renew at once: they hear the
-- id, which no topic can be taken for, as it follows a blank.
-- $1 id
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
)
select found.state, found.topic, canceled.id is not null as canceled,
       case when canceled.id is not null and found.state = 'processing'
            then pg_notify('brooq_wakeups', '"brooq". ' || canceled.id) end
from found left join canceled on true
