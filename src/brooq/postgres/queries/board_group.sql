-- The dead of one topic that died of one cause and that nobody has retried yet: see `board_dead`.
-- $1 topic, $2 the cause, $3 how many rows to look at, $4 how many
select id
from (
    select id, updated_at, left(split_part(last_error, chr(10), 1), 300) as said from "brooq".job
    where state = 'dead' and state in ('dead', 'canceled') and topic >= $1::text and topic <= $1::text
    order by topic desc, updated_at desc limit $3
) as late
where coalesce(
          regexp_replace(said, '[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|0x[0-9a-fA-F]+|[0-9]+', '…', 'g'), ''
      ) = $2::text
  and not exists (select from "brooq".brooq_operation as operation
                  where operation.job = late.id and operation.action = 'retry' and operation.done)
order by updated_at
limit $4
