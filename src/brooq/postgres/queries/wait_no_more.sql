-- Nobody waits here any more: producers need not tell.
-- $1 topics
select pg_advisory_unlock_shared(hashtext('"brooq".'), hashtext(topic)) from unnest($1::text[]) as waited (topic)
