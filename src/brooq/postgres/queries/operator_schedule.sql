-- When one periodic job ticks, and the database's time: what its next tick is reckoned from.
-- $1 name
select now(), cron, timezone from "brooq".brooq_schedule where name = $1::text
