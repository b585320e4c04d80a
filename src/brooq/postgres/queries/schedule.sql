-- Set a periodic job. What stands already keeps its next tick, unless it ticks otherwise now: a deploy must not lose the
-- ticks that came while nobody was there. Code does not overwrite what was set by hand, and writes nothing that is so
-- already. By hand, who has done it is written down.
-- $1 name, $2 topic, $3 cron, $4 timezone, $5 payload, $6 priority, $7 max_attempts, $8 concurrency key, $9 missed,
-- $10 how many of the missed, $11 the first tick, $12 actor (null: the code of the workers), $13 reason
with written as (
    insert into "brooq".brooq_schedule as held (
        name, topic, cron, timezone, payload, priority, max_attempts, concurrency_key, missed, missed_limit, declared, next_at
    )
    select $1::text, $2::text, $3::text, $4::text, $5::text::jsonb, $6::smallint, $7::int, $8::text, $9::text, $10::int,
           $12::text is null, $11::timestamptz
    where (select case when current_setting('synchronous_commit') in ('off', 'local', 'remote_write')
                       then set_config('synchronous_commit', 'on', true) else '' end) is not null
    on conflict (name) do update
    set topic = excluded.topic, cron = excluded.cron, timezone = excluded.timezone, payload = excluded.payload,
        priority = excluded.priority, max_attempts = excluded.max_attempts, concurrency_key = excluded.concurrency_key,
        missed = excluded.missed, missed_limit = excluded.missed_limit, declared = excluded.declared, updated_at = now(),
        next_at = case when (held.cron, held.timezone) = (excluded.cron, excluded.timezone)
                       then coalesce(held.next_at, excluded.next_at) else excluded.next_at end
    where not excluded.declared
       or (held.declared
           and (held.topic, held.cron, held.timezone, held.payload, held.priority, held.max_attempts, held.concurrency_key,
                held.missed, held.missed_limit)
               is distinct from
               (excluded.topic, excluded.cron, excluded.timezone, excluded.payload, excluded.priority,
                excluded.max_attempts, excluded.concurrency_key, excluded.missed, excluded.missed_limit))
    returning name
),
noted as (
    insert into "brooq".brooq_operation (actor, action, topic, found, done, reason)
    select $12::text, 'schedule', $2::text, 'set ' || name, true, $13::text from written where $12::text is not null
)
select name from written
