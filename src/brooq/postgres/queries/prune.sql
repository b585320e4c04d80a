-- Delete one batch of terminal jobs older than the retention, oldest first. Several workers prune different rows.
-- $1 age, $2 limit
with old as materialized (
    select id
    from "brooq".job
    where state in ('done', 'dead', 'canceled') and updated_at < now() - $1::interval
    order by updated_at
    limit $2
    for update skip locked
)
delete from "brooq".job using old where job.id = old.id
returning job.topic
