"""What is wrong with a database that brooq lives in, and what helps. Judges what was read; reads nothing itself."""
