-- What has happened lately, by topic: what ended, along the index of retention, and what was enqueued, along the primary
-- key, since ids begin with their time. Both from now backwards and up to a bound; `reach` tells how far that was.
-- To be run after `in_order`.
-- $1 how long ago lately began, $2 bound of each
with ended as materialized (
    select topic, state, updated_at as at from "brooq".job
    where state in ('done', 'dead', 'canceled') and updated_at > now() - $1::interval
    order by updated_at desc limit $2::bigint
),
made as materialized (
    select topic, 'made' as state, created_at as at from "brooq".job
    where id > (lpad(to_hex((extract(epoch from now() - $1::interval) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid
    order by id desc limit $2::bigint
)
select topic, state, count(*) as jobs,
       (select count(*) from ended) >= $2::bigint as bounded,
       (select extract(epoch from now() - min(at)) from ended)::float8 as reach, now() as now
from ended group by topic, state
union all
select topic, state, count(*) filter (where at > now() - $1::interval), (select count(*) from made) >= $2::bigint,
       (select extract(epoch from now() - min(at)) from made)::float8, now()
from made group by topic, state
union all
-- One row is always there: the time.
select null, null, 0, false, 0, now()
