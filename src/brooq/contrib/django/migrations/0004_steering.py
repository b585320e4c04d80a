"""`00004_steering.sql`."""

from brooq.contrib.django.migration import migration

Migration = migration(4)
