-- The topics in which a job could run now, and for how long the first of them has waited: topics are found by skipping
-- through the index of the claim from one to the next, a bounded number of times.
-- Topics that somebody has paused wait because they shall.
-- $1 how many topics
with recursive waiting (topic, step) as (
    (select topic, 1 from "brooq".job where state in ('pending', 'failed') order by topic limit 1)
    union all
    select (select job.topic from "brooq".job
            where job.state in ('pending', 'failed') and job.topic > waiting.topic order by job.topic limit 1),
           step + 1
    from waiting
    where waiting.topic is not null and step < $1::bigint
)
select waiting.topic, extract(epoch from now() - min(first.available_at))::float8 as seconds
from waiting
cross join generate_series(0, 9) as level
cross join lateral (
    select available_at from "brooq".job
    where job.topic = waiting.topic and job.priority = level and job.state in ('pending', 'failed')
      and job.available_at <= now()
    order by available_at, id limit 1
) as first
where waiting.topic is not null
  and not exists (select from "brooq".brooq_topic as held where held.topic = waiting.topic and held.paused_at is not null)
group by waiting.topic
order by seconds desc
