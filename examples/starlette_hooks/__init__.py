"""Webhooks on Starlette: taken at once, worked on behind. No ORM and no models.

export DATABASE_URL=postgresql://…        (`brooq local start` gives you one)
brooq migrate up
uvicorn examples.starlette_hooks.app:app
curl -X POST localhost:8000/hooks/42 -d '{"event": "paid"}'
"""
