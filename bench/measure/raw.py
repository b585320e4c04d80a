"""The raw limit of the machine, by pgbench: a single INSERT, and a claim and its outcome with no program of ours around."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path

from bench.peers.protocol import payload
from bench.place import pgbench
from bench.process import PeerError
from bench.results import Sample
from bench.stage import Stage
from bench.systems import RAW

INSERT = "insert into job (topic, payload) values ('bench', '{payload}');"

# Both halves in one transaction, as tightly as they go: no fence, no renewal, no answer to the client.
CLAIM = """with ready as materialized (
    select id from job where topic = 'bench' and priority = 0 and state in ('pending', 'failed') and available_at <= now()
    order by available_at, id limit {batch} for no key update skip locked
), taken as (
    update job set state = 'processing', attempts = attempts + 1, claim_seq = claim_seq + 1, locked_by = 'pgbench',
                   locked_until = now() + interval '2 minutes', updated_at = now()
    where id = any (array(select id from ready)) returning id
)
select coalesce(array_agg(id), '{{}}') as ids from taken \\gset
update job set state = 'done', updated_at = now() where id = any (:ids::uuid[]) and state = 'processing';
"""


def insert(stage: Stage, jobs: int, clients: int) -> list[Sample]:
    """Single INSERTs of the job table."""
    stage.fresh(RAW)
    rate = _run(stage, INSERT.format(payload=json.dumps(payload(1))), jobs // clients, clients)
    return [Sample(RAW.name, f"pgbench, {clients} connections", "enqueue", rate, "jobs/s")]


def drain(stage: Stage, jobs: int, batch: int, clients: int) -> list[Sample]:
    """Claims of so many, each with its outcomes; counted afterwards."""
    dsn = stage.fresh(RAW)
    stage.enqueue(RAW, dsn, jobs, {"driver": "psycopg"})
    stage.place.settle(RAW.database)
    rounds = max(jobs // (batch * clients) - 1, 1)  # one less than there is, so that no claim comes back short
    rate = _run(stage, CLAIM.format(batch=batch), rounds, clients) * batch
    assert RAW.done is not None
    done = int(stage.place.sql(RAW.done, RAW.database)[0][0])
    if done != rounds * batch * clients:
        raise PeerError(f"{done} of {rounds * batch * clients} jobs are done")
    return [Sample(RAW.name, f"pgbench, batch {batch} x {clients}", "drain", rate, "jobs/s")]


def _run(stage: Stage, script: str, transactions: int, clients: int) -> float:
    """Transactions a second, connecting not counted."""
    program = pgbench()
    if program is None:
        raise PeerError("no pgbench beside the server's programs or in PATH")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "script.sql"
        file.write_text(script)
        options = ["--no-vacuum", "--protocol=prepared", f"--client={clients}", f"--transactions={transactions}"]
        answer = subprocess.run(
            [program, *options, f"--file={file}", stage.place.database(RAW.database)],
            capture_output=True,
            text=True,
            check=False,
        )
    found = [line for line in answer.stdout.splitlines() if line.startswith("tps = ")]
    if answer.returncode != 0 or not found:
        raise PeerError(answer.stderr.strip()[-500:])
    return float(found[0].split()[2])
