"""The first tables of the shop."""

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    """As `makemigrations` makes it."""

    initial = True
    dependencies: ClassVar[list[tuple[str, str]]] = []
    operations: ClassVar[list[object]] = [
        migrations.CreateModel(
            name="Order",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("goods", models.TextField()),
                ("shipped", models.BooleanField(default=False)),
                ("invoiced", models.TextField(default="")),
            ],
        ),
    ]
