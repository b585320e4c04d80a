"""The words of brooq: what a job, a claim, a handler, an event and an error are. Standard library only."""
