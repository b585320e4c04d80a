"""The systems that are measured, and what SQL tells of their work."""

from __future__ import annotations

from dataclasses import dataclass

NODE = "node"


@dataclass(frozen=True, slots=True)
class System:
    """One system. `script` is its adapter in `peers/`: a module's name, or a file for Node.js. `environment` names its
    folder and its requirements; None is the project's own.

    `left` tells whether a job that is ready or running is left, `done` counts those that ended as they should (`dead`:
    those that failed for good); None: it cannot be seen in SQL, so that the handlers' own count has to do.
    `jobs` counts all of them before any has run. `package`: its name in the registry, where it is another one.
    """

    name: str
    script: str
    environment: str | None
    left: str | None
    done: str | None
    dead: str | None
    jobs: str
    package: str | None = None

    @property
    def database(self) -> str:
        """The name of its database."""
        return "bench_" + self.name.replace("-", "_").replace(" ", "_")


BROOQ_LEFT = """
select exists (select from job where topic = 'bench' and state in ('pending', 'failed') and available_at <= now())
    or exists (select from job where state = 'processing')
"""
BROOQ_DONE = "select count(*) from job where topic = 'bench' and state = 'done' and attempts = 1"
BROOQ_DEAD = "select count(*) from job where topic = 'bench' and state = 'dead' and attempts = 1"

BROOQ = System("brooq", "brooq", None, BROOQ_LEFT, BROOQ_DONE, BROOQ_DEAD, "select count(*) from job")
RAW = System("raw SQL", "raw", None, BROOQ_LEFT, BROOQ_DONE, BROOQ_DEAD, "select count(*) from job")
GRAPHILE = System(
    "graphile-worker",
    "graphile.mjs",
    NODE,
    "select exists (select from graphile_worker._private_jobs where run_at <= now() and attempts < max_attempts)",
    None,  # a job that is done is deleted
    "select count(*) from graphile_worker._private_jobs where attempts >= max_attempts",
    "select count(*) from graphile_worker._private_jobs",
)
PGQUEUER = System(
    "pgqueuer",
    "pgqueuer",
    "pgqueuer",
    "select exists (select from pgqueuer where execute_after <= now())",
    "select count(*) from pgqueuer_log where status = 'successful'",
    "select count(*) from pgqueuer_log where status = 'exception'",
    "select count(*) from pgqueuer",
)
AWA = System("awa", "awa", "awa", None, None, None, "select count(*) from awa.ready_entries", package="awa-pg")
PGBOSS = System(
    "pg-boss",
    "pgboss.mjs",
    NODE,
    "select exists (select from pgboss.job where name = 'bench' and state < 'completed' and start_after <= now())",
    "select count(*) from pgboss.job where name = 'bench' and state = 'completed'",
    "select count(*) from pgboss.job where name = 'bench' and state = 'failed'",
    "select count(*) from pgboss.job where name = 'bench'",
)
PROCRASTINATE = System(
    "procrastinate",
    "procrastinate",
    "procrastinate",
    "select exists (select from procrastinate_jobs where status in ('todo', 'doing') and scheduled_at is null)",
    None,  # in one of the configurations a job that is done is deleted
    "select count(*) from procrastinate_jobs where status = 'failed'",
    "select count(*) from procrastinate_jobs",
)
CHANCY = System(
    "chancy",
    "chancy",
    "chancy",
    "select exists (select from chancy_jobs where state in ('pending', 'running', 'retrying'))",
    "select count(*) from chancy_jobs where state = 'succeeded'",
    "select count(*) from chancy_jobs where state = 'failed'",
    "select count(*) from chancy_jobs",
)
ABSURD = System(
    "absurd",
    "absurd",
    "absurd",
    "select exists (select from absurd.t_bench where state not in ('completed', 'failed', 'cancelled'))",
    "select count(*) from absurd.t_bench where state = 'completed'",
    "select count(*) from absurd.t_bench where state = 'failed'",
    "select count(*) from absurd.t_bench",
    package="absurd-sdk",
)
DBOS = System(
    "dbos",
    "dbos",
    "dbos",
    "select exists (select from dbos.workflow_status where status in ('ENQUEUED', 'PENDING'))",
    "select count(*) from dbos.workflow_status where status = 'SUCCESS'",
    "select count(*) from dbos.workflow_status where status = 'ERROR'",
    "select count(*) from dbos.workflow_status",
)

PLAIN = (BROOQ, RAW)
PEERS = (GRAPHILE, PGQUEUER, AWA, PGBOSS, PROCRASTINATE, CHANCY, ABSURD, DBOS)
SYSTEMS = {system.name: system for system in (*PLAIN, *PEERS)}
