-- Periodic jobs: what is to be enqueued when, and which tick comes next.

-- +goose Up
-- migrate:up

create table brooq_schedule (
    name text not null,
    topic text not null,
    cron text not null,
    timezone text not null,
    -- null: the job is told its schedule and tick instead.
    payload jsonb,
    priority smallint not null default 0,
    max_attempts integer,
    concurrency_key text,
    -- What becomes of ticks that nobody was there for: skip, once (one job for all of them), all (the last so many).
    missed text not null default 'once',
    missed_limit integer not null default 100,
    -- Whether the code of the workers asks for it; what is set by hand stands above.
    declared boolean not null default false,
    paused_at timestamptz,
    paused_by text,
    -- The first tick that has no job yet. Whoever makes its job moves it on in the same statement, so one tick has one job.
    next_at timestamptz,
    last_at timestamptz,
    last_job uuid,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),

    constraint brooq_schedule_pkey primary key (name),
    constraint brooq_schedule_name_check check (length(name) <= 128 and name ~ '^[a-z0-9]+([.-][a-z0-9]+)*$'),
    constraint brooq_schedule_topic_check check (length(topic) <= 128 and topic ~ '^[a-z0-9]+([.-][a-z0-9]+)*$'),
    constraint brooq_schedule_missed_check check (missed in ('skip', 'once', 'all') and missed_limit between 1 and 10000),
    constraint brooq_schedule_priority_check check (priority between 0 and 9 and max_attempts >= 1),
    constraint brooq_schedule_pause_check check ((paused_at is null) = (paused_by is null)),
    constraint brooq_schedule_size_check check (
        octet_length(cron) <= 512 and octet_length(timezone) <= 128 and pg_column_size(payload) <= 16777216
        and octet_length(concurrency_key) between 1 and 1024 and octet_length(paused_by) <= 512
    )
);

-- +goose Down
-- migrate:down

drop table brooq_schedule;
