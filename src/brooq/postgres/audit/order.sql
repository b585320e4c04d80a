-- Every change in the order of writing: for the order of claims, which can be judged only where one worker with one slot
-- works without faults, and for what was set for topics.
copy (
    select job_id, seq, at, actor, op, topic, idempotency_key, priority,
           old_state, old_claim_seq, old_attempts, old_locked_by, old_locked_until, old_available_at,
           state, claim_seq, attempts, locked_by, locked_until, available_at, old_updated_at, expired, has_error,
           concurrency_key
    from "brooq_audit".change
    order by seq
) to stdout
