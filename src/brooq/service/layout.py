"""How the columns of a table share the width of a terminal."""

from __future__ import annotations

from collections.abc import Sequence

GAP = 2
"""Blanks between two columns."""
_LEAST = 12
"""What a column may be cut to; less says nothing."""


def fit(widths: list[int], width: int, flexible: Sequence[int], optional: Sequence[int]) -> list[int]:
    """Which columns are shown on so many places; narrows the `widths` of those that may be cut, the widest first."""
    kept, droppable = list(range(len(widths))), list(optional)
    while True:
        over = sum(widths[each] for each in kept) + GAP * (len(kept) - 1) - width
        spare = sum(max(widths[each] - _LEAST, 0) for each in kept if each in flexible)
        if over <= spare or not droppable:
            break
        kept.remove(droppable.pop(0))
    for _ in range(max(min(over, spare), 0)):
        widest = max((each for each in kept if each in flexible), key=lambda each: widths[each])
        widths[widest] -= 1
    return kept


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
