-- The table of jobs, its indexes, and what a plain INSERT from any language needs.
-- Every name is unqualified: the schema is the one that search_path names when the file is applied.

-- +goose Up
-- migrate:up

-- +goose StatementBegin
do $do$
begin
    -- UUIDv7 (RFC 9562). PostgreSQL 18 has its own; the other floors the millisecond, so that no id runs ahead of the clock.
    if current_setting('server_version_num')::int >= 180000 then
        execute 'create function brooq_uuid7() returns uuid language sql volatile parallel safe as ''select uuidv7()''';
    else
        execute $sql$
            create function brooq_uuid7() returns uuid language sql volatile parallel safe as $body$
                select encode(
                    overlay(
                        overlay(
                            uuid_send(gen_random_uuid())
                            placing substring(int8send(floor(stamp / 4096)::bigint) from 3) from 1 for 6
                        )
                        placing int2send((28672 + stamp::bigint % 4096)::int2) from 7 for 2
                    ),
                    'hex')::uuid
                from (select floor(extract(epoch from clock_timestamp()) * 1000 * 4096) as stamp) as clock
            $body$
        $sql$;
    end if;
end
$do$;
-- +goose StatementEnd

create table job (
    id uuid not null default brooq_uuid7(),
    topic text not null,
    payload jsonb not null default 'null',
    state text not null default 'pending',
    priority smallint not null default 0,
    -- How often the job was taken; spent at the claim.
    attempts integer not null default 0,
    -- Overrides the kind's; null leaves it to the kind.
    max_attempts integer,
    -- The fence: +1 at every claim, never reset. Every renewal and outcome write carries it.
    claim_seq bigint not null default 0,
    -- How often a lease ran out before an outcome was written: a sign of dying workers, never a step towards dead.
    expired_leases integer not null default 0,
    idempotency_key text,
    available_at timestamptz not null default now(),
    locked_by text,
    locked_until timestamptz,
    last_error text,
    -- The last failures, oldest first; null until the first, so that the successful path pays nothing.
    failures jsonb,
    tags text[],
    metadata jsonb,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),

    constraint job_pkey primary key (id),
    constraint job_topic_check check (length(topic) <= 128 and topic ~ '^[a-z0-9]+([.-][a-z0-9]+)*$'),
    constraint job_state_check check (state in ('pending', 'processing', 'failed', 'done', 'dead', 'canceled')),
    constraint job_priority_check check (priority between 0 and 9),
    constraint job_attempts_check check (attempts >= 0 and max_attempts >= 1 and claim_seq >= 0 and expired_leases >= 0),
    -- What a program can read back: a moment at infinity would spoil the claim that meets it.
    constraint job_available_at_check check (
        available_at >= '0001-01-02 00:00:00+00' and available_at < '9999-12-31 00:00:00+00'
    ),
    constraint job_key_check check (octet_length(idempotency_key) between 1 and 1024),
    -- A lease is whole or absent; processing has one, waiting states have none; terminal rows may keep their last.
    constraint job_lease_check check (
        (locked_by is null) = (locked_until is null)
        and case state
            when 'processing' then locked_by is not null
            when 'pending' then locked_by is null
            when 'failed' then locked_by is null
            else true
        end
    )
) with (
    -- Room on every page for a renewal beside its row: it touches no indexed column, so it stays a heap-only update.
    fillfactor = 90,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 100,
    autovacuum_analyze_scale_factor = 0.05
);

-- The order of claiming within a topic. Foreign topics, terminal rows and the future are outside of every claim's range.
create index job_ready on job (topic, priority, available_at, id) where state in ('pending', 'failed');

-- Held jobs are as few as there are slots in the fleet. No column of the lease is in it, or renewals would not be heap-only.
create index job_held on job (id) where state = 'processing';

-- One job per topic and key while the row lives, whatever its state.
create unique index job_key on job (topic, idempotency_key) where idempotency_key is not null;

-- Retention, oldest first.
create index job_terminal on job (updated_at) where state in ('done', 'dead', 'canceled');

-- The dead and the canceled, few and looked at often; counted by topic.
create index job_unsuccessful on job (state, topic, updated_at) where state in ('dead', 'canceled');

-- What share of the table is in which topic and state: the gauges of a big table are estimated from it.
create statistics job_topic_state (mcv) on topic, state from job;

-- Enqueue from SQL, for triggers and other languages: answers the id, and whether this call made the row.
-- A loop, since a rival's row with the same key may be committed, or deleted by retention, between two statements.
-- +goose StatementBegin
create function brooq_enqueue(
    topic text,
    payload jsonb default 'null',
    idempotency_key text default null,
    available_at timestamptz default null,
    priority integer default 0,
    out id uuid,
    out created boolean
) language plpgsql volatile set search_path from current as $body$
begin
    for attempt in 1 .. 10 loop
        insert into job as j (topic, payload, idempotency_key, available_at, priority)
        values (
            brooq_enqueue.topic,
            coalesce(brooq_enqueue.payload, 'null'),
            nullif(brooq_enqueue.idempotency_key, ''),
            coalesce(brooq_enqueue.available_at, now()),
            brooq_enqueue.priority
        )
        on conflict do nothing
        returning j.id into id;
        if found then
            created := true;
            return;
        end if;
        select j.id into id from job as j
        where j.topic = brooq_enqueue.topic and j.idempotency_key = brooq_enqueue.idempotency_key;
        if found then
            created := false;
            return;
        end if;
    end loop;
    raise exception 'brooq_enqueue: the job with key % came and went ten times', idempotency_key
        using errcode = 'serialization_failure';
end
$body$;
-- +goose StatementEnd

-- +goose Down
-- migrate:down

drop function brooq_enqueue(text, jsonb, text, timestamptz, integer);
drop table job;
drop function brooq_uuid7();
