"""`00008_sample.sql`."""

from brooq.contrib.django.migration import migration

Migration = migration(8)
