"""brooq at home in other programs: web frameworks and pytest. Each module needs its own program, and nothing else does."""
