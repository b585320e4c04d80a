-- Make the jobs of ticks that have come, and move the schedule on: one statement, so that either both are done or neither,
-- whoever dies. Of several workers that try, the first one to lock the row wins; the others find another next tick than
-- they had read. Each job carries the key of its tick besides, so that a tick which comes again, because a clock was set
-- back, makes none. Wake-ups: see `enqueue`.
-- $1 name, $2 the next tick as it was read, $3 the next one from now, $4 the last tick, $5 ids, $6 keys, $7 payloads,
-- $8 available_at, $9 metadata, $10 topic, $11 priority, $12 max_attempts, $13 concurrency key, $14 whether to wake workers
with advanced as (
    update "brooq".brooq_schedule
    set next_at = $3::timestamptz, last_at = $4::timestamptz,
        last_job = coalesce(($5::uuid[])[cardinality($5::uuid[])], last_job)
    where name = $1::text and paused_at is null and next_at is not distinct from $2::timestamptz
      and (select case when current_setting('synchronous_commit') in ('off', 'local', 'remote_write')
                       then set_config('synchronous_commit', 'on', true) else '' end) is not null
    returning name
),
written as (
    insert into "brooq".job (id, topic, payload, idempotency_key, available_at, priority, max_attempts, metadata,
                             concurrency_key)
    select new.id, $10::text, new.payload::jsonb, new.key, new.available_at, $11::smallint, $12::int, new.metadata::jsonb,
           $13::text
    from unnest($5::uuid[], $6::text[], $7::text[], $8::timestamptz[], $9::text[])
        as new (id, key, payload, available_at, metadata)
    where exists (select from advanced)
    on conflict do nothing
    returning topic
),
woken as (
    select case when pg_try_advisory_lock(hashtext('"brooq".'), hashtext(topic))
                then pg_advisory_unlock(hashtext('"brooq".'), hashtext(topic))::text
                else pg_notify('brooq_wakeups', '"brooq".' || topic)::text end as told
    from (select distinct topic from written where $14::boolean) as ready
)
select (select count(*) from advanced) > 0, (select count(*) from written), (select count(told) from woken)
