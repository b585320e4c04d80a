"""Figures as people read them, in either language. Pure: the present is a parameter."""

from __future__ import annotations

from datetime import UTC, datetime

from brooq.vocabulary.message import phrase

_STEPS = ((60, 1, "second"), (3600, 60, "minute"), (86400, 3600, "hour"), (float("inf"), 86400, "day"))


def exact(moment: datetime) -> str:
    """The moment to the second, in UTC."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def relative(language: str, moment: datetime, now: datetime) -> str:
    """How long ago it was, or how soon it will be."""
    seconds = (now - moment).total_seconds()
    if abs(seconds) < 1:
        return phrase(language, "board.now")
    unit, name = next((unit, name) for limit, unit, name in _STEPS if abs(seconds) < limit)
    key = f"board.ago_{name}" if seconds > 0 else f"board.in_{name}"
    return phrase(language, key, count=int(abs(seconds) // unit))


def duration(language: str, seconds: float) -> str:
    """3 ms, 1.4 s, 12 m, 3 h 05 m, 4 d."""

    def said(unit: str, value: str) -> str:
        return phrase(language, f"board.unit_{unit}", value=value)

    if seconds < 0.9995:
        return said("ms", f"{seconds * 1000:.0f}")
    if seconds < 59.5:
        return said("s", f"{seconds:.1f}".removesuffix(".0") if seconds < 10 else f"{seconds:.0f}")
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        whole = said("m", str(minutes))
        return f"{whole} {said('s', f'{rest:02}')}" if minutes < 10 and rest else whole
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{said('h', str(hours))} {said('m', f'{minutes:02}')}" if minutes else said("h", str(hours))
    days, hours = divmod(hours, 24)
    return f"{said('d', str(days))} {said('h', str(hours))}" if hours and days < 10 else said("d", str(days))


def number(value: float, *, exact: bool = True) -> str:
    """1,234 with thin spaces; an estimate carries a tilde; a small rate keeps a digit."""
    mark = "" if exact else "~"
    rounded = round(value, 1)
    if abs(rounded) < 100 and rounded != int(rounded):
        return f"{mark}{rounded:.1f}"
    return mark + f"{value:,.0f}".replace(",", "\u202f")


def short(value: float) -> str:
    """1.2k, 3.4M: for axes and tiles."""
    for limit, divisor, unit in ((1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if value >= limit:
            return f"{value / divisor:.1f}".rstrip("0").rstrip(".") + unit
    return number(value)
