"""Handlers: the worker looks for a module of this name in every app."""

from __future__ import annotations

from brooq import Claim
from brooq.contrib.django import kind
from examples.django_shop.shop.models import Order


@kind("order.ship", max_attempts=3)
def ship(claim: Claim) -> None:
    """Ships an order, in a thread: the ORM may block. Running it twice leaves the same row behind."""
    Order.objects.filter(pk=claim.payload["order"]).update(shipped=True)


@kind("order.thank")
async def thank(claim: Claim) -> None:
    """Handlers may be asynchronous too."""
    await Order.objects.filter(pk=claim.payload["order"]).aupdate(goods=f"{claim.payload['goods']}, with thanks")


@kind("order.render", isolation="process", keep_result=True, attempt_timeout=30)
def render(claim: Claim) -> str:
    """In a process of its own, which can be killed: for code that one would rather not trust."""
    return f"{Order.objects.get(pk=claim.payload['order']).goods}, rendered"
