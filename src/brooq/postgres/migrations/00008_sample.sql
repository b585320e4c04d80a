-- What happened when: a row for each topic and step of time, added up over all workers, for charts. Two lengths of step:
-- ten seconds for the last hours, a quarter of an hour for the last eight days. Rows are few and old ones go by
-- themselves, a few with every writing; nothing of the queue's work rests on them.

-- +goose Up
-- migrate:up

create table brooq_sample (
    -- The length of the step in seconds, and where it begins.
    step integer not null,
    at timestamptz not null,
    topic text not null,
    -- What ended in it: shares of a count that spans several steps are not whole numbers.
    done double precision not null default 0,
    failed double precision not null default 0,
    dead double precision not null default 0,
    canceled double precision not null default 0,
    -- Attempts that ended and how many seconds they ran; claims and how many seconds those jobs had waited, and what one
    -- in twenty had waited at least.
    attempts double precision not null default 0,
    ran double precision not null default 0,
    claimed double precision not null default 0,
    waited double precision not null default 0,
    waited_p95 double precision not null default 0,
    -- As the last census within the step found it.
    waiting bigint not null default 0,
    processing bigint not null default 0,
    oldest double precision not null default 0,

    constraint brooq_sample_pkey primary key (step, at, topic),
    constraint brooq_sample_size_check check (octet_length(topic) <= 512 and step between 1 and 86400)
) with (
    -- The rows of the present step are written again and again, beside themselves.
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_threshold = 500
);

-- +goose Down
-- migrate:down

drop table brooq_sample;
