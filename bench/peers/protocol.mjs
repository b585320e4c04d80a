// The same protocol as protocol.py, for systems in JavaScript.

import { createInterface } from "node:readline";

const BATCH = 1000;
const MARKS = 100;

export const now = () => Number(process.hrtime.bigint());
export const say = (event, values = {}) => process.stdout.write(JSON.stringify({ event, ...values }) + "\n");

const words = [];
const waiting = [];
const lines = createInterface({ input: process.stdin });
lines.on("line", (line) => (waiting.length ? waiting.shift()(line) : words.push(line)));
lines.on("close", () => waiting.splice(0).forEach((take) => take("stop")));
export const heard = () => (words.length ? Promise.resolve(words.shift()) : new Promise((take) => waiting.push(take)));

export const payload = (number) => ({
  n: number,
  to: "somebody@example.org",
  subject: "hello",
  order: 12345,
  note: "x".repeat(30),
});

export class Tally {
  constructor(spec) {
    this.jobs = spec.jobs;
    this.times = spec.times ?? false;
    this.fail = spec.fail ?? false;
    this.count = 0;
    this.twice = 0;
    this.foreign = 0;
    this.marks = [];
    this.started = [];
    this.seen = new Uint8Array(this.jobs);
    this.step = Math.max(Math.floor(this.jobs / MARKS), 1);
    this.next = 1;
  }

  begin(number) {
    if (this.times) this.started.push([number, now()]);
    const count = ++this.count;
    if (number >= 0 && number < this.jobs) {
      if (this.seen[number]) this.twice++;
      this.seen[number] = 1;
    } else this.foreign++;
    if (count === this.next) this.mark(count);
  }

  mark(count) {
    const at = now();
    this.marks.push(at);
    if (count === 1) {
      say("first", { at });
      this.next = 1 + this.step;
    } else if (count < this.jobs) this.next = Math.min(count + this.step, this.jobs);
    if (count === this.jobs) say("handled", { at });
  }

  end() {
    const { count, twice, foreign, step, marks, started } = this;
    say("stopped", { count, twice, foreign, step, marks, started });
  }
}

export class Failure extends Error {}

async function enqueue(adapter, spec) {
  const first = spec.first ?? 0;
  const end = first + spec.jobs;
  const producer = await adapter.producer();
  say("ready");
  await heard();
  const begun = now();
  for (let start = first; start < end; start += BATCH) {
    const numbers = Array.from({ length: Math.min(BATCH, end - start) }, (_, index) => start + index);
    if (spec.mode === "one") for (const number of numbers) await producer.one(number);
    else if (spec.mode === "transaction") await producer.inTransaction(numbers);
    else await producer.many(numbers, spec.mode === "keys");
  }
  say("done", { begun, ended: now() });
  await heard();
  await producer.close();
  say("stopped");
}

async function pace(adapter, spec) {
  const producer = await adapter.producer();
  const sent = [];
  const returned = [];
  say("ready");
  await heard();
  let begun = now();
  for (let number = 0; number < spec.jobs; number++) {
    if (number === 1) {
      say("woken");
      await heard();
      begun = now();
    }
    const pause = begun / 1e6 + number * spec.period * 1000 - now() / 1e6;
    if (pause > 0) await new Promise((done) => setTimeout(done, pause));
    sent.push(now());
    await producer.one(number);
    returned.push(now());
  }
  say("done", { sent, returned });
  await heard();
  await producer.close();
  say("stopped");
}

async function work(adapter, spec) {
  const tally = new Tally(spec);
  say("ready");
  await heard();
  const stop = heard();
  await adapter.work(tally, stop);
  await stop;
  tally.end();
}

export async function main(make) {
  const spec = JSON.parse(process.argv[2]);
  const adapter = make(spec.dsn, spec.config ?? {});
  if (spec.do === "install") {
    await adapter.install();
    say("stopped");
  } else if (spec.do === "enqueue") await enqueue(adapter, spec);
  else if (spec.do === "pace") await pace(adapter, spec);
  else await work(adapter, spec);
  lines.close();
  process.exit(0);
}
