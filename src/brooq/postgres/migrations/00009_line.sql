-- Limits of topics: what code declares beside what an operator sets, lines whose jobs run one after the other, and the
-- index that claims of one key at a time need. It holds jobs with a concurrency key alone, so others pay for none of it.

-- +goose Up
-- migrate:up

alter table brooq_topic
    -- Of each concurrency key one job at a time, in the order of enqueueing; a job that waits for its retry blocks the rest.
    add column ordered boolean not null default false,
    -- Who set the limits; null: the code of the workers, see `declared`.
    add column limits_by text,
    -- The limits that the code of the workers asks for; valid unless somebody has set others.
    add column declared jsonb,
    add constraint brooq_topic_limits_by_check check (octet_length(limits_by) <= 512);

-- The waiting jobs of each key in the order of enqueueing: a claim skips from key to key, past a hundred thousand jobs of one.
create index job_line on job (topic, concurrency_key, id) where state in ('pending', 'failed') and concurrency_key is not null;

-- +goose Down
-- migrate:down

drop index job_line;
alter table brooq_topic drop column ordered, drop column limits_by, drop column declared;
