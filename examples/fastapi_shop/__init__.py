"""A shop on FastAPI and SQLAlchemy: an order and its job in one transaction, the worker in the same process.

export DATABASE_URL=postgresql://…        (`brooq local start` gives you one)
brooq migrate up
uvicorn examples.fastapi_shop.app:app
curl -X POST localhost:8000/orders -H 'content-type: application/json' -d '{"goods": "kettle"}'
"""
