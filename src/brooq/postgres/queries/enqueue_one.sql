-- Write one job, and answer one row when it was written: what `enqueue` does for many, without the arrays that a job at a
-- time would pay for. No row: the key, or the id of an earlier try, exists already, and `existing` tells whose it is.
-- Wake-ups and synchronous_commit: see `enqueue`.
-- $1 id, $2 topic, $3 payload, $4 key, $5 available_at, $6 priority, $7 max_attempts, $8 tags (JSON array), $9 metadata,
-- $10 whether to wake workers, $11 concurrency key
insert into "brooq".job (id, topic, payload, idempotency_key, available_at, priority, max_attempts, tags, metadata,
                         concurrency_key)
select $1::uuid, $2::text, $3::text::jsonb, $4::text, coalesce($5::timestamptz, now()), $6::smallint, $7::int,
       case when $8::text is not null then array(select jsonb_array_elements_text($8::text::jsonb)) end,
       $9::text::jsonb, $11::text
where (select case when current_setting('synchronous_commit') in ('off', 'local', 'remote_write')
                   then set_config('synchronous_commit', 'on', true) else '' end) is not null
on conflict do nothing
returning case when $10::boolean and available_at <= now() then
              case when pg_try_advisory_lock(hashtext('"brooq".'), hashtext(topic))
                   then pg_advisory_unlock(hashtext('"brooq".'), hashtext(topic))::text
                   else pg_notify('brooq_wakeups', '"brooq".' || topic)::text end
          end
