"""`00003_operation.sql`."""

from brooq.contrib.django.migration import migration

Migration = migration(3)
