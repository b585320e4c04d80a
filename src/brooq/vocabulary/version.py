"""Which brooq this is: one word for the package, its metrics, and what a worker says of itself."""

VERSION = "0.1.0"
