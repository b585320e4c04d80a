-- The dead jobs of a topic that died of one thing (see `dead`, whose shortening of texts this repeats) and that nobody has
-- done again, the oldest first: as many as `dead` looks at. Those done again are known to the trail, by its index. To be
-- run after `in_order`.
-- $1 topic, $2 kind, $3 how many jobs of the topic to look at
select latest.id
from (
    select id, updated_at, left(last_error, 500) as error
    from "brooq".job
    where state = 'dead' and state in ('dead', 'canceled') and topic >= $1::text and topic <= $1::text
    order by topic desc, updated_at desc limit $3::bigint
) as latest
where left(regexp_replace(split_part(coalesce(latest.error, ''), E'\n', 1), '\m(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|0x[0-9a-f]+|[0-9a-f]{8,}\M)|[0-9]+', '…', 'gi'), 200) = $2::text
  and not exists (
      select from "brooq".brooq_operation as operation
      where operation.job = latest.id and operation.action = 'retry' and operation.done
  )
order by latest.updated_at, latest.id
