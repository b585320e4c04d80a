-- Say that a worker waits for jobs of these topics: a shared lock that the session keeps, which `enqueue` meets.
-- $1 topics
select pg_advisory_lock_shared(hashtext('"brooq".'), hashtext(topic)) from unnest($1::text[]) as waited (topic)
