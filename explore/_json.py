"""Plain JSON of what is kept in files, and back: equal objects, floats bit for bit.

JSON may come from anybody: only finite numbers, bounded depth, and values of exactly the kinds that dataclasses declare.
"""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any, ParamSpec, TypeVar

from pydantic import Field, TypeAdapter, ValidationError

from baco.common.errors import InputError

Json = dict[str, Any]
#: Fields that hold a whole number, or a finite one, of at least 0.
Count = Annotated[int, Field(ge=0)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_P = ParamSpec("_P")
_T = TypeVar("_T")
#: Real records are at most eight levels deep.
_MAX_DEPTH = 32
_SURROGATE = re.compile(r"\\ud[89a-f]", re.IGNORECASE)
#: What is counted in 64 bits stays below; SQLite holds no more.
_MAX_WHOLE = 2**63


def dump(data: object) -> str:
    """Plain values as JSON, short. Raises ValueError for numbers that are not finite."""
    return json.dumps(data, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def load(data: str) -> Json:
    """A JSON object. Raises ValueError for anything else, also for numbers beyond floating point and deep nesting."""
    if not isinstance(data, str):
        raise ValueError("it is no text")
    try:
        found = json.loads(data, parse_constant=_refuse, parse_float=_finite, parse_int=_bounded)
    except RecursionError:
        raise ValueError("its lists are nested too deeply") from None
    level = [found]
    for _ in range(_MAX_DEPTH):
        level = [inner for one in level if isinstance(one, (dict, list)) for inner in _children(one)]
    if level:
        raise ValueError("its lists are nested too deeply")
    if not isinstance(found, dict):
        raise ValueError(f"{_shown(found)} is no object")
    return found


def _children(one: Any) -> Any:
    return one.values() if isinstance(one, dict) else one


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is no number")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"{digits[:40]} is beyond the range of numbers")
    return value


def _bounded(digits: str) -> int:
    if len(digits) > 20 or abs(int(digits)) >= _MAX_WHOLE:
        raise ValueError(f"{digits[:40]} is beyond the range of whole numbers")
    return int(digits)


def to_json(value: Any, kind: Any = None) -> Any:
    """Plain values of a dataclass or model: numpy's scalars become Python's, tuples lists.

    Args:
        kind: a base class of the value's, whose fields alone are wanted.
    """
    of: Any = kind or type(value)
    return _adapter(of).dump_python(value, mode="json", warnings=False, fallback=lambda scalar: scalar.item())


def from_json(kind: type[_T], data: object) -> _T:
    """Inverse of `to_json`: nothing is converted but lists to tuples. Raises ValueError; see `reader`."""
    of: Any = kind
    text = dump(data)
    value: _T
    if _SURROGATE.search(
        text
    ):  # a name of a file that is no UTF-8, which pydantic's parser refuses: less strict
        value = _adapter(of).validate_python(data)
    else:
        value = _adapter(of).validate_json(text, strict=True)
    return value


@functools.cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _shown(value: object) -> str:
    """A value in messages: numbers and short texts as they are."""
    names: dict[type, str] = {dict: "an object", list: "a list", type(None): "null"}
    shown = names.get(type(value)) or repr(value)
    return shown if len(shown) <= 40 else "a long text"


def number(value: object, least: float = -math.inf) -> float:
    """A finite number of at least `least`. Raises ValueError for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{_shown(value)} is not a number")
    found = float(value)
    if not math.isfinite(found) or found < least:
        raise ValueError(f"{found:g} is not a finite number of at least {least:g}")
    return found


def text(value: object) -> str:
    """A text. Raises ValueError for anything else."""
    if not isinstance(value, str):
        raise ValueError(f"{_shown(value)} is not a text")
    return value


def listed(value: object) -> Sequence[Any]:
    """A list. Raises ValueError for anything else (a text would pass for a list of letters)."""
    if not isinstance(value, list):
        raise ValueError(f"{_shown(value)} is not a list")
    return value


def reader(what: str) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]:
    """Make a `*_from_json` function raise InputError, and nothing else, for malformed input."""

    def decorate(function: Callable[_P, _T]) -> Callable[_P, _T]:
        @functools.wraps(function)
        def read(*args: _P.args, **kwargs: _P.kwargs) -> _T:
            try:
                return function(*args, **kwargs)
            except KeyError as error:
                raise InputError(f"the record of {what} has no {error}") from error
            except ValidationError as error:
                first = error.errors()[0]
                at = ".".join(str(part) for part in first["loc"])
                if first["type"] == "missing":
                    raise InputError(f"the record of {what} has no '{at}'") from error
                raise InputError(f"the record of {what} is malformed: {at}: {first['msg']}") from error
            except (TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
                raise InputError(f"the record of {what} is malformed: {error}") from error

        return read

    return decorate
