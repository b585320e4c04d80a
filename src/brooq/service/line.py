"""Text that stays on its line: what could break a line, steer a terminal or turn the reading order is escaped."""

from __future__ import annotations

import json
import re

# Control characters (line ends and ESC among them), line and paragraph separators, marks that turn the reading order,
# the byte order mark, tags, and halves of surrogate pairs, which no encoding takes.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f\ud800-\udfff]"
)


def one_line(string: str) -> str:
    """The string with every unsafe character written as JSON escapes it (`\\n`, `\\u2028`).

    Applied to JSON text it changes nothing of its meaning.
    """
    return _UNSAFE.sub(lambda match: json.dumps(match.group())[1:-1], string)


def shorten(string: str, width: int) -> str:
    """The string on one line, cut to a width with an ellipsis."""
    string = one_line(string[: width + 1])
    return string if len(string) <= width else f"{string[: max(width - 1, 0)]}…"
