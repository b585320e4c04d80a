-- Write how far handlers say that they are, each fenced by its claim. A hint for people: it waits for no lock, and a crash
-- may cost it. Only the one column changes, which no index holds, so that the update is heap-only; updated_at stays the
-- time of the claim.
-- Looked up by primary key, as renewals are.
-- $1 owner, $2 ids, $3 claim_seqs, $4 progress as JSON text
with mine as materialized (
    select job.id, told.progress
    from unnest((select $2::uuid[]), (select $3::bigint[]), (select $4::text[])) as told (id, token, progress)
    join "brooq".job on job.id = told.id
    where job.state is not distinct from 'processing' and job.locked_by = $1 and job.claim_seq = told.token
    order by job.id
    for no key update of job skip locked
)
update "brooq".job set progress = mine.progress::jsonb || jsonb_build_object('at', now())
from mine
where job.id = mine.id
returning job.id
