// pg-boss: `notify` on the queue and the instance for wake-ups; `burstWhenBatchFull` is its documented way to speed.

import pg from "pg";
import { PgBoss } from "pg-boss";

import { Failure, main, payload } from "./protocol.mjs";

const QUEUE = "bench";

main((dsn, config) => {
  const open = async (more = {}) => {
    const boss = new PgBoss({ connectionString: dsn, ...more, ...config.boss });
    boss.on("error", (error) => process.stderr.write(`${error}\n`));
    await boss.start();
    if (config.queue) await boss.updateQueue(QUEUE, config.queue);
    return boss;
  };
  // A producer: no upkeep, no schedules.
  const quiet = { supervise: false, schedule: false };
  return {
    async install() {
      const boss = await open(quiet);
      await boss.createQueue(QUEUE);
      await boss.stop({ graceful: false });
    },

    async producer() {
      const boss = await open(quiet);
      const pool = new pg.Pool({ connectionString: dsn, max: 1 });
      return {
        one: (number) => boss.send(QUEUE, payload(number)),
        many: (numbers, keys) =>
          boss.insert(
            QUEUE,
            numbers.map((number) => ({
              data: payload(number),
              ...(keys ? { singletonKey: `key-${number}` } : {}),
            })),
          ),
        async inTransaction(numbers) {
          const client = await pool.connect();
          const db = { executeSql: (text, values) => client.query(text, values) };
          await client.query("begin");
          for (const number of numbers) await boss.send(QUEUE, payload(number), { db });
          await client.query("commit");
          client.release();
        },
        async close() {
          await boss.stop({ graceful: false });
          await pool.end();
        },
      };
    },

    async work(tally, stop) {
      const boss = await open();
      const options = { ...config.work };
      await boss.work(QUEUE, options, async (jobs) => {
        for (const job of jobs) tally.begin(job.data.n);
        if (tally.fail) throw new Failure();
      });
      await stop;
      await boss.stop({ graceful: true, timeout: 10000 });
    },
  };
});
