-- Which migration the schema stands at.
select max(version) as version from "brooq".brooq_migration
