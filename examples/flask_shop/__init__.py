"""A shop on Flask and SQLAlchemy: no event loop in the web process, the worker in a process of its own.

export DATABASE_URL=postgresql://…        (`brooq local start` gives you one)
flask --app examples.flask_shop.app brooq migrate
flask --app examples.flask_shop.app brooq worker &
flask --app examples.flask_shop.app run
curl -X POST localhost:5000/orders -H 'content-type: application/json' -d '{"goods": "kettle"}'
"""
