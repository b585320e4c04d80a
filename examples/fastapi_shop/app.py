"""The application: `uvicorn examples.fastapi_shop.app:app`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Depends, FastAPI, HTTPException
from psycopg_pool import AsyncConnectionPool
from pydantic import BaseModel
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from brooq import Claim, Config, Job, Queue, Tx
from brooq.contrib.lifespan import running
from brooq.postgres import PostgresStore, as_psycopg
from brooq.postgres.producer import enqueue
from examples.database import given

DSN = given()
pool = AsyncConnectionPool(DSN, open=False)  # opened and closed by `running`
queue = Queue(PostgresStore(pool), Config(workers=4))
engine = create_async_engine(DSN.replace("postgresql://", "postgresql+asyncpg://", 1))
sessions = async_sessionmaker(engine)


class Model(DeclarativeBase):
    """The shop's tables."""


class Order(Model):
    """Somebody wants something."""

    __tablename__ = "shop_order"
    id: Mapped[int] = mapped_column(primary_key=True)
    goods: Mapped[str]
    shipped: Mapped[bool] = mapped_column(default=False)


@queue.kind("order.ship", max_attempts=3)
async def ship(claim: Claim) -> None:
    """Ships an order. What it changes in this database it changes in the transaction that closes the job: exactly once."""

    @claim.on_succeeded
    async def mark(tx: Tx) -> None:
        connection = as_psycopg(tx)
        assert connection is not None
        await connection.execute("update shop_order set shipped = true where id = %s", [claim.payload["order"]])


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """With nothing else to prepare, `FastAPI(lifespan=brooq.contrib.lifespan.lifespan(queue))` is enough."""
    async with engine.begin() as connection:
        await connection.run_sync(Model.metadata.create_all)
    async with running(queue):
        yield
    await engine.dispose()


app = FastAPI(lifespan=lifespan)


async def session() -> AsyncIterator[AsyncSession]:
    """One transaction a request, committed when the endpoint has succeeded."""
    async with sessions.begin() as opened:
        yield opened


Session = Annotated[AsyncSession, Depends(session, scope="function")]


class NewOrder(BaseModel):
    """What a customer sends."""

    goods: str


@app.post("/orders", status_code=201)
async def order(new: NewOrder, session: Session) -> dict[str, Any]:
    """The order and its job are there together, or not at all."""
    made = Order(goods=new.goods)
    session.add(made)
    await session.flush()
    job_id, _ = await enqueue(session, Job("order.ship", {"order": made.id}, idempotency_key=f"order-{made.id}"))
    if not new.goods:
        raise HTTPException(422, "nothing was ordered")  # rolls both back
    return {"order": made.id, "job": str(job_id)}


@app.get("/orders/{id}")
async def look(id: int, session: Session) -> dict[str, Any]:
    """How an order is."""
    found = await session.get(Order, id)
    if found is None:
        raise HTTPException(404)
    return {"goods": found.goods, "shipped": found.shipped}
