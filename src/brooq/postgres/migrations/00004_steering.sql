-- What jobs say of themselves beyond their outcome, what operators set for a topic, and who works. All columns are
-- nullable without a default: nothing is rewritten, and a job that uses none of them is stored as before.

-- +goose Up
-- migrate:up

alter table job
    -- The finished job that this one repeats. The way from there to here is in brooq_operation: an index for it would
    -- be paid for by every job.
    add column retry_of uuid,
    -- Jobs of one topic and key share the limit of that key.
    add column concurrency_key text,
    -- What the handler returned, where its kind keeps it.
    add column result jsonb,
    -- How far the handler says that it is: {"done": 0.4, "note": "…", "at": "…"}.
    add column progress jsonb;

-- What somebody has set for a topic; topics that nobody has set anything for have no row. null is no limit.
create table brooq_topic (
    topic text not null,
    paused_at timestamptz,
    paused_by text,
    pause_reason text,
    -- At most so many jobs of the topic, and of each concurrency key, are held at any moment, over all workers.
    max_running integer,
    max_running_per_key integer,
    -- At most so many claims in a period: a bucket of `rate` tokens, as full as `tokens` at the time `tokens_at`.
    rate integer,
    rate_period interval,
    tokens double precision,
    tokens_at timestamptz,
    updated_at timestamptz not null default now(),

    constraint brooq_topic_pkey primary key (topic),
    constraint brooq_topic_topic_check check (length(topic) <= 128 and topic ~ '^[a-z0-9]+([.-][a-z0-9]+)*$'),
    constraint brooq_topic_pause_check check ((paused_at is null) = (paused_by is null)),
    constraint brooq_topic_limit_check check (max_running >= 1 and max_running_per_key >= 1),
    constraint brooq_topic_rate_check check (
        (rate is null) = (rate_period is null) and rate >= 1 and rate_period > interval '0'
    ),
    constraint brooq_topic_size_check check (octet_length(paused_by) <= 512 and octet_length(pause_reason) <= 4096)
);

-- The workers that were seen: each keeps its row fresh. A hint for people, never asked by the engine: who holds a job
-- stands on the job.
create table brooq_worker (
    name text not null,
    host text not null,
    pid integer not null,
    version text not null,
    started_at timestamptz not null default now(),
    seen_at timestamptz not null default now(),
    stopping boolean not null default false,
    slots integer not null,
    -- The topics that it has kinds for, and how many of its slots each occupies: {"email": 3}.
    topics text[] not null,
    busy jsonb not null default '{}',

    constraint brooq_worker_pkey primary key (name),
    constraint brooq_worker_size_check check (octet_length(name) <= 512 and octet_length(host) <= 512)
) with (fillfactor = 50);

-- Operations on topics have no job, and a retry has made one.
alter table brooq_operation
    alter column job drop not null,
    alter column topic drop not null,
    alter column found drop not null,
    add column made uuid,
    drop constraint brooq_operation_action_check,
    add constraint brooq_operation_action_check check (
        action in ('cancel', 'retry', 'pause', 'resume', 'limit', 'schedule')
    ),
    add constraint brooq_operation_object_check check (job is not null or topic is not null);

-- +goose Down
-- migrate:down

alter table brooq_operation disable trigger brooq_operation_stays;
delete from brooq_operation where action <> 'cancel';
alter table brooq_operation enable trigger brooq_operation_stays;
alter table brooq_operation
    drop constraint brooq_operation_object_check,
    drop constraint brooq_operation_action_check,
    add constraint brooq_operation_action_check check (action in ('cancel')),
    drop column made,
    alter column job set not null,
    alter column topic set not null,
    alter column found set not null;
drop table brooq_worker;
drop table brooq_topic;
alter table job drop column retry_of, drop column concurrency_key, drop column result, drop column progress;
