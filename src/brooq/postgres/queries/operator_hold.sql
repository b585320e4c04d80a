-- Hold a job's row to the end of the transaction: two people who retry one job at once must not both make a new one, and
-- the second sees what the first has written only in a statement that begins after this one.
-- $1 id
select id from "brooq".job where id = $1::uuid for no key update
