-- The table at a glance, at a cost that does not grow with it.
--
-- Waiting jobs are counted through their index up to a bound a topic, held ones are few, dead and canceled have an index
-- of their own. `done` is counted while the table is small; in a big one it, and whatever ran into its bound, is
-- estimated from the statistics that ANALYZE keeps on (topic, state). Topics nobody asked for are found by skipping
-- through the indexes from one topic to the next, a bounded number of times.
--
-- $1 topics asked for, $2 bound of each count, $3 how many foreign topics to look for, $4 the size in bytes up to which
-- the table counts as small, $5 how many lost leases make a job suspect
with recursive
size as (
    select pg_relation_size('"brooq".job'::regclass) <= $4::bigint as small,
           (select greatest(reltuples, 0)::float8 from pg_class where oid = '"brooq".job'::regclass) as rows
),
waiting (topic, step) as (
    (select topic, 1 from "brooq".job where state in ('pending', 'failed') order by topic limit 1)
    union all
    select (select job.topic from "brooq".job
            where job.state in ('pending', 'failed') and job.topic > waiting.topic order by job.topic limit 1),
           step + 1
    from waiting
    where waiting.topic is not null and step < $3
),
unsuccessful (state, topic, step) as (
    select state, (select topic from "brooq".job
                   where job.state = start.state and job.state in ('dead', 'canceled') order by topic limit 1), 1
    from (values ('dead'), ('canceled')) as start (state)
    union all
    select state, (select job.topic from "brooq".job
                   where job.state = unsuccessful.state and job.state in ('dead', 'canceled')
                     and job.topic > unsuccessful.topic
                   order by job.topic limit 1),
           step + 1
    from unsuccessful
    where unsuccessful.topic is not null and step < $3
),
topics as materialized (
    select topic from unnest($1::text[]) as asked (topic)
    union
    select topic from waiting where topic is not null
    union
    select topic from unsuccessful where topic is not null
),
place as (
    select nspname, relname from pg_class join pg_namespace on pg_namespace.oid = relnamespace
    where pg_class.oid = '"brooq".job'::regclass
),
together as materialized (
    select stats.most_common_vals[i][1] as topic, stats.most_common_vals[i][2] as state,
           (stats.most_common_freqs[i] * size.rows)::bigint as count
    from pg_stats_ext as stats, generate_subscripts(stats.most_common_vals, 1) as i, size
    where not size.small
      and format('%I.%I', stats.schemaname, stats.tablename)::regclass = '"brooq".job'::regclass
      and stats.statistics_name = 'job_topic_state'
),
estimate as materialized (
    select topic, state, count from together
    union all
    -- Statistics of several columns are shown to the table's owner alone. Anybody else multiplies the shares that topic
    -- and state have by themselves: rough, and better than none.
    select topics.value, states.value, (topics.share * states.share * size.rows)::bigint
    from size, place
    join pg_stats as of_topic on of_topic.schemaname = nspname and of_topic.tablename = relname and of_topic.attname = 'topic'
    join pg_stats as of_state on of_state.schemaname = nspname and of_state.tablename = relname and of_state.attname = 'state'
    cross join lateral unnest(of_topic.most_common_vals::text::text[], of_topic.most_common_freqs) as topics (value, share)
    cross join lateral unnest(of_state.most_common_vals::text::text[], of_state.most_common_freqs) as states (value, share)
    where not size.small and not exists (select from together)
),
counted as (
    select topics.topic, found.state, count(*) as count, count(*) < $2 as exact
    from topics
    cross join lateral (
        -- The order is the index's: without it the planner may walk the table until it has met enough.
        select state from "brooq".job where job.topic = topics.topic and job.state in ('pending', 'failed')
        order by job.priority, job.available_at, job.id limit $2
    ) as found
    group by topics.topic, found.state
    union all
    select topic, state, count(*), true from "brooq".job where state = 'processing' group by topic, state
    union all
    select topics.topic, terminal.state, count(*), count(*) < $2
    from topics
    cross join (values ('dead'), ('canceled')) as terminal (state)
    cross join lateral (
        select 1 from "brooq".job
        where job.state = terminal.state and job.state in ('dead', 'canceled') and job.topic = topics.topic
        order by job.updated_at limit $2
    ) as found
    group by topics.topic, terminal.state
    union all
    -- LATERAL, so that the size is asked first: a join could walk the table and ask then.
    select done.topic, 'done', done.count, true
    from size
    cross join lateral (
        select topic, count(*) as count from "brooq".job where size.small and state = 'done' group by topic
    ) as done
),
oldest as (
    select topics.topic, extract(epoch from now() - min(first.available_at))::float8 as age
    from topics
    cross join generate_series(0, 9) as level
    cross join lateral (
        select available_at from "brooq".job
        where job.topic = topics.topic and job.priority = level and job.state in ('pending', 'failed')
          and job.available_at <= now()
        order by available_at, id limit 1
    ) as first
    group by topics.topic
)
select topic, state,
       case when counted.exact then counted.count
            else greatest(counted.count, coalesce(estimate.count, 0)) end as count,
       coalesce(counted.exact, false) as exact,
       null as age
from counted full join estimate using (topic, state)
where counted.count is not null or estimate.state = 'done'
union all
select topic, null, null, null, age from oldest
union all
-- Suspected of killing their workers, which hold them for most of the time until the lease is over.
select topic, null, count(*), null, null from "brooq".job
where state = 'processing' and expired_leases >= $5::int
group by topic
