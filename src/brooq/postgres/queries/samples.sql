-- The samples of the last so many seconds, added up to steps of a width, by topic or all together.
--
-- The primary key is walked from where the time begins; how many rows there can be does not depend on the jobs. A wider
-- step takes the depth of its last sample, since depths of two moments do not add up.
-- $1 step of the samples in seconds, $2 how many seconds back, $3 width of the answer's steps in seconds, $4 topic (null: any)
select extract(epoch from slot)::bigint as at, topic, sum(done), sum(failed), sum(dead), sum(canceled), sum(attempts),
       sum(ran), sum(claimed), sum(waited), max(waited_p95), (array_agg(waiting order by at desc))[1],
       (array_agg(processing order by at desc))[1], max(oldest)
from (
    select to_timestamp(floor(extract(epoch from at) / $3::float8) * $3::float8) as slot, sample.*
    from "brooq".brooq_sample as sample
    where step = $1::integer and at >= now() - make_interval(secs => $2::float8) and ($4::text is null or topic = $4)
) as placed
group by slot, topic
order by slot, topic
