-- Renew the leases of one process: one statement for all of them, each fenced by its claim.
--
-- SKIP LOCKED in order of id: a settle in flight or a hand on a row must not stop the other renewals, and no two
-- statements wait for each other crosswise. A skipped row is neither renewed nor lost, so the guard is read once more
-- without a lock, for what is not in the hashed list of the renewed ones: a join of two unknown lengths would go through all
-- pairs. Only locked_until changes: no index holds it, so the update is heap-only.
-- `is not distinct from` keeps the index of held jobs out of the plan: it holds whatever was held since the oldest snapshot of
-- the database was taken, and arrays of unknown length would be joined with all of it. `any(array[…])`: see the exchange. The
-- order is that of the ids that came: that of the rows' own would bring the whole primary key into the plan.
-- greatest: whoever has waited for an answer for too long renews once more on another connection, while the server may
-- still be at the first statement, which began earlier; written last, it would end the lease before its holder expects it.
-- Losing a renewal to a crash costs nothing: synchronous_commit stays as the session has it.
-- $1 owner, $2 ids, $3 claim_seqs, $4 lease
with mine as materialized (
    select job.id
    from unnest((select $2::uuid[]), (select $3::bigint[])) as held (id, token)
    join "brooq".job on job.id = any(array[held.id])
    where job.state is not distinct from 'processing' and job.locked_by = $1 and job.claim_seq = held.token
    order by held.id
    for no key update of job skip locked
),
renewed as (
    update "brooq".job set locked_until = greatest(job.locked_until, now() + $4::interval)
    from mine
    where job.id = any(array[mine.id])
    returning job.id, job.claim_seq
)
select id, claim_seq, true as renewed, false as lost from renewed
union all
select held.id, held.token, false, job.id is null
from unnest((select $2::uuid[]), (select $3::bigint[])) as held (id, token)
left join "brooq".job
    on job.id = any(array[held.id])
    and job.state is not distinct from 'processing' and job.locked_by = $1 and job.claim_seq = held.token
where (held.id, held.token) not in (select id, claim_seq from renewed)
