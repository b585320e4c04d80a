-- What rows say of claims whose outcome was not confirmed: still held, recorded by us, or taken away.
-- $1 ids
select id, state, claim_seq, locked_by from "brooq".job where id = any($1::uuid[])
