-- The checks of single columns become those of their types. A statement that writes a row reads and compiles every CHECK
-- of the table anew, whichever columns it touches: with twelve of them that was a third of a small exchange. The check of
-- a domain is kept in the session, and is asked only where its column is written.
-- Nothing is rewritten: the columns become of types that do not check yet. And nothing is read again: every row has passed
-- the checks that these replace, hence NOT VALID. Partial indexes of these columns are built anew.

-- +goose Up
-- migrate:up

create domain brooq_job_topic as text;
create domain brooq_job_payload as jsonb;
create domain brooq_job_state as text;
create domain brooq_job_priority as smallint;
create domain brooq_job_count as integer;
create domain brooq_job_sequence as bigint;
create domain brooq_job_maximum as integer;
create domain brooq_job_key as text;
create domain brooq_job_time as timestamptz;
create domain brooq_job_worker as text;
create domain brooq_job_error as text;
create domain brooq_job_tags as text[];
create domain brooq_job_metadata as jsonb;

alter table job
    drop constraint job_topic_check,
    drop constraint job_state_check,
    drop constraint job_priority_check,
    drop constraint job_attempts_check,
    drop constraint job_available_at_check,
    drop constraint job_key_check,
    drop constraint job_lease_check,
    drop constraint job_payload_size_check,
    drop constraint job_metadata_size_check,
    drop constraint job_tags_size_check,
    drop constraint job_last_error_size_check,
    drop constraint job_locked_by_size_check;

alter table job
    alter column topic type brooq_job_topic,
    alter column payload type brooq_job_payload,
    alter column state type brooq_job_state,
    alter column priority type brooq_job_priority,
    alter column attempts type brooq_job_count,
    alter column expired_leases type brooq_job_count,
    alter column claim_seq type brooq_job_sequence,
    alter column max_attempts type brooq_job_maximum,
    alter column idempotency_key type brooq_job_key,
    alter column concurrency_key type brooq_job_key,
    alter column available_at type brooq_job_time,
    alter column locked_by type brooq_job_worker,
    alter column last_error type brooq_job_error,
    alter column tags type brooq_job_tags,
    alter column metadata type brooq_job_metadata,
    alter column result type brooq_job_payload,
    alter column progress type brooq_job_metadata,
    -- A lease is whole or absent; processing has one, waiting states have none; terminal rows may keep their last.
    add constraint job_lease_check check (
        case
            when locked_by is null then locked_until is null and state <> 'processing'
            else locked_until is not null and state <> 'pending' and state <> 'failed'
        end
    ) not valid;

alter domain brooq_job_topic add constraint job_topic_check check (
    length(value) <= 128 and value ~ '^[a-z0-9]+([.-][a-z0-9]+)*$'
) not valid;
-- 1 MiB of JSON text, the library's limit unless it is set, takes up to six times as much as jsonb.
alter domain brooq_job_payload add constraint job_payload_size_check check (pg_column_size(value) <= 16777216) not valid;
alter domain brooq_job_metadata add constraint job_metadata_size_check check (pg_column_size(value) <= 16777216) not valid;
alter domain brooq_job_state add constraint job_state_check check (
    value in ('pending', 'processing', 'failed', 'done', 'dead', 'canceled')
) not valid;
alter domain brooq_job_priority add constraint job_priority_check check (value between 0 and 9) not valid;
alter domain brooq_job_count add constraint job_attempts_check check (value >= 0) not valid;
alter domain brooq_job_sequence add constraint job_attempts_check check (value >= 0) not valid;
alter domain brooq_job_maximum add constraint job_attempts_check check (value >= 1) not valid;
alter domain brooq_job_key add constraint job_key_check check (octet_length(value) between 1 and 1024) not valid;
-- What a program can read back: a moment at infinity would spoil the claim that meets it.
alter domain brooq_job_time add constraint job_available_at_check check (
    value >= '0001-01-02 00:00:00+00' and value < '9999-12-31 00:00:00+00'
) not valid;
alter domain brooq_job_worker add constraint job_locked_by_size_check check (octet_length(value) <= 512) not valid;
alter domain brooq_job_error add constraint job_last_error_size_check check (octet_length(value) <= 4096) not valid;
alter domain brooq_job_tags add constraint job_tags_size_check check (
    cardinality(value) <= 20 and pg_column_size(value) <= 16384
) not valid;

-- +goose Down
-- migrate:down

alter table job
    drop constraint job_lease_check,
    alter column topic type text,
    alter column payload type jsonb,
    alter column state type text,
    alter column priority type smallint,
    alter column attempts type integer,
    alter column expired_leases type integer,
    alter column claim_seq type bigint,
    alter column max_attempts type integer,
    alter column idempotency_key type text,
    alter column concurrency_key type text,
    alter column available_at type timestamptz,
    alter column locked_by type text,
    alter column last_error type text,
    alter column tags type text[],
    alter column metadata type jsonb,
    alter column result type jsonb,
    alter column progress type jsonb,
    add constraint job_topic_check check (length(topic) <= 128 and topic ~ '^[a-z0-9]+([.-][a-z0-9]+)*$') not valid,
    add constraint job_state_check check (
        state in ('pending', 'processing', 'failed', 'done', 'dead', 'canceled')
    ) not valid,
    add constraint job_priority_check check (priority between 0 and 9) not valid,
    add constraint job_attempts_check check (
        attempts >= 0 and max_attempts >= 1 and claim_seq >= 0 and expired_leases >= 0
    ) not valid,
    add constraint job_available_at_check check (
        available_at >= '0001-01-02 00:00:00+00' and available_at < '9999-12-31 00:00:00+00'
    ) not valid,
    add constraint job_key_check check (octet_length(idempotency_key) between 1 and 1024) not valid,
    add constraint job_lease_check check (
        (locked_by is null) = (locked_until is null)
        and case state
            when 'processing' then locked_by is not null
            when 'pending' then locked_by is null
            when 'failed' then locked_by is null
            else true
        end
    ) not valid,
    add constraint job_payload_size_check check (pg_column_size(payload) <= 16777216) not valid,
    add constraint job_metadata_size_check check (pg_column_size(metadata) <= 16777216) not valid,
    add constraint job_tags_size_check check (cardinality(tags) <= 20 and pg_column_size(tags) <= 16384) not valid,
    add constraint job_last_error_size_check check (octet_length(last_error) <= 4096) not valid,
    add constraint job_locked_by_size_check check (octet_length(locked_by) <= 512) not valid;
drop domain brooq_job_topic, brooq_job_payload, brooq_job_state, brooq_job_priority, brooq_job_count, brooq_job_sequence,
    brooq_job_maximum, brooq_job_key, brooq_job_time, brooq_job_worker, brooq_job_error, brooq_job_tags,
    brooq_job_metadata;
