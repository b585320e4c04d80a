-- Pause a topic: claims leave it alone from their next snapshot on, and what runs goes on. Who has done it and why is
-- written down in the same commit. A topic that is paused already keeps whoever paused it first; that somebody tried is
-- written down all the same.
-- $1 topic, $2 actor, $3 reason
with paused as (
    insert into "brooq".brooq_topic as held (topic, paused_at, paused_by, pause_reason)
    select $1::text, now(), $2::text, $3::text
    where (select case when current_setting('synchronous_commit') in ('off', 'local', 'remote_write')
                       then set_config('synchronous_commit', 'on', true) else '' end) is not null
    on conflict (topic) do update
    set paused_at = excluded.paused_at, paused_by = excluded.paused_by, pause_reason = excluded.pause_reason,
        updated_at = now()
    where held.paused_at is null
    returning topic
),
changed as (
    select exists (select from paused) as done
)
insert into "brooq".brooq_operation (actor, action, topic, found, done, reason)
select $2::text, 'pause', $1::text, case when done then 'open' else 'paused' end, done, $3::text from changed
returning done
