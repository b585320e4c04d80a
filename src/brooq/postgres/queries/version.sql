-- Which migration the schema stands at, and whether the server only reads: a standby, or one that was told to.
select max(version) as version, current_setting('transaction_read_only') = 'on' as read_only from "brooq".brooq_migration
