-- Where a walk of `list` ended: its last row, when there were as many rows as it was to walk; else it came to the end.
-- $1 ids below this one, $2 ids above this one, $3 how many rows it walked
select id from "brooq".job
where ($1::uuid is null or id < $1) and ($2::uuid is null or id > $2)
order by id desc
offset $3::bigint - 1
limit 1
