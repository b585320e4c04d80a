"""A shop on Django: an order and its job in one `atomic`, handlers in `jobs.py`, a task of Django's Tasks, the admin page.

export DATABASE_URL=postgresql://…        (`brooq local start` gives you one)
python -m examples.django_shop migrate
python -m examples.django_shop brooq_worker &
python -m examples.django_shop runserver
curl -X POST localhost:8000/orders -d '{"goods": "kettle"}'
"""
