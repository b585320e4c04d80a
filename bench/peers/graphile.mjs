// graphile-worker: `localQueue` and `completeJobBatchDelay` are its documented way to speed.

import { Logger, makeWorkerUtils, run, runMigrations } from "graphile-worker";
import pg from "pg";

import { Failure, main, payload } from "./protocol.mjs";

const TASK = "bench";
const logger = new Logger(() => () => {});

main((dsn, config) => {
  const preset = { worker: { connectionString: dsn, ...config.worker } };
  return {
    install: () => runMigrations({ preset, logger }),

    async producer() {
      const utils = await makeWorkerUtils({ preset, logger });
      const pool = new pg.Pool({ connectionString: dsn, max: 1 });
      return {
        one: (number) => utils.addJob(TASK, payload(number), config.spec),
        many: (numbers, keys) =>
          utils.addJobs(
            numbers.map((number) => ({
              identifier: TASK,
              payload: payload(number),
              ...config.spec,
              ...(keys ? { jobKey: `key-${number}` } : {}),
            })),
          ),
        async inTransaction(numbers) {
          const client = await pool.connect();
          await client.query("begin");
          for (const number of numbers) {
            await client.query("select graphile_worker.add_job($1, $2::json)", [TASK, JSON.stringify(payload(number))]);
          }
          await client.query("commit");
          client.release();
        },
        async close() {
          await utils.release();
          await pool.end();
        },
      };
    },

    async work(tally, stop) {
      const runner = await run({
        preset,
        logger,
        noHandleSignals: true,
        concurrency: config.slots,
        parsedCronItems: [],
        taskList: {
          [TASK]: async (job) => {
            tally.begin(job.n);
            if (tally.fail) throw new Failure();
          },
        },
      });
      await stop;
      await runner.stop();
    },
  };
});
