"""Django: jobs in the transaction of a view, handlers in `jobs.py` of each app, a worker, migrations, an admin page, and a
backend of its Tasks (`brooq.contrib.django.tasks`).

    INSTALLED_APPS = [..., "brooq.contrib.django"]
    BROOQ = {"WORKERS": 4}                                     # all of it may be left out

    with transaction.atomic():
        order.save()
        enqueue(Job("order.ship", {"order": order.pk}))

    manage.py migrate; manage.py brooq_worker
"""

import sys

import django
from django.apps import apps

from brooq.contrib.django.kind import kind
from brooq.contrib.django.producer import aenqueue, cancel, enqueue, enqueue_many, find, jobs, retry

__all__ = ["aenqueue", "cancel", "enqueue", "enqueue_many", "find", "jobs", "kind", "retry"]

if "brooq.engine.process.main" in sys.modules and not apps.ready:
    # A child process that has been told to find a handler: nobody has set Django up there.
    django.setup()
