-- What people have done to jobs by hand: who, when, what and why. Rows are added and never changed, whoever asks; the
-- jobs they speak of may be gone by then.

-- +goose Up
-- migrate:up

create table brooq_operation (
    id bigint generated always as identity,
    at timestamptz not null default clock_timestamp(),
    -- As the command line knows the person; the login is PostgreSQL's word.
    actor text not null,
    login text not null default session_user,
    action text not null,
    job uuid not null,
    topic text not null,
    -- The state that was found, and whether the action changed it.
    found text not null,
    done boolean not null,
    reason text,

    constraint brooq_operation_pkey primary key (id),
    constraint brooq_operation_action_check check (action in ('cancel')),
    constraint brooq_operation_size_check check (octet_length(actor) <= 512 and octet_length(reason) <= 4096)
);

create index brooq_operation_job on brooq_operation (job, id);

-- +goose StatementBegin
create function brooq_operation_stays() returns trigger language plpgsql as $body$
begin
    raise exception 'brooq_operation is only added to' using errcode = 'insufficient_privilege';
end
$body$;
-- +goose StatementEnd

create trigger brooq_operation_stays before update or delete or truncate on brooq_operation
    for each statement execute function brooq_operation_stays();

-- +goose Down
-- migrate:down

drop table brooq_operation;
drop function brooq_operation_stays();
