-- What has ended in the last hour, minute by minute. Reads the rows of that hour through the index of terminal jobs.
select date_trunc('minute', updated_at) as minute,
       count(*) filter (where state = 'done') as done,
       count(*) filter (where state = 'dead') as dead,
       count(*) filter (where state = 'canceled') as canceled
from job
where state in ('done', 'dead', 'canceled') and updated_at > now() - interval '1 hour'
group by minute
order by minute;
