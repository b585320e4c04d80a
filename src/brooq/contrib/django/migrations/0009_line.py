"""`00009_line.sql`."""

from brooq.contrib.django.migration import migration

Migration = migration(9)
