-- What each slot of a worker does now, for people: beside how many slots a topic occupies stand the jobs themselves, and
-- whether a handler is hung, which no row of a job tells.

-- +goose Up
-- migrate:up

alter table brooq_worker
    -- [{"id": "…", "topic": "…", "attempt": 1, "seconds": 0.4, "hung": false}, …], those that have run longest.
    add column running jsonb not null default '[]';

-- +goose Down
-- migrate:down

alter table brooq_worker drop column running;
