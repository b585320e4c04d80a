"""`00002_limits.sql`."""

from brooq.contrib.django.migration import migration

Migration = migration(2)
