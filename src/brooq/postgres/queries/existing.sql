-- The jobs that stood in the way of an enqueue: by key, or by an id that an earlier try of the same enqueue has written.
-- A statement of its own: the insert's snapshot may be older than the rival's commit.
-- $1 ids, $2 topics, $3 keys
select wanted.id as wanted, job.id as found
from unnest($1::uuid[], $2::text[], $3::text[]) as wanted (id, topic, key)
join "brooq".job on job.id = wanted.id
union all
select wanted.id as wanted, job.id as found
from unnest($1::uuid[], $2::text[], $3::text[]) as wanted (id, topic, key)
join "brooq".job on job.topic = wanted.topic and job.idempotency_key = wanted.key
where wanted.key is not null
