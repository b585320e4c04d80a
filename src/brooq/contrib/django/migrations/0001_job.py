"""`00001_job.sql`, and the model that only reads."""

from django.db import migrations, models

from brooq.contrib.django.migration import migration
from brooq.contrib.django.models import table
from brooq.vocabulary.job import State

Migration = migration(
    1,
    migrations.CreateModel(
        name="Job",
        fields=[
            ("id", models.UUIDField(primary_key=True, serialize=False)),
            ("topic", models.TextField()),
            ("payload", models.JSONField(null=True)),
            ("state", models.TextField(choices=[(str(state), str(state)) for state in State])),
            ("priority", models.SmallIntegerField()),
            ("attempts", models.IntegerField()),
            ("max_attempts", models.IntegerField(null=True)),
            ("expired_leases", models.IntegerField()),
            ("idempotency_key", models.TextField(null=True)),
            ("available_at", models.DateTimeField()),
            ("locked_by", models.TextField(null=True)),
            ("locked_until", models.DateTimeField(null=True)),
            ("last_error", models.TextField(null=True)),
            ("created_at", models.DateTimeField()),
            ("updated_at", models.DateTimeField()),
        ],
        options={
            "db_table": table(),
            "permissions": (("cancel_job", "Can cancel jobs"), ("retry_job", "Can run jobs again")),
            "default_permissions": ("view",),
            "managed": False,
        },
    ),
)
