-- What waits and could run now, by topic: how many, and for how long the oldest has waited.
-- Reads the waiting jobs' index alone, whatever else is in the table.
select topic, count(*) as ready, now() - min(available_at) as oldest_waits, min(priority) as most_urgent
from job
where state in ('pending', 'failed') and available_at <= now()
group by topic
order by oldest_waits desc;
