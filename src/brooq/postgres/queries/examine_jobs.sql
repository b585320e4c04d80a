-- Jobs that something is wrong with, at a bounded cost: waiting ones are looked at up to a bound, held ones are few.
-- A pill is a job whose attempts grow while no error is ever written: its workers die of it, or of their host. To be run
-- after `in_order`.
-- $1 how many waiting jobs are looked at, $2 from how many leases that ran out on, $3 how many are named
with looked_at as materialized (
    (select id, topic, attempts, expired_leases, last_error from "brooq".job
     where state in ('pending', 'failed') order by topic, priority, available_at, id limit $1::bigint)
    union all
    select id, topic, attempts, expired_leases, last_error from "brooq".job where state = 'processing'
)
(select 'pill' as kind, id, topic, attempts::bigint as number, null::float8 as seconds
 from looked_at where last_error is null and expired_leases >= $2::bigint
 order by expired_leases desc, id limit $3::bigint)
union all
(select 'expired', id, topic, attempts::bigint, extract(epoch from now() - locked_until)::float8
 from "brooq".job where state = 'processing' and locked_until < now()
 order by locked_until, id limit $3::bigint)
