"""Numbers as users write them in tables, options and logs: plain ASCII digits, bounded, finite.

Python's own conversions take more than anyone means: digits of other scripts, underscores, `nan`, `infinity`, a
million digits; and `str.isdigit` holds for signs (a superscript two) that `int` refuses.
"""

from __future__ import annotations

import math
import re

from baco.common.errors import InputError, Location

#: Whole numbers up to here stay exact in float64, which costs are computed in.
EXACT = 2**53
#: Pattern of a whole number within larger ones: too short to be slow, long enough for `EXACT`.
WHOLE = r"[0-9]{1,16}"

_DIGITS = re.compile(r"[0-9]+")
_HEXADECIMAL = re.compile(r"[0-9a-fA-F]+")
_REAL = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
#: Characters of the longest number that is converted, and of what is quoted of others.
_LONGEST, _QUOTED = 400, 40


def whole_number(
    what: str, text: str, *, least: int = 0, most: int = EXACT, location: Location | None = None
) -> int:
    """A whole number from `least` (0 or more) to `most`. Raises InputError naming `what`."""
    if not _DIGITS.fullmatch(text):
        raise InputError(
            f"{what} must be a whole number of at least {least}, not '{text[:_QUOTED]}'", location=location
        )
    return _within(what, text, _bounded(text, most), least, most, location)


def any_base_number(
    what: str, text: str, *, most: int = 2**64 - 1, location: Location | None = None, hint: str | None = None
) -> int:
    """A whole number, decimal or `0x` hexadecimal. Raises InputError naming `what`."""
    if text[:2] in ("0x", "0X") and _HEXADECIMAL.fullmatch(text[2:]):
        digits = text[2:].lstrip("0")
        value = int(digits or "0", 16) if len(digits) <= 32 else most + 1
    elif _DIGITS.fullmatch(text) and not re.fullmatch("0[0-9]+", text):  # is 010 ten or eight?
        value = _bounded(text, most)
    else:
        raise InputError(
            f"{what}: '{text[:_QUOTED]}' is no number",
            location=location,
            hint=hint or "write it as 123 or 0x7b",
        )
    return _within(what, text, value, 0, most, location)


def hexadecimal_number(what: str, text: str, *, most: int, location: Location | None = None) -> int:
    """A whole number of hexadecimal digits alone. Raises InputError naming `what`."""
    if not _HEXADECIMAL.fullmatch(text):
        raise InputError(f"{what} '{text[:_QUOTED]}' is not hexadecimal", location=location)
    digits = text.lstrip("0")
    value = int(digits or "0", 16) if len(digits) <= 32 else most + 1
    if value > most:
        raise InputError(f"{what} {text[:_QUOTED]} is too large", location=location)
    return value


def real_number(
    what: str,
    text: str,
    *,
    positive: bool = True,
    location: Location | None = None,
    hint: str | None = None,
) -> float:
    """A finite number; `positive`: above 0. Raises InputError naming `what`."""
    value = float(text) if len(text) <= _LONGEST and _REAL.fullmatch(text) else math.nan
    if not math.isfinite(value) or (positive and value <= 0):
        kind = "positive" if positive else "finite"
        raise InputError(
            f"{what} must be a {kind} number, not '{text[:_QUOTED]}'", location=location, hint=hint
        )
    return value


def _bounded(text: str, most: int) -> int:
    """The value of digits, or anything above `most` where they are too many to be worth converting."""
    digits = text.lstrip("0")
    return int(digits or "0") if len(digits) <= len(str(most)) else most + 1


def _within(what: str, text: str, value: int, least: int, most: int, location: Location | None) -> int:
    if not least <= value <= most:
        raise InputError(f"{what} must be from {least} to {most}, not {text[:_QUOTED]}", location=location)
    return value


def cycles_number(given: str | float, option: str) -> float:
    """A number of cycles, `200M`, `1.5G` or `2e8`. Raises InputError."""
    if not isinstance(given, str):
        return float(given)
    units = {"k": 1e3, "m": 1e6, "g": 1e9}
    unit = units.get(given[-1:].lower(), 1.0)
    try:
        cycles = real_number("", given[:-1] if unit > 1 else given) * unit
    except InputError:
        cycles = math.inf
    if cycles > EXACT:
        raise InputError(
            f"'{given}' is no number of cycles", location=Location(option), hint="e.g. 200M, 1.5G or 2e8"
        )
    return cycles
