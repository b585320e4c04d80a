"""Where a handler is found again: its module and its name in it."""

from __future__ import annotations

import importlib
import runpy
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from brooq.vocabulary.claim import Handler
from brooq.vocabulary.error import ConfigError
from brooq.vocabulary.message import text

_FILE = "file:"
_MAIN = "__mp_main__"
"""What `__main__` is called in a child process, as in multiprocessing: `if __name__ == "__main__"` does not hold."""


def place_of(topic: str, handler: Handler) -> str:
    """`module:name` of a handler, for a process that has to import it.

    Raises ConfigError for what cannot be found that way: a lambda, a function inside of another, a bound method, an
    object, or a function whose name has come to mean something else.
    """
    name, module = getattr(handler, "__qualname__", None), getattr(handler, "__module__", None)
    if not name or not module or "<" in name:
        raise ConfigError([text("config.place", topic=topic, handler=name or repr(handler))])
    home = _home(module)
    if home is None:
        raise ConfigError([text("config.place_main", topic=topic, handler=name)])
    try:
        found = _inside(sys.modules.get(module) or importlib.import_module(module), name)
    except (ImportError, AttributeError):
        found = None
    if found is not handler:
        raise ConfigError([text("config.place_other", topic=topic, handler=f"{module}:{name}")])
    return f"{home}:{name}"


def find(place: str) -> Handler:
    """The handler at a place. Raises what importing its module raises."""
    home, _, name = place.rpartition(":")
    handler: Handler = _inside(_module(home), name)
    return handler


def _home(module: str) -> str | None:
    """How another process gets at a module; None when it cannot."""
    if module != "__main__":
        return module
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return str(spec.name)
    file = getattr(main, "__file__", None)
    return None if file is None else _FILE + str(Path(file).resolve())


def _module(home: str) -> ModuleType:
    if not home.startswith(_FILE):
        return importlib.import_module(home)
    module = sys.modules.get(_MAIN)
    if module is None:
        module = sys.modules[_MAIN] = ModuleType(_MAIN)
        module.__dict__.update(runpy.run_path(home.removeprefix(_FILE), run_name=_MAIN))
    return module


def _inside(module: ModuleType, name: str) -> Any:
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part)
    return found
