-- What runs now, where, since when, and how long its lease lasts without a renewal. A lease below zero waits for the reaper.
-- Held jobs have an index of their own: they are as few as there are slots.
select id, topic, attempts, locked_by as worker, now() - updated_at as running, locked_until - now() as lease_left
from job
where state = 'processing'
order by updated_at;
