"""Endpoints."""

from __future__ import annotations

import json

from django.db import transaction
from django.http import HttpRequest, JsonResponse
from django.shortcuts import get_object_or_404

from brooq import Job
from brooq.contrib.django import aenqueue, enqueue
from examples.django_shop.shop.models import Order
from examples.django_shop.shop.tasks import write_invoice


def order(request: HttpRequest) -> JsonResponse:
    """The order, its job and its invoice's task are there together, or not at all."""
    goods = json.loads(request.body).get("goods", "")
    with transaction.atomic():
        made = Order.objects.create(goods=goods)
        job_id, _ = enqueue(Job("order.ship", {"order": made.pk}, idempotency_key=f"order-{made.pk}"))
        result = write_invoice.enqueue(made.pk, currency="EUR")
        if not goods:
            transaction.set_rollback(True)
            return JsonResponse({"error": "nothing was ordered"}, status=422)
    return JsonResponse({"order": made.pk, "job": str(job_id), "invoice": result.id}, status=201)


async def order_from_async(request: HttpRequest) -> JsonResponse:
    """From asynchronous code: the job is committed at once."""
    made = await Order.objects.acreate(goods=json.loads(request.body)["goods"])
    job_id, _ = await aenqueue(Job("order.thank", {"order": made.pk, "goods": made.goods}))
    return JsonResponse({"order": made.pk, "job": str(job_id)}, status=201)


def look(_: HttpRequest, id: int) -> JsonResponse:
    """How an order is."""
    found = get_object_or_404(Order, pk=id)
    return JsonResponse({"goods": found.goods, "shipped": found.shipped, "invoiced": found.invoiced})


def invoice(request: HttpRequest, id: int) -> JsonResponse:
    """How the task that writes the invoice is: `?task=…`."""
    result = write_invoice.get_result(request.GET["task"])
    number = result.return_value if result.is_finished and result.status == "SUCCESSFUL" else None
    return JsonResponse({"order": id, "status": result.status, "attempts": result.attempts, "number": number})
