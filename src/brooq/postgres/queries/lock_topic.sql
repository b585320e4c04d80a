-- One claim at a time of a topic with limits: whoever counts has to know that nobody else claims meanwhile. A statement of
-- its own, since only the next one has a snapshot from after the lock. It waits a moment at most: a claim takes a
-- millisecond or two, and whoever keeps the row locked by hand shall not hold up the worker's other topics.
-- synchronous_commit is raised for this transaction alone: of a claim that a crash takes back the handler runs on, and the
-- job counts no more.
-- $1 topic
select topic from "brooq".brooq_topic
where topic = $1::text
  and (select set_config('lock_timeout', '200ms', true)
              || case when current_setting('synchronous_commit') in ('off', 'local', 'remote_write')
                      then set_config('synchronous_commit', 'on', true) else '' end) is not null
for no key update
