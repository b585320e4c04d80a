-- How large the parts of a row may be, whoever writes it. The library refuses smaller sizes with better words; these are
-- for everybody else who may insert, and for what would make a claim too large for a worker's memory.
-- Sizes are those of the columns as they are stored: asking for them never unpacks a value, so that the updates of a
-- job's life, which check this too, cost the same for a large payload. A row that was let in stays within them, since a
-- stored value is never larger than the one that was checked.

-- +goose Up
-- migrate:up

alter table job
    -- 1 MiB of JSON text, the library's limit unless it is set, takes up to six times as much as jsonb.
    add constraint job_payload_size_check check (pg_column_size(payload) <= 16777216),
    add constraint job_metadata_size_check check (pg_column_size(metadata) <= 16777216),
    add constraint job_tags_size_check check (cardinality(tags) <= 20 and pg_column_size(tags) <= 16384),
    add constraint job_last_error_size_check check (octet_length(last_error) <= 4096),
    add constraint job_locked_by_size_check check (octet_length(locked_by) <= 512);

-- +goose Down
-- migrate:down

alter table job
    drop constraint job_payload_size_check,
    drop constraint job_metadata_size_check,
    drop constraint job_tags_size_check,
    drop constraint job_last_error_size_check,
    drop constraint job_locked_by_size_check;
