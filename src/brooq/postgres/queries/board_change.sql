-- A text that differs once anything about jobs has changed: the newest job, what is held, what ended last, what somebody
-- did; and the server's own counts of rows written, which are up to ten seconds late, and see whatever the others do not.
-- Each is one look into an index: it costs the same in any table.
select concat_ws(' ',
    (select id from "brooq".job order by id desc limit 1),
    (select count(*) || ' ' || sum(claim_seq) || ' ' || max(id::text) || coalesce(md5(string_agg(progress::text, '' order by id)), '')
     from (select id, claim_seq, progress from "brooq".job where state = 'processing' order by id limit 1000) as held),
    (select updated_at from "brooq".job where state in ('done', 'dead', 'canceled') order by updated_at desc limit 1),
    (select id from "brooq".brooq_operation order by id desc limit 1),
    (select coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0) from pg_stat_all_tables
     where relid in ('"brooq".job'::regclass, '"brooq".brooq_topic'::regclass))
) as told
