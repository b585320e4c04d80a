-- What was set for topics, in its order.
select seq, at::text, topic, paused, max_running, max_running_per_key, ordered, rate,
       extract(epoch from rate_period)::float8
from "brooq_audit".setting
order by seq
