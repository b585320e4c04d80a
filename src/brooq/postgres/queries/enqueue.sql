-- Write jobs, and tell how many. A key that exists already, or an id that an earlier try has written, makes no row and no
-- error: an error would abort the caller's transaction. When it is fewer rows than asked, `existing` tells the rest.
-- Jobs come sorted by topic and key, so that two producers of several keys do not wait for each other crosswise.
-- Arrays may be too short: unnest fills up with nulls, and null is the default of its column; what most jobs leave out
-- is not sent at all. Parameters come out of subselects, so that the plan is the same for all of them and is kept.
-- synchronous_commit is raised for this commit alone, since an acknowledged job is a promise; it is never lowered.
--
-- Wake-ups. An idle worker holds a shared advisory lock on its topics; whoever can have it exclusively, and gives it back
-- at once, knows that nobody waits and tells nobody. Only otherwise is there a NOTIFY, once a topic and statement: it makes
-- commits wait for each other, over all the database. Lock and unlock are one statement, which is safe behind a pooler.
-- They come after the rows, since `woken` counts those first.
--
-- Values become of the columns' domains while they are arrays, or once: a column that takes a plain value asks the checks of
-- its domain for every row, whether there is anything to check or not.
-- $1 ids, $2 topics, $3 payloads, $4 keys, $5 available_at, $6 priorities, $7 max_attempts, $8 tags (JSON arrays),
-- $9 metadata, $10 topic of the jobs that name none,
-- $11 topics whose workers to wake, $12 concurrency keys, $13 since when each of $11 has a job that is ready (nulls: now)
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
    on conflict do nothing
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
