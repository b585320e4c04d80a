-- Hand the limits of a topic back to what the workers' code declares, or to none, and write down who did it and why.
-- $1 topic, $2 actor, $3 reason
with before as materialized (
    select limits_by is not null as held_by_hand,
           jsonb_strip_nulls(jsonb_build_object(
               'max_running', max_running, 'max_running_per_key', max_running_per_key, 'ordered', nullif(ordered, false),
               'rate', rate, 'rate_period', extract(epoch from rate_period)::float8
           )) as limits
    from "brooq".brooq_topic where topic = $1::text for no key update
),
changed as (
    update "brooq".brooq_topic as held
    set max_running = made.max_running, max_running_per_key = made.max_running_per_key,
        ordered = coalesce(made.ordered, false), rate = made.rate, rate_period = make_interval(secs => made.rate_period),
        limits_by = null, tokens = null, updated_at = now()
    from before,
         -- Of this row alone: the function is called for the one that is locked.
         lateral (select coalesce(declared, '{}') as declared from "brooq".brooq_topic where topic = $1::text) as code,
         lateral jsonb_to_record(code.declared) as made (
             max_running int, max_running_per_key int, ordered boolean, rate int, rate_period float8
         )
    where held.topic = $1::text and before.held_by_hand
      and (select case when current_setting('synchronous_commit') in ('off', 'local', 'remote_write')
                       then set_config('synchronous_commit', 'on', true) else '' end) is not null
    returning held.topic, code.declared
)
insert into "brooq".brooq_operation (actor, action, topic, found, done, reason)
select $2::text, 'limit', $1::text,
       coalesce((select limits from before)::text, '{}')
           || coalesce(' -> ' || (select declared from changed)::text, ''),
       exists (select from changed), $3::text
returning done
