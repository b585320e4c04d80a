"""`python -m bench.peers NAME SPEC`: one adapter doing what a JSON spec asks."""

from __future__ import annotations

import importlib
import json
import sys

from bench.peers.protocol import serve

if __name__ == "__main__":
    serve(importlib.import_module(f"bench.peers.{sys.argv[1]}").ADAPTER(json.loads(sys.argv[2])))
