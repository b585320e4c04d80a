"""Webhooks in, mails out: brooq between a sender that repeats itself and a mail server that misbehaves.

Run it with `python -m examples.webhooks` (or `make demo`). The files, in the order of the story:
`deliveries` reads what came in, `app` holds the handlers, `mail_server` is the outside world, `run` plays the whole,
kills the worker half-way and starts it again, `findings` looks at what is left and `checks` judges it.
"""
