"""The shop's tables."""

from __future__ import annotations

from django.db import models


class Order(models.Model):
    """Somebody wants something."""

    goods = models.TextField()
    shipped = models.BooleanField(default=False)
    invoiced = models.TextField(default="")

    def __str__(self) -> str:
        """For people."""
        return f"{self.goods} ({self.pk})"
