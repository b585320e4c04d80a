-- Delete one batch of terminal jobs older than the retention, oldest first. Several workers prune different rows.
-- any(array(…)) instead of a join: planned for an unknown limit, a join would read the whole table for one batch.
-- $1 age, $2 limit
with old as materialized (
    select id
    from "brooq".job
    where state in ('done', 'dead', 'canceled') and updated_at < now() - $1::interval
    order by updated_at
    limit $2
    for update skip locked
)
delete from "brooq".job where id = any(array(select id from old))
returning topic
