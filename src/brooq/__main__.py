"""`python -m brooq` is the `brooq` command."""

from brooq.service.cli import main

if __name__ == "__main__":
    main()
