"""Tasks of Django: the same in Django 6 (`django.tasks`) and before it (the package django-tasks)."""

from __future__ import annotations

from examples.django_shop.shop.models import Order

try:
    from django.tasks import task
except ImportError:
    from django_tasks import task


@task(takes_context=True)
def write_invoice(context: object, order: int, *, currency: str) -> str:
    """Answers the invoice's number."""
    number = f"{currency}-{order}"
    Order.objects.filter(pk=order).update(invoiced=number)
    return number


@task
async def count_orders() -> int:
    """Tasks may be asynchronous too."""
    return await Order.objects.acount()
