-- End the pause of a topic, write down who has done it, and wake idle workers: jobs may have gathered meanwhile.
-- $1 topic, $2 actor, $3 reason, $4 whether to wake workers
with resumed as (
    update "brooq".brooq_topic set paused_at = null, paused_by = null, pause_reason = null, updated_at = now()
    where topic = $1::text and paused_at is not null
      and (select case when current_setting('synchronous_commit') in ('off', 'local', 'remote_write')
                       then set_config('synchronous_commit', 'on', true) else '' end) is not null
    returning topic
),
changed as (
    select exists (select from resumed) as done
),
woken as (
    select count(pg_notify('brooq_wakeups', '"brooq".' || topic)) as told from resumed where $4::boolean
)
insert into "brooq".brooq_operation (actor, action, topic, found, done, reason)
select $2::text, 'resume', $1::text, case when done then 'paused' else 'open' end, done, $3::text
from changed, woken where told >= 0
returning done
