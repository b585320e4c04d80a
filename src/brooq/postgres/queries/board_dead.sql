-- The dead by what they died of: the first line of the last error, with numbers and long identifiers left out of it. Of each
-- topic the last few are looked at, topics through their index, so that ten million dead cost what a few thousand do.
-- Those that somebody has retried are told apart: the trail of operations knows it.
-- $1 topic (null: any), $2 how many rows to look at for each topic, $3 how many in all, $4 how many groups
with recursive
found (topic, step) as (
    (select topic, 1 from "brooq".job where state = 'dead' and $1::text is null order by topic limit 1)
    union all
    select (select job.topic from "brooq".job where job.state = 'dead' and job.topic > found.topic order by job.topic limit 1),
           step + 1
    from found
    where found.topic is not null and step < 200
),
topics as materialized (
    select topic from found where topic is not null
    union all
    select $1::text where $1::text is not null
),
looked as materialized (
    select topics.topic, late.*
    from topics
    cross join lateral (
        select id, updated_at, left(split_part(last_error, chr(10), 1), 300) as said from "brooq".job
        where job.state = 'dead' and job.state in ('dead', 'canceled')
          -- A range of one topic, in the order of this index and no other: with `=` it could be all that is terminal.
          and job.topic >= topics.topic and job.topic <= topics.topic
        order by job.topic desc, job.updated_at desc limit $2
    ) as late
    limit $3
),
cause as (
    select looked.*,
           regexp_replace(said, '[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|0x[0-9a-fA-F]+|[0-9]+', '…', 'g') as error,
           exists (select from "brooq".brooq_operation as operation
                   where operation.job = looked.id and operation.action = 'retry' and operation.done) as retried
    from looked
),
grouped as (
    select topic, coalesce(error, '') as error, count(*) filter (where not retried) as open, count(*) as total,
           min(updated_at) as first, max(updated_at) as last, (array_agg(id order by updated_at desc))[1] as example,
           (array_agg(said order by updated_at desc))[1] as said
    from cause
    group by topic, error
)
select topic, error, open, total, first, last, example, said, (select count(*) from looked) >= $3 as cut
from grouped
order by open = 0, last desc
limit $4
