-- Take away the periodic jobs that an earlier version of the workers' code asked for, for topics that they still work on.
-- $1 topics, $2 names that the code asks for now
delete from "brooq".brooq_schedule where declared and topic = any($1::text[]) and name <> all($2::text[])
returning name
