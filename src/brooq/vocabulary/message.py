"""The message catalogue: every text a user meets, by symbolic key, in English and Russian.

Catalogues are TOML files, `messages/<language>/<section>.toml`; a key is `<section>.<name>`.
They are read at the first text, never on import. docs/adr/0003 says why TOML.
"""

from __future__ import annotations

import os
from functools import cache

LANGUAGES = ("en", "ru")


def language() -> str:
    """The language of texts: `BROOQ_LANG`, else `LC_ALL`, `LC_MESSAGES`, `LANG`; English when none names one of ours."""
    for variable in ("BROOQ_LANG", "LC_ALL", "LC_MESSAGES", "LANG"):
        value = os.environ.get(variable, "")
        if value:
            return value[:2].lower() if value[:2].lower() in LANGUAGES else "en"
    return "en"


@cache
def catalogue(language: str) -> dict[str, str]:
    """All texts of one language by key."""
    import tomllib  # noqa: PLC0415  with importlib.resources a fifth of the time that `import brooq` takes
    from importlib.resources import files  # noqa: PLC0415

    texts: dict[str, str] = {}
    for file in (files("brooq") / "messages" / language).iterdir():
        if file.name.endswith(".toml"):
            section = file.name.removesuffix(".toml")
            for name, text in tomllib.loads(file.read_text(encoding="utf-8")).items():
                texts[f"{section}.{name}"] = text
    return texts


def text(key: str, /, **values: object) -> str:
    """The text of a key in the user's language, with its placeholders filled.

    Raises KeyError for a key that no catalogue has: a fault of ours, which a test looks for.
    """
    return catalogue(language())[key].format(**values)


def phrase(language: str, key: str, /, **values: object) -> str:
    """The text of a key in a language of `LANGUAGES`, for a reader who is not the one at this terminal."""
    return catalogue(language)[key].format(**values)
