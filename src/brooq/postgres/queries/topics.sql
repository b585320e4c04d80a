-- What is set for topics.
select topic, paused_at, paused_by, pause_reason from "brooq".brooq_topic order by topic
