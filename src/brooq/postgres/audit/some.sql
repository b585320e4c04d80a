-- The histories of some jobs, to be shown beside what is wrong with them.
-- $1 ids
select job_id::text, seq::text, at::text, actor, op, topic, idempotency_key, priority::text,
       old_state, old_claim_seq::text, old_attempts::text, old_locked_by, old_locked_until::text, old_available_at::text,
       state, claim_seq::text, attempts::text, locked_by, locked_until::text, available_at::text, old_updated_at::text,
       expired::text, case when has_error then 't' else 'f' end, concurrency_key
from "brooq_audit".change where job_id = any($1::uuid[]) order by job_id, seq
