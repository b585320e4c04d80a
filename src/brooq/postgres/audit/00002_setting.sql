-- What is set for topics, and the keys that jobs are limited by: whether a claim has kept to pauses and limits is seen from
-- both. A setting has its number from the same sequence as the changes of jobs.

-- +goose Up

create table setting (
    seq bigint primary key default nextval('change_seq_seq'),
    at timestamptz not null default clock_timestamp(),
    op text not null,
    topic text not null,
    paused boolean not null,
    max_running integer,
    max_running_per_key integer,
    ordered boolean not null,
    rate integer,
    rate_period interval
) with (fillfactor = 100);

alter table change add column concurrency_key text;

create trigger append_only before update or delete or truncate on setting
    for each statement execute function refuse_rewriting();
alter table setting enable always trigger append_only;

-- +goose StatementBegin
create or replace function record_change() returns trigger language plpgsql security definer set search_path from current as
$body$
begin
    insert into change (
        actor, op, job_id, topic, idempotency_key, priority, old_state, state, old_claim_seq, claim_seq, old_attempts,
        attempts, old_locked_by, locked_by, old_locked_until, locked_until, old_available_at, available_at,
        old_updated_at, expired, has_error, concurrency_key
    ) values (
        current_setting('application_name'), tg_op, coalesce(new.id, old.id), coalesce(new.topic, old.topic),
        case when tg_op <> 'UPDATE' then coalesce(new.idempotency_key, old.idempotency_key) end,
        coalesce(new.priority, old.priority), old.state, new.state, old.claim_seq, new.claim_seq, old.attempts,
        new.attempts, old.locked_by, new.locked_by, old.locked_until, new.locked_until, old.available_at,
        new.available_at, old.updated_at, new.expired_leases - old.expired_leases, new.last_error is not null,
        coalesce(new.concurrency_key, old.concurrency_key)
    );
    return null;
end
$body$;
-- +goose StatementEnd

-- +goose StatementBegin
create function record_setting() returns trigger language plpgsql security definer set search_path from current as $body$
begin
    -- Tokens are spent by every claim: they are no setting.
    if tg_op = 'UPDATE' and (old.paused_at is null, old.max_running, old.max_running_per_key, old.ordered, old.rate,
                             old.rate_period)
                            is not distinct from
                            (new.paused_at is null, new.max_running, new.max_running_per_key, new.ordered, new.rate,
                             new.rate_period) then
        return null;
    end if;
    insert into setting (op, topic, paused, max_running, max_running_per_key, ordered, rate, rate_period)
    values (
        tg_op, coalesce(new.topic, old.topic), coalesce(new.paused_at is not null, false), new.max_running,
        new.max_running_per_key, coalesce(new.ordered, false), new.rate, new.rate_period
    );
    return null;
end
$body$;
-- +goose StatementEnd

revoke all on function record_setting() from public;

insert into setting (op, topic, paused, max_running, max_running_per_key, ordered, rate, rate_period)
select 'FOUND', topic, paused_at is not null, max_running, max_running_per_key, ordered, rate, rate_period
from brooq_topic;

create trigger brooq_audit after insert or update or delete on brooq_topic for each row execute function record_setting();

-- +goose Down

drop trigger if exists brooq_audit on brooq_topic;
drop function record_setting();
drop table setting;
alter table change drop column concurrency_key;
-- +goose StatementBegin
create or replace function record_change() returns trigger language plpgsql security definer set search_path from current as
$body$
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
