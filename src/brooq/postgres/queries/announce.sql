-- A running engine says that it is there, and takes those off the list that have said nothing for long: whoever was killed
-- leaves its row behind, and nobody else comes to clear it away. Rows of theirs that somebody has locked are skipped, so
-- that no two engines wait for each other. No indexed column is changed, so it stays a heap-only update.
-- $1 name, $2 host, $3 pid, $4 version, $5 uptime in seconds, $6 stopping, $7 slots, $8 topics,
-- $9 slots by topic (JSON), $10 what each slot does (JSON), $11 after how long a silent one is forgotten
with silent as materialized (
    select name from "brooq".brooq_worker
    where seen_at < now() - $11::interval and name <> $1::text
    order by name limit 100
    for update skip locked
),
forgotten as (
    delete from "brooq".brooq_worker where name = any(array(select name from silent))
)
insert into "brooq".brooq_worker as worker
    (name, host, pid, version, started_at, seen_at, stopping, slots, topics, busy, running)
values ($1::text, $2::text, $3::int, $4::text, now() - make_interval(secs => $5::float8), now(), $6::boolean, $7::int,
        $8::text[], $9::jsonb, $10::jsonb)
on conflict (name) do update
set seen_at = now(), stopping = excluded.stopping, slots = excluded.slots, topics = excluded.topics,
    busy = excluded.busy, running = excluded.running
returning worker.name
