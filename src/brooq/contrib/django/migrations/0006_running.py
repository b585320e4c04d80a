"""`00006_running.sql`."""

from brooq.contrib.django.migration import migration

Migration = migration(6)
