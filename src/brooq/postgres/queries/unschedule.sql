-- Take a periodic job away, and write down who has done it.
-- $1 name, $2 actor, $3 reason
with gone as (
    delete from "brooq".brooq_schedule where name = $1::text
      and (select case when current_setting('synchronous_commit') in ('off', 'local', 'remote_write')
                       then set_config('synchronous_commit', 'on', true) else '' end) is not null
    returning name, topic
),
noted as (
    insert into "brooq".brooq_operation (actor, action, topic, found, done, reason)
    select $2::text, 'schedule', topic, 'removed ' || name, true, $3::text from gone
)
select name from gone
