-- Write jobs. A key that exists already, or an id that an earlier try has written, makes no row and no error: an error
-- would abort the caller's transaction. Rows that come back are new; for the others `existing` asks.
-- Jobs come sorted by topic and key, so that two producers of several keys do not wait for each other crosswise.
-- synchronous_commit is raised for this commit alone, since an acknowledged job is a promise; it is never lowered.
-- $1 ids, $2 topics, $3 payloads, $4 keys, $5 available_at, $6 priorities, $7 max_attempts, $8 tags (JSON arrays), $9 metadata
insert into "brooq".job (id, topic, payload, idempotency_key, available_at, priority, max_attempts, tags, metadata)
select new.id, new.topic, new.payload::jsonb, new.key, coalesce(new.available_at, now()), new.priority, new.max_attempts,
       case when new.tags is not null then array(select jsonb_array_elements_text(new.tags::jsonb)) end,
       new.metadata::jsonb
from unnest(
    $1::uuid[], $2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::smallint[], $7::int[], $8::text[], $9::text[]
) as new (id, topic, payload, key, available_at, priority, max_attempts, tags, metadata)
where (select case when current_setting('synchronous_commit') in ('off', 'local', 'remote_write')
                   then set_config('synchronous_commit', 'on', true) else '' end) is not null
on conflict do nothing
returning id
