-- Set the limits of a topic for the whole fleet, whatever the workers' code declares, and write down who did it, why, and
-- what the limits were and are. The bucket of tokens stays as full as it is unless the rate is another one.
-- $1 topic, $2 actor, $3 reason, $4 the limits as a JSON object
with wanted as materialized (
    select made.* from jsonb_to_record($4::text::jsonb) as made (
        max_running int, max_running_per_key int, ordered boolean, rate int, rate_period float8
    )
),
before as materialized (
    select jsonb_strip_nulls(jsonb_build_object(
               'max_running', max_running, 'max_running_per_key', max_running_per_key, 'ordered', nullif(ordered, false),
               'rate', rate, 'rate_period', extract(epoch from rate_period)::float8
           )) as limits
    from "brooq".brooq_topic where topic = $1::text for no key update
),
changed as (
    insert into "brooq".brooq_topic as held (
        topic, max_running, max_running_per_key, ordered, rate, rate_period, limits_by
    )
    select $1::text, max_running, max_running_per_key, coalesce(ordered, false), rate,
           make_interval(secs => rate_period), $2::text
    from wanted
    where (select count(*) from before) >= 0  -- read before it is written
      and (select case when current_setting('synchronous_commit') in ('off', 'local', 'remote_write')
                       then set_config('synchronous_commit', 'on', true) else '' end) is not null
    on conflict (topic) do update
    set max_running = excluded.max_running, max_running_per_key = excluded.max_running_per_key,
        ordered = excluded.ordered, rate = excluded.rate, rate_period = excluded.rate_period,
        limits_by = excluded.limits_by, updated_at = now(),
        tokens = case when (held.rate, held.rate_period) is not distinct from (excluded.rate, excluded.rate_period)
                      then held.tokens end
    returning topic
)
insert into "brooq".brooq_operation (actor, action, topic, found, done, reason)
select $2::text, 'limit', topic, coalesce((select limits from before)::text, '{}') || ' -> ' || $4::text::jsonb::text, true,
       $3::text
from changed
returning done
