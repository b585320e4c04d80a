"""How the columns of a table share the width of a terminal."""

from __future__ import annotations

from collections.abc import Sequence

GAP = 2
"""Blanks between two columns."""
_COMFORT, _LEAST = 24, 12
"""What a column is cut to before others are left out for it, and after that; less says nothing."""


def laid_out(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: int | None,
    *,
    right: Sequence[int] = (),
    flexible: Sequence[int] = (),
    optional: Sequence[int] = (),
) -> list[str]:
    """The lines of a table: headings, a rule, the rows. `width` None: nothing is cut. Else see `fit`."""
    lines = [list(headings), *map(list, rows)]
    widths = [max(width_of(line[column]) for line in lines) for column in range(len(headings))]
    kept = list(range(len(headings))) if width is None else fit(widths, width, flexible, optional)
    written = [
        (" " * GAP).join(padded(line[each], widths[each], right=each in right) for each in kept).rstrip()
        for line in lines
    ]
    rule = "─" * (sum(widths[each] for each in kept) + GAP * (len(kept) - 1))
    return [written[0], rule, *written[1:]]


def fit(widths: list[int], width: int, flexible: Sequence[int], optional: Sequence[int]) -> list[int]:
    """Which columns are shown on so many places; narrows the `widths` of those that may be cut, the widest first."""
    kept, droppable = list(range(len(widths))), list(optional)
    while True:
        over = sum(widths[each] for each in kept) + GAP * (len(kept) - 1) - width
        if over <= _spare(widths, kept, flexible, _COMFORT) or not droppable:
            break
        kept.remove(droppable.pop(0))
    spare = _spare(widths, kept, flexible, _LEAST)
    for _ in range(max(min(over, spare), 0)):
        widest = max((each for each in kept if each in flexible), key=lambda each: widths[each])
        widths[widest] -= 1
    return kept


def _spare(widths: list[int], kept: list[int], flexible: Sequence[int], least: int) -> int:
    return sum(max(widths[each] - least, 0) for each in kept if each in flexible)


def width_of(cell: str) -> int:
    """How many places a cell takes."""
    if cell.isascii():
        return len(cell)
    from rich.cells import cell_len  # noqa: PLC0415  only where letters may be wide

    return cell_len(cell)


def padded(cell: str, width: int, *, right: bool) -> str:
    """The cell on exactly so many places, cut with an ellipsis where it is longer."""
    taken = width_of(cell)
    if taken > width:
        while width_of(cell) > width - 1:
            cell = cell[:-1]
        cell, taken = f"{cell}…", width_of(cell) + 1
    blanks = " " * (width - taken)
    return blanks + cell if right else cell + blanks
