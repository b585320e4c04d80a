-- What limits the code of these workers asks for: valid where nobody has set others by hand, remembered where somebody has.
-- Kinds without limits take back what an earlier version of the code declared. Rows are locked in order of topic, so that
-- two workers that start at one time do not wait for each other crosswise; what is so already is not written.
-- $1 topics, $2 the limits of each as a JSON object, or null
with wanted as materialized (
    select wanted.topic, wanted.declared::jsonb as declared, made.*
    from unnest($1::text[], $2::text[]) as wanted (topic, declared)
    cross join lateral jsonb_to_record(coalesce(wanted.declared::jsonb, '{}')) as made (
        max_running int, max_running_per_key int, ordered boolean, rate int, rate_period float8
    )
),
standing as materialized (
    select held.topic
    from "brooq".brooq_topic as held join wanted on wanted.topic = held.topic
    where held.declared is distinct from wanted.declared
    order by held.topic
    for no key update of held
),
changed as (
    update "brooq".brooq_topic as held
    set declared = wanted.declared,
        max_running = case when held.limits_by is null then wanted.max_running else held.max_running end,
        max_running_per_key = case when held.limits_by is null then wanted.max_running_per_key
                                   else held.max_running_per_key end,
        ordered = case when held.limits_by is null then coalesce(wanted.ordered, false) else held.ordered end,
        rate = case when held.limits_by is null then wanted.rate else held.rate end,
        rate_period = case when held.limits_by is null then make_interval(secs => wanted.rate_period)
                           else held.rate_period end,
        tokens = case when held.limits_by is not null
                        or (held.rate, held.rate_period) is not distinct from (wanted.rate, make_interval(secs => wanted.rate_period))
                      then held.tokens end,
        updated_at = now()
    from wanted
    where held.topic = wanted.topic and held.topic = any(array(select topic from standing))
    returning held.topic
),
made as (
    insert into "brooq".brooq_topic (topic, declared, max_running, max_running_per_key, ordered, rate, rate_period)
    select topic, declared, max_running, max_running_per_key, coalesce(ordered, false), rate,
           make_interval(secs => rate_period)
    from wanted
    where declared is not null
      and not exists (select from "brooq".brooq_topic as held where held.topic = wanted.topic)
    order by topic
    on conflict (topic) do nothing
    returning topic
)
select topic from changed union all select topic from made
