"""The machine: takes jobs from a store, runs their handlers, writes what became of them. Knows no PostgreSQL."""
