-- Cancel a job that is not terminal, and tell the state it had. The row is locked first, so that the state told is the
-- one that was overwritten; a running handler learns of it at its next renewal. synchronous_commit is raised for this
-- commit alone: `canceled` is an outcome like the others, and the caller is told that it is so.
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
select found.state, found.topic, canceled.id is not null as canceled from found left join canceled on true
