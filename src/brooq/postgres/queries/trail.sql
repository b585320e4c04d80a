-- What people did to a job by hand, newest first: few rows, found by its index.
-- $1 id, $2 how many
select at, actor, action, done, reason, made from "brooq".brooq_operation
where job = $1::uuid
order by id desc
limit $2
