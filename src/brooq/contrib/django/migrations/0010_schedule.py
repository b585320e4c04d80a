"""`00010_schedule.sql`."""

from brooq.contrib.django.migration import migration

Migration = migration(10)
