-- Write one outcome inside an open transaction. It waits for the row, unlike an exchange: the transaction holds
-- nothing yet that others wait for, and its callbacks must not run unless the job is ours.
-- $1 owner, $2 id, $3 claim_seq, $4 state, $5 error, $6 delay in seconds, $7 refund, $8 result as JSON text
update "brooq".job as job
set state = $4::text,
    attempts = greatest(attempts - $7::int, 0),
    available_at = case when $6::float8 is null then available_at else now() + make_interval(secs => $6::float8) end,
    locked_by = case when $4::text in ('pending', 'failed') then null else locked_by end,
    locked_until = case when $4::text in ('pending', 'failed') then null else locked_until end,
    last_error = coalesce($5::text, last_error),
    failures = case when $5::text is null or $4::text not in ('failed', 'dead') then failures
                    else (case when jsonb_array_length(job.failures) >= 10 then job.failures - 0
                              else coalesce(job.failures, '[]') end)
                             || jsonb_build_object('attempt', job.attempts, 'at', now(), 'worker', job.locked_by,
                                                   'error', left($5::text, 500)) end,
    result = coalesce($8::text::jsonb, result),
    updated_at = now()
where (select case when current_setting('synchronous_commit') in ('off', 'local', 'remote_write')
                   then set_config('synchronous_commit', 'on', true) else '' end) is not null
  and id = $2::uuid and state = 'processing' and locked_by = $1::text and claim_seq = $3::bigint
returning id
