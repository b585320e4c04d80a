"""How much is tried: `make test` takes the quick tier, `make models` the full one."""

from __future__ import annotations

import os

FULL = os.environ.get("BROOQ_MODELS") == "full"
