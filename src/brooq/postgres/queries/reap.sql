-- Put jobs whose lease has expired back into circulation. One statement judges and writes: a job that was settled or
-- claimed anew in between is not touched. Rows that somebody holds locked (a settle that hangs before its commit) are
-- skipped, so that one frozen worker does not keep the jobs of all others. attempts stays: an expired lease is no failure.
-- any(array(…)) instead of a join: see prune.
-- $1 limit
with expired as materialized (
    select id
    from "brooq".job
    where state = 'processing' and locked_until < now()
    order by id
    limit $1
    for no key update skip locked
)
update "brooq".job
set state = 'pending',
    locked_by = null,
    locked_until = null,
    available_at = now(),
    expired_leases = least(expired_leases, 2147483646) + 1,
    updated_at = now()
where id = any(array(select id from expired))
returning id, topic
