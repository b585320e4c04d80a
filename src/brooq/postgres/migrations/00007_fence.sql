-- A fence for the consumer's own tables: a transaction that asks for it commits only while its claim holds the job.

-- +goose Up
-- migrate:up

-- Raises BQ001, which aborts the transaction, when the claim is over. Else the row is locked so that renewals, outcomes and
-- a cancel go on, and the next claim (FOR UPDATE SKIP LOCKED) does not come before the transaction ends.
-- +goose StatementBegin
create function brooq_assert_held(id uuid, token bigint) returns void language plpgsql volatile
    set search_path from current as $body$
begin
    perform from job as held
    where held.id = brooq_assert_held.id and held.claim_seq = brooq_assert_held.token and held.state = 'processing'
    for key share;
    if not found then
        raise exception 'job % is no longer held by claim %', id, token using errcode = 'BQ001';
    end if;
end
$body$;
-- +goose StatementEnd

-- +goose Down
-- migrate:down

drop function brooq_assert_held(uuid, bigint);
