-- The audit: one row for every change of every job, written by a trigger in the very transaction of the change.
-- It runs while the row is locked, so for one job the order of `seq` is the order of its versions, and a change that is
-- rolled back leaves nothing here. Between jobs the order of `seq` means nothing.
-- Names are those of the audit's own schema and, for `job`, of the schema beside it.

-- +goose Up

create table change (
    seq bigint generated always as identity primary key,
    at timestamptz not null default clock_timestamp(),
    xid xid8 not null default pg_current_xact_id(),
    actor text,
    -- INSERT, UPDATE, DELETE, or TRUNCATE of the whole table, which names no job.
    op text not null,
    job_id uuid,
    topic text,
    -- Of rows made and deleted; between the two it does not change.
    idempotency_key text,
    priority smallint,
    old_state text,
    state text,
    old_claim_seq bigint,
    claim_seq bigint,
    old_attempts integer,
    attempts integer,
    old_locked_by text,
    locked_by text,
    old_locked_until timestamptz,
    locked_until timestamptz,
    old_available_at timestamptz,
    available_at timestamptz,
    old_updated_at timestamptz,
    -- How many expired leases this change has counted.
    expired integer,
    -- Whether the row tells the reason of a failure. The reason itself may hold secrets and stays where it is.
    has_error boolean
) with (fillfactor = 100);

-- What handlers did in the transaction that closed their job. No unique index: twice is to be seen, not prevented.
create table effect (
    seq bigint generated always as identity primary key,
    at timestamptz not null default clock_timestamp(),
    job_id uuid not null,
    claim_seq bigint not null
);

-- +goose StatementBegin
create function refuse_rewriting() returns trigger language plpgsql as $body$
begin
    raise exception 'the audit of brooq is append-only' using errcode = 'insufficient_privilege';
end
$body$;
-- +goose StatementEnd

create trigger append_only before update or delete or truncate on change
    for each statement execute function refuse_rewriting();
create trigger append_only before update or delete or truncate on effect
    for each statement execute function refuse_rewriting();
alter table change enable always trigger append_only;
alter table effect enable always trigger append_only;

-- Whoever changes a job needs no right on the audit: the function runs with its owner's, and finds no name elsewhere.
-- +goose StatementBegin
create function record_change() returns trigger language plpgsql security definer set search_path from current as $body$
begin
    insert into change (
        actor, op, job_id, topic, idempotency_key, priority, old_state, state, old_claim_seq, claim_seq, old_attempts,
        attempts, old_locked_by, locked_by, old_locked_until, locked_until, old_available_at, available_at,
        old_updated_at, expired, has_error
    ) values (
        current_setting('application_name'), tg_op, coalesce(new.id, old.id), coalesce(new.topic, old.topic),
        case when tg_op <> 'UPDATE' then coalesce(new.idempotency_key, old.idempotency_key) end,
        coalesce(new.priority, old.priority), old.state, new.state, old.claim_seq, new.claim_seq, old.attempts,
        new.attempts, old.locked_by, new.locked_by, old.locked_until, new.locked_until, old.available_at,
        new.available_at, old.updated_at, new.expired_leases - old.expired_leases, new.last_error is not null
    );
    return null;
end
$body$;
-- +goose StatementEnd

revoke all on function record_change() from public;

create trigger brooq_audit after insert or update or delete on job for each row execute function record_change();
create trigger brooq_audit_truncate after truncate on job for each statement execute function record_change();

-- +goose Down

drop trigger if exists brooq_audit on job;
drop trigger if exists brooq_audit_truncate on job;
drop table change;
drop table effect;
drop function record_change();
drop function refuse_rewriting();
