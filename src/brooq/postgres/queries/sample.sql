-- Add what one worker has counted to the samples of the steps that it happened in, and let a few old ones go.
--
-- A count belongs to the seconds since the worker's last one, and those may lie in two or three steps: each gets its share,
-- so that a steady load gives a straight line. Depths are not added up: the last census stands. Rows are locked in
-- their order, or two workers could wait for each other; what is deleted is not waited for.
-- $1 topics, $2 done, $3 failed, $4 dead, $5 canceled, $6 attempts, $7 ran, $8 claimed, $9 waited, $10 waited_p95,
-- $11 waiting, $12 processing, $13 oldest, $14 seconds since the last count
with fine as materialized (
    select step, at, topic from "brooq".brooq_sample
    where step = 10 and at < now() - interval '3 hours' order by at limit 200 for update skip locked
),
coarse as materialized (
    select step, at, topic from "brooq".brooq_sample
    where step = 900 and at < now() - interval '8 days' order by at limit 20 for update skip locked
),
gone as (
    delete from "brooq".brooq_sample as sample
    using (select step, at, topic from fine union all select step, at, topic from coarse) as old
    where sample.step = old.step and sample.at = old.at and sample.topic = old.topic
),
span as (
    select extract(epoch from now())::float8 - least(greatest($14::float8, 0.001), 120) as begun,
           extract(epoch from now())::float8 as ended
),
share as (
    select length.step, slot.at,
           (least(span.ended, slot.at + length.step) - greatest(span.begun, slot.at)) / (span.ended - span.begun) as part
    from span
    cross join (values (10), (900)) as length (step)
    cross join lateral generate_series(
        floor(span.begun / length.step)::bigint * length.step, floor(span.ended / length.step)::bigint * length.step,
        length.step
    ) as slot (at)
)
insert into "brooq".brooq_sample as sample
    (step, at, topic, done, failed, dead, canceled, attempts, ran, claimed, waited, waited_p95, waiting, processing, oldest)
select share.step, to_timestamp(share.at), counted.topic, done * part, failed * part, dead * part, canceled * part,
       attempts * part, ran * part, claimed * part, waited * part, waited_p95, waiting, processing, oldest
from share
cross join unnest(
    $1::text[], $2::float8[], $3::float8[], $4::float8[], $5::float8[], $6::float8[], $7::float8[], $8::float8[],
    $9::float8[], $10::float8[], $11::bigint[], $12::bigint[], $13::float8[]
) as counted (topic, done, failed, dead, canceled, attempts, ran, claimed, waited, waited_p95, waiting, processing, oldest)
order by 1, 2, 3
on conflict on constraint brooq_sample_pkey do update set
    done = sample.done + excluded.done,
    failed = sample.failed + excluded.failed,
    dead = sample.dead + excluded.dead,
    canceled = sample.canceled + excluded.canceled,
    attempts = sample.attempts + excluded.attempts,
    ran = sample.ran + excluded.ran,
    claimed = sample.claimed + excluded.claimed,
    waited = sample.waited + excluded.waited,
    waited_p95 = greatest(sample.waited_p95, excluded.waited_p95),
    waiting = excluded.waiting,
    processing = excluded.processing,
    oldest = excluded.oldest
returning sample.step
