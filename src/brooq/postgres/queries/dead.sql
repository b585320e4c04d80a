-- Dead jobs by what they died of, the most frequent first: the latest of each topic, up to a bound, along the index of the
-- unsuccessful. Topics are found by skipping through it. Numbers and hexadecimal words of a text are its circumstances:
-- jobs that died of the same thing mostly differ in these alone. To be run after `in_order`.
-- $1 topic (null: any), $2 how many jobs of a topic to look at, $3 how many topics, $4 how many groups
with recursive topics (topic, step) as (
    (select topic, 1 from "brooq".job
     where state = 'dead' and state in ('dead', 'canceled') and ($1::text is null or topic = $1) order by topic limit 1)
    union all
    select (select job.topic from "brooq".job
            where job.state = 'dead' and job.state in ('dead', 'canceled') and job.topic > topics.topic
            order by job.topic limit 1),
           step + 1
    from topics
    where topics.topic is not null and step < $3::int and $1::text is null
),
found as materialized (
    select topics.topic, dead.id, dead.updated_at, coalesce(dead.last_error, '') as error, dead.bounded
    from topics
    cross join lateral (
        select id, updated_at, left(last_error, 500) as last_error,
               count(*) over () >= $2::bigint as bounded
        from (
            select id, updated_at, last_error from "brooq".job
            where job.state = 'dead' and job.state in ('dead', 'canceled')
              -- A range of one topic, in the order of this index and no other: with `=` it could be all that is terminal.
              and job.topic >= topics.topic and job.topic <= topics.topic
            order by job.topic desc, updated_at desc limit $2::bigint
        ) as latest
    ) as dead
    limit 10 * $2::bigint
),
grouped as (
    select topic, kind, count(*) as jobs, bool_or(bounded) as bounded, min(updated_at) as first, max(updated_at) as last,
           (array_agg(error order by updated_at desc))[1] as example, (array_agg(id order by updated_at desc))[1] as latest
    from found
    cross join lateral (
        select left(regexp_replace(split_part(error, E'\n', 1), '\m(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|0x[0-9a-f]+|[0-9a-f]{8,}\M)|[0-9]+', '…', 'gi'), 200)
    ) as shortened (kind)
    group by topic, kind
)
select topic, kind, jobs, bounded, first, last, example, latest
from grouped
order by jobs desc, last desc, topic, kind
limit $4::bigint
