-- The workers that were seen, those that were there last first. The list is as long as there are workers; the bound is
-- for a list that nobody clears up.
select name, host, pid, version, started_at, seen_at, stopping, slots, topics, busy::text, running::text, now() as now
from "brooq".brooq_worker
order by seen_at desc, name
limit 1000
