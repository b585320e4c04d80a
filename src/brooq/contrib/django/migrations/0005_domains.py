"""`00005_domains.sql`."""

from brooq.contrib.django.migration import migration

Migration = migration(5)
