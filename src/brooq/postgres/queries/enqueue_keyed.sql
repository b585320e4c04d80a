-- Write jobs with keys and with ids that nobody has used: `enqueue` that looks for the key alone, not for the id too, before it
-- writes a row. An id that does exist fails the statement, so it is for a transaction of its own; then `enqueue` is asked.
-- $1 to $13 as in `enqueue`
with written as (
    insert into "brooq".job (id, topic, payload, idempotency_key, available_at, priority, max_attempts, tags, metadata,
                             concurrency_key)
    select new.id, coalesce(new.topic, (select $10::text::"brooq".brooq_job_topic)), new.payload::jsonb, new.key,
           coalesce(new.available_at, (select now()::"brooq".brooq_job_time)),
           coalesce(new.priority, (select 0::"brooq".brooq_job_priority)), new.max_attempts,
           case when new.tags is not null then array(select jsonb_array_elements_text(new.tags::jsonb)) end,
           new.metadata::jsonb, new.line
    from unnest(
        (select $1::uuid[]), (select $2::text[]::"brooq".brooq_job_topic[]), (select $3::text[]),
        (select $4::text[]::"brooq".brooq_job_key[]), (select $5::timestamptz[]::"brooq".brooq_job_time[]),
        (select $6::smallint[]::"brooq".brooq_job_priority[]), (select $7::int[]::"brooq".brooq_job_maximum[]),
        (select $8::text[]), (select $9::text[]), (select $12::text[]::"brooq".brooq_job_key[])
    ) as new (id, topic, payload, key, available_at, priority, max_attempts, tags, metadata, line)
    where (select case when current_setting('synchronous_commit') in ('off', 'local', 'remote_write')
                       then set_config('synchronous_commit', 'on', true) else '' end) is not null
    on conflict (topic, idempotency_key) where idempotency_key is not null do nothing
    returning 1
),
woken as (
    select case when pg_try_advisory_lock(hashtext('"brooq".'), hashtext(topic))
                then pg_advisory_unlock(hashtext('"brooq".'), hashtext(topic))::text
                else pg_notify('brooq_wakeups', '"brooq".' || topic)::text end as told
    from unnest((select $11::text[]), (select $13::timestamptz[])) as ready (topic, at)
    where coalesce(at, now()) <= now() and (select count(*) from written) > 0
)
select (select count(*) from written), (select count(told) from woken)
