-- What is being tried again: waiting for its next attempt after a failure, with the error of the last one.
-- Reads the waiting jobs' index, and the rows of those that failed.
select topic, count(*) as waiting, max(attempts) as most_attempts, min(available_at) - now() as next_in,
       left(regexp_replace(last_error, '[0-9]+', '#', 'g'), 120) as error
from job
where state = 'failed'
group by topic, error
order by waiting desc;
