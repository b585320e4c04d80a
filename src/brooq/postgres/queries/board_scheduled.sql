-- How many periodic jobs each topic has.
-- $1 how many topics
select topic, count(*) from "brooq".brooq_schedule group by topic order by topic limit $1::int
