"""The application: `flask --app examples.flask_shop.app run`."""

from __future__ import annotations

from typing import Any

from flask import Flask, abort, current_app, request
from sqlalchemy import create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, scoped_session, sessionmaker

from brooq import Claim, Config, Job
from brooq.contrib.flask import Brooq
from examples.database import given

app = Flask(__name__)
app.config["BROOQ_DATABASE_URL"] = given()
app.config["BROOQ_CONFIG"] = Config(workers=4)
app.config["CARRIER"] = "pigeon"
brooq = Brooq(app)
queue = brooq.queue  # for `brooq worker --app examples.flask_shop.app:queue`
engine = create_engine(given().replace("postgresql://", "postgresql+psycopg://", 1))
session = scoped_session(sessionmaker(engine))


class Model(DeclarativeBase):
    """The shop's tables."""


class Order(Model):
    """Somebody wants something."""

    __tablename__ = "shop_order"
    id: Mapped[int] = mapped_column(primary_key=True)
    goods: Mapped[str]
    shipped_by: Mapped[str | None]


Model.metadata.create_all(engine)


@brooq.kind("order.ship", max_attempts=3)
def ship(claim: Claim) -> None:
    """Ships an order, in a thread and in the application's context. Running it twice leaves the same row behind."""
    with session.begin():
        order = session.get(Order, claim.payload["order"])
        if order is not None:
            order.shipped_by = current_app.config["CARRIER"]


@app.teardown_appcontext
def remove(_: BaseException | None) -> None:
    """The session goes with the request, or with the job."""
    session.remove()


@app.post("/orders")
def order() -> tuple[dict[str, Any], int]:
    """The order and its job are there together, or not at all."""
    goods = request.get_json().get("goods", "")
    with session.begin():
        made = Order(goods=goods)
        session.add(made)
        session.flush()
        job_id, _ = brooq.enqueue(session, Job("order.ship", {"order": made.id}, idempotency_key=f"order-{made.id}"))
        if not goods:
            abort(422)  # rolls both back
        return {"order": made.id, "job": str(job_id)}, 201


@app.get("/orders/<int:id>")
def look(id: int) -> dict[str, Any]:
    """How an order is."""
    found = session.get(Order, id)
    if found is None:
        abort(404)
    return {"goods": found.goods, "shipped": found.shipped_by is not None, "by": found.shipped_by}
