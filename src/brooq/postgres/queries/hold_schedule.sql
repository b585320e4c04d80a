-- Pause a periodic job, or let it go on from its next tick: those of the pause are nobody's. Who has done it is written down.
-- $1 name, $2 whether it is paused, $3 actor, $4 reason, $5 the next tick from now
with changed as (
    update "brooq".brooq_schedule
    set paused_at = case when $2::boolean then now() end, paused_by = case when $2::boolean then $3::text end,
        next_at = case when $2::boolean then next_at else $5::timestamptz end, updated_at = now()
    where name = $1::text and (paused_at is null) = $2::boolean
      and (select case when current_setting('synchronous_commit') in ('off', 'local', 'remote_write')
                       then set_config('synchronous_commit', 'on', true) else '' end) is not null
    returning name, topic
),
noted as (
    insert into "brooq".brooq_operation (actor, action, topic, found, done, reason)
    select $3::text, 'schedule', topic, case when $2::boolean then 'paused ' else 'resumed ' end || name, true, $4::text
    from changed
)
select name from changed
