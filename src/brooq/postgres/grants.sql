-- The roles of brooq, each with what it needs and nothing more. Running this again changes nothing, and takes back what
-- one of these roles was granted on brooq's tables beyond it.
--
--   owner     owns the tables; nobody logs in as it
--   migrator  may act for the owner: `brooq migrate`
--   producer  enqueues, and sees the keys of jobs, no payload and no outcome
--   worker    claims, renews, settles, reaps, cancels; never makes or deletes a job
--   janitor   deletes: retention
--   viewer    reads everything but payloads
--
-- They are groups without a login. A login becomes a member: create role shop_worker login in role brooq_worker, …
-- Before the first migration only the roles and the schema are made; run it once more after `brooq migrate up`. Whoever
-- runs it first has to be allowed to create roles; after that a member of the migrators is enough.

begin;

do $brooq$
declare
    wanted name;
    place oid;
begin
    foreach wanted in array array[
        'brooq_owner', 'brooq_migrator', 'brooq_producer', 'brooq_worker', 'brooq_janitor', 'brooq_viewer'
    ]::name[] loop
        if not exists (select from pg_roles where rolname = wanted) then
            execute format('create role %I nologin', wanted);
        elsif exists (select from pg_roles where rolname = wanted and (rolsuper or rolcreaterole or rolbypassrls)) then
            raise exception 'the role % is there already, and may do what no role of this queue may', wanted
                using errcode = 'duplicate_object';
        end if;
    end loop;
    -- Looked for first, here and below: granting asks for rights even where it would change nothing.
    if not pg_has_role('brooq_migrator', 'brooq_owner', 'member') then
        grant "brooq_owner" to "brooq_migrator";
    end if;
    if not exists (select from pg_namespace where nspname = 'brooq') then
        create schema "brooq";
    end if;
    place := (select oid from pg_namespace where nspname = 'brooq');
    -- Whoever can create in the schema could put functions and operators in the way of the ones that are meant.
    if has_schema_privilege('public', place, 'create') then
        revoke create on schema "brooq" from public;
    end if;
    if not has_schema_privilege('brooq_owner', place, 'create') then
        grant create on schema "brooq" to "brooq_owner";
    end if;
    foreach wanted in array array[
        'brooq_owner', 'brooq_producer', 'brooq_worker', 'brooq_janitor', 'brooq_viewer'
    ]::name[] loop
        if not has_schema_privilege(wanted, place, 'usage') then
            execute format('grant usage on schema %I to %I', 'brooq', wanted);
        end if;
    end loop;
end
$brooq$;

do $brooq$
declare
    change text;
    place oid := (select oid from pg_namespace where nspname = 'brooq');
    owner oid := (select oid from pg_roles where rolname = 'brooq_owner');
    table_oid oid := (select oid from pg_class where relnamespace = place and relname = 'job' and relkind in ('r', 'p'));
begin
    if table_oid is null then
        raise notice 'there is no table of jobs yet: run this once more after the first migration';
        return;
    end if;

    -- What a migration has made belongs to the login that ran it.
    for change in
        select format('alter table %s owner to %I', oid::regclass, 'brooq_owner') from pg_class
        where relnamespace = place and relkind in ('r', 'p') and relowner <> owner
          and (relname = 'job' or relname like 'brooq\_%')
        union all
        select format('alter statistics %s.%I owner to %I', stxnamespace::regnamespace, stxname, 'brooq_owner')
        from pg_statistic_ext where stxrelid = table_oid and stxowner <> owner
        union all
        select format('alter function %s owner to %I', oid::regprocedure, 'brooq_owner') from pg_proc
        where pronamespace = place and proname like 'brooq\_%' and proowner <> owner
        union all
        select format('alter domain %s owner to %I', oid::regtype, 'brooq_owner') from pg_type
        where typnamespace = place and typtype = 'd' and typname like 'brooq\_%' and typowner <> owner
    loop
        execute change;
    end loop;

    revoke all on "brooq".job, "brooq".brooq_migration, "brooq".brooq_operation, "brooq".brooq_topic, "brooq".brooq_worker,
           "brooq".brooq_sample,
        "brooq".brooq_schedule
        from public, "brooq_migrator", "brooq_producer", "brooq_worker", "brooq_janitor", "brooq_viewer";
    for change in
        select format(action, oid::regprocedure, whom)
        from pg_proc,
             (values ('revoke all on function %s from public', null),
                     ('grant execute on function %s to %I', 'brooq_producer')) as to_do (action, whom)
        where pronamespace = place and proname like 'brooq\_%' and prorettype <> 'trigger'::regtype
        union all
        -- Handlers tie their own transactions to their claim.
        select format('grant execute on function %s to %I', oid::regprocedure, 'brooq_worker')
        from pg_proc where pronamespace = place and proname = 'brooq_assert_held'
    loop
        execute change;
    end loop;

    -- Everybody compares the version of the schema at the start.
    grant select on "brooq".brooq_migration to "brooq_producer", "brooq_worker", "brooq_janitor", "brooq_viewer";

    grant insert (id, topic, payload, idempotency_key, available_at, priority, max_attempts, tags, metadata, retry_of,
                  concurrency_key),
          -- available_at: an enqueue tells whether what it has written is ready, and wakes workers then.
          select (id, topic, idempotency_key, state, available_at)
        on "brooq".job to "brooq_producer";

    grant select,
          update (state, attempts, claim_seq, expired_leases, available_at, locked_by, locked_until, last_error, failures,
                  updated_at, result, progress)
        on "brooq".job to "brooq_worker";

    -- Locking a row before its deletion asks for the right to update some column of it.
    grant select (id, topic, state, updated_at), update (updated_at), delete
        on "brooq".job to "brooq_janitor";

    grant select (id, topic, state, priority, attempts, max_attempts, claim_seq, expired_leases, idempotency_key,
                  available_at, locked_by, locked_until, last_error, failures, tags, metadata, created_at, updated_at,
                  retry_of, concurrency_key, progress)
        on "brooq".job to "brooq_viewer";

    -- The trail of what is done by hand: whoever may cancel adds to it, and nobody changes it.
    grant insert (actor, action, job, topic, found, done, reason, made) on "brooq".brooq_operation to "brooq_worker";
    -- A retry asks whether an earlier one is still under way; making the new job is a producer's right besides.
    grant select (id, job, action, made) on "brooq".brooq_operation to "brooq_worker";
    grant select on "brooq".brooq_operation to "brooq_viewer";

    -- What is set for topics: a claim asks for it and spends tokens, an operator sets it. And the list of workers.
    grant select, insert, update on "brooq".brooq_topic to "brooq_worker";
    grant select, insert, update, delete on "brooq".brooq_worker to "brooq_worker";
    -- Periodic jobs: a worker moves them on, with the rights of a producer it makes their jobs.
    grant select, insert, update, delete on "brooq".brooq_schedule to "brooq_worker";
    grant select (name, topic, cron, timezone, priority, max_attempts, concurrency_key, missed, missed_limit, declared,
                  paused_at, paused_by, next_at, last_at, last_job, created_at, updated_at)
        on "brooq".brooq_schedule to "brooq_viewer";
    grant select on "brooq".brooq_topic, "brooq".brooq_worker to "brooq_viewer";

    -- What charts are drawn from: every worker adds to it, and clears away what is old.
    grant select, insert, update, delete on "brooq".brooq_sample to "brooq_worker";
    grant select on "brooq".brooq_sample to "brooq_viewer";
end
$brooq$;

commit;
