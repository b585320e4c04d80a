"""`00007_fence.sql`."""

from brooq.contrib.django.migration import migration

Migration = migration(7)
