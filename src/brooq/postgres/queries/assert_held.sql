-- Tie a consumer's transaction to a claim: an error that aborts it when the claim is over, else a lock that keeps the next
-- claim out until it ends. A function of the schema, so that consumers can call it over any driver: see its migration.
-- $1 id, $2 claim_seq
select "brooq".brooq_assert_held($1::uuid, $2::bigint)
