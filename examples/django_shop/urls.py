"""Where requests go."""

from __future__ import annotations

from django.contrib import admin
from django.urls import path

from examples.django_shop.shop import views

urlpatterns = [
    path("orders", views.order),
    path("orders/<int:id>", views.look),
    path("invoices/<int:id>", views.invoice),
    path("async/orders", views.order_from_async),
    path("admin/", admin.site.urls),
]
