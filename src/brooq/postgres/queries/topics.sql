-- What is set for topics.
select topic, paused_at, paused_by, pause_reason, max_running, max_running_per_key, ordered, rate,
       extract(epoch from rate_period)::float8 as rate_period, limits_by
from "brooq".brooq_topic
order by topic
