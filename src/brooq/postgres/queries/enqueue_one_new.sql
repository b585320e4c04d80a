-- Write one job that cannot stand in anybody's way, as `enqueue_new` does for many: without a key, in a transaction of its own,
-- with an id that nobody has used; one that does exist fails the statement, and then `enqueue_one` is asked.
-- $1 to $11 as in `enqueue_one`
insert into "brooq".job (id, topic, payload, idempotency_key, available_at, priority, max_attempts, tags, metadata,
                         concurrency_key)
select $1::uuid, $2::text, $3::text::jsonb, $4::text, coalesce($5::timestamptz, now()), $6::smallint, $7::int,
       case when $8::text is not null then array(select jsonb_array_elements_text($8::text::jsonb)) end,
       $9::text::jsonb, $11::text
where (select case when current_setting('synchronous_commit') in ('off', 'local', 'remote_write')
                   then set_config('synchronous_commit', 'on', true) else '' end) is not null
returning case when $10::boolean and available_at <= now() then
              case when pg_try_advisory_lock(hashtext('"brooq".'), hashtext(topic))
                   then pg_advisory_unlock(hashtext('"brooq".'), hashtext(topic))::text
                   else pg_notify('brooq_wakeups', '"brooq".' || topic)::text end
          end
