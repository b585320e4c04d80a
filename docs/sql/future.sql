-- What becomes ready in the next day, hour by hour and topic by topic, retries included.
-- Reads the waiting jobs' index alone.
select topic, date_trunc('hour', available_at) as hour, count(*) as jobs
from job
where state in ('pending', 'failed') and available_at > now() and available_at < now() + interval '1 day'
group by topic, hour
order by hour, topic;
