-- Topics with dead or canceled jobs, by skipping through their index from one topic to the next.
-- A census finds the topics that wait, are held or are done by itself.
-- $1 how many to look for in each state
with recursive found (state, topic, step) as (
    select state, (select topic from "brooq".job
                   where job.state = start.state and job.state in ('dead', 'canceled') order by topic limit 1), 1
    from (values ('dead'), ('canceled')) as start (state)
    union all
    select state, (select job.topic from "brooq".job
                   where job.state = found.state and job.state in ('dead', 'canceled') and job.topic > found.topic
                   order by job.topic limit 1),
           step + 1
    from found
    where topic is not null and step < $1
)
select distinct topic from found where topic is not null order by topic
