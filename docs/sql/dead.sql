-- Why jobs died: the last thousand dead of every topic, grouped by their error with its numbers taken out.
-- Goes through the index of the dead, topic by topic.
with recursive topic (topic) as (
    (select topic from job where state = 'dead' order by topic limit 1)
    union all
    select (select job.topic from job where job.state = 'dead' and job.topic > topic.topic order by job.topic limit 1)
    from topic
    where topic.topic is not null
)
select topic.topic, count(*) as dead, max(lately.updated_at) as last_at,
       left(regexp_replace(lately.last_error, '[0-9]+', '#', 'g'), 120) as error,
       (array_agg(lately.id order by lately.updated_at desc))[1] as example
from topic
cross join lateral (
    select id, updated_at, last_error
    from job
    where state = 'dead' and job.topic = topic.topic
    order by updated_at desc
    limit 1000
) as lately
group by topic.topic, error
order by dead desc, last_at desc;
