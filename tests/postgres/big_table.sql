-- A table as it is after a busy month: 300,000 terminal jobs, 100,000 of topics that nobody here knows, 100,000 of the
-- future, and the few that matter: 2,000 ready ones, 200 held ones of which 80 have expired.
alter table job set (autovacuum_enabled = off);

create function numbered(n bigint) returns uuid language sql immutable as
    $$select ('01900000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid$$;

insert into job (id, topic, state, attempts, claim_seq, idempotency_key, locked_by, locked_until, updated_at)
select numbered(n), 't', (array['done', 'done', 'done', 'done', 'done', 'done', 'done', 'done', 'dead', 'canceled'])[1 + n % 10],
       1, 1, case when n % 3 = 0 then 'key ' || n end, 'long ago', now() - interval '10 days',
       now() - interval '20 days' + n * interval '5 seconds'
from generate_series(1, 300000) as n;

insert into job (id, topic, available_at)
select numbered(n), 'foreign-' || n % 50, now() - interval '1 day' from generate_series(300001, 400000) as n;

insert into job (id, topic, state, available_at)
select numbered(n), 't', case n % 2 when 0 then 'pending' else 'failed' end, now() + n * interval '1 second'
from generate_series(400001, 500000) as n;

insert into job (id, topic, priority, available_at, idempotency_key)
select numbered(n), 't', n % 3, now() - interval '1 hour', 'ready ' || n from generate_series(500001, 502000) as n;

insert into job (id, topic, state, attempts, claim_seq, locked_by, locked_until)
select numbered(n), 't', 'processing', 1, 1, 'worker', now() + case when n % 5 < 2 then -1 else 1 end * interval '1 hour'
from generate_series(502001, 502200) as n;
