-- Everything that is known of every job, job by job: its changes in their order, the effects of its handlers, and at the
-- end the row as it is now, so that whoever wrote round the trigger is seen. One sort, streamed: the reader keeps one job
-- at a time. Moments are texts of one form in UTC, so that their order is that of the texts.
copy (
    select job_id, seq, at, actor, op, topic, idempotency_key, priority,
           old_state, old_claim_seq, old_attempts, old_locked_by, old_locked_until, old_available_at,
           state, claim_seq, attempts, locked_by, locked_until, available_at, old_updated_at, expired, has_error,
           concurrency_key
    from "brooq_audit".change
    union all
    select job_id, 9223372036854775806, at, null, 'EFFECT', null, null, null,
           null, null, null, null, null, null,
           null, claim_seq, null, null, null, null, null, null, null, null
    from "brooq_audit".effect
    union all
    select id, 9223372036854775807, clock_timestamp(), null, 'NOW', topic, idempotency_key, priority,
           null, null, null, null, null, null,
           state, claim_seq, attempts, locked_by, locked_until, available_at, created_at, null, last_error is not null,
           concurrency_key
    from "brooq".job
    order by 1, 2
) to stdout
