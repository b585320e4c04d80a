"""One module for each file of `brooq/postgres/migrations`."""
