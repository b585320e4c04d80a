"""brooq on PostgreSQL: the only place with SQL and with a database driver."""

from brooq.postgres import migrate
from brooq.postgres.pool import open_pool
from brooq.postgres.producer import Producer
from brooq.postgres.store import PostgresStore
from brooq.postgres.tx import PostgresTx, as_asyncpg, as_psycopg, wrap_tx

__all__ = ["PostgresStore", "PostgresTx", "Producer", "as_asyncpg", "as_psycopg", "migrate", "open_pool", "wrap_tx"]
