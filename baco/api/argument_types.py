"""Arguments of the interface's functions checked against what their signatures say, before anything is done with them.

A value of a wrong type would be found out about somewhere inside, in words that mean nothing to whoever gave it. What an
annotation allows is read from its text, so that no type has to be loaded for it; a name that is not known here allows
anything, and is checked by who takes it.
"""

from __future__ import annotations

import functools
import inspect
import numbers
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ParamSpec, TypeVar

from baco.common.errors import InputError

_P = ParamSpec("_P")
_R = TypeVar("_R")
#: Characters shown of a value.
_MOST_SHOWN = 60


def checked(**hints: str) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Decorates a function of the interface: arguments of other types than its annotations are an InputError.

    Args:
        hints: what to say besides, by argument.
    """

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            given = signature.bind(*args, **kwargs).arguments
            for name, value in given.items():
                parameter = signature.parameters[name]
                allowed = parameter.annotation
                if parameter.kind is parameter.VAR_KEYWORD:
                    for key, one in value.items():
                        check_value(key, one, allowed, hints.get(key))
                elif name != "self":
                    check_value(name, value, allowed, hints.get(name))
            return function(*args, **kwargs)

        return call

    return decorate


def check_seed(seed: int) -> None:
    """Raises InputError for a number that begins no random numbers."""
    if not 0 <= seed < 2**32:
        raise InputError(f"a seed is a whole number from 0 to {2**32 - 1}, not {seed}")


def check_value(name: str, value: object, allowed: object, hint: str | None = None) -> None:
    """Raises InputError for a value that an annotation, as text, does not allow; `hint` says what to give."""
    if not isinstance(allowed, str) or _allows(allowed, value):
        return
    kinds = [_kind(one) for one in _parts(allowed, "|") if one != "None"]
    words = " or ".join([", ".join(kinds[:-1]), kinds[-1]] if len(kinds) > 1 else kinds)
    raise InputError(f"{name} must be {words}, not {_shown(value)}", hint=hint)


def _parts(text: str, mark: str) -> list[str]:
    """What the mark separates outside of brackets."""
    found, depth, start = [], 0, 0
    for at, sign in enumerate(text):
        depth += (sign in "[(") - (sign in ")]")
        if sign == mark and not depth:
            found.append(text[start:at].strip())
            start = at + 1
    return [*found, text[start:].strip()]


def _allows(allowed: str, value: object) -> bool:
    return any(_is(one, value) for one in _parts(allowed, "|"))


def _is(kind: str, value: object) -> bool:
    """Whether a value is of one kind; true for a kind that is not known here."""
    base, _, inner = kind.partition("[")
    if base in _KINDS:
        return _KINDS[base][0](value) and all(_allows(*pair) for pair in _inside(base, inner[:-1], value))
    if base in _CLASSES:
        return any(one.__name__ == base for one in type(value).__mro__)
    return True


def _inside(base: str, inner: str, value: Any) -> Iterator[tuple[str, object]]:
    """What is in a collection, and what of that is allowed."""
    if not inner or base in ("Callable", "type"):
        return
    kinds = _parts(inner, ",")
    if base == "Mapping":
        for key, entry in value.items():
            yield from ((kinds[0], key), (kinds[1], entry))
    elif base == "tuple" and kinds[-1] != "...":
        yield from zip(kinds, value, strict=False)
        if len(kinds) != len(value):
            yield "None", ...
    else:
        yield from ((kinds[0], entry) for entry in value)


def _whole(value: object) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _number(value: object) -> bool:
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        return False
    try:
        float(value)
    except OverflowError:
        return False
    return True


def _truth(value: object) -> bool:
    return isinstance(value, bool) or type(value).__name__ in ("bool_", "bool")


def _several(value: object) -> bool:
    return (
        not isinstance(value, (str, bytes, Mapping))
        and hasattr(value, "__len__")
        and hasattr(value, "__getitem__")
    )


def _network_data(value: object) -> bool:
    """Samples of one network."""
    if isinstance(value, Mapping):
        return all(isinstance(name, str) for name in value)
    listed = isinstance(value, (str, os.PathLike, Iterable))
    return listed and not isinstance(value, (bytes, bytearray)) and not hasattr(value, "dtype")


def _data(value: object) -> bool:
    """Samples of one network, or of several."""
    if isinstance(value, (list, tuple)):
        return all(item is None or _data(item) for item in value)
    return _network_data(value)


def _layer_mapping(value: object) -> bool:
    """Of our own, not of typing."""
    return any(
        one.__name__ == "Mapping" and one.__module__.startswith("baco.") for one in type(value).__mro__
    )


#: By the name of an annotation: what it allows, and that in words.
_KINDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "None": (lambda value: value is None, "None"),
    "str": (lambda value: isinstance(value, str), "text"),
    "bytes": (lambda value: isinstance(value, bytes), "bytes"),
    "int": (_whole, "a whole number"),
    "float": (_number, "a number"),
    "bool": (_truth, "True or False"),
    "Path": (lambda value: isinstance(value, os.PathLike), "a path"),
    "Mapping": (lambda value: isinstance(value, Mapping), "a dict"),
    "LayerMapping": (_layer_mapping, "a baco.Mapping"),
    "Sequence": (_several, "a list"),
    "tuple": (lambda value: isinstance(value, (tuple, list)), "a tuple"),
    "Callable": (callable, "a function"),
    "Callback": (callable, "a function"),
    "CostFunction": (callable, "a function"),
    "NetworkData": (
        _network_data,
        "arrays by input, a .npz file or a folder of them, or samples one after the other",
    ),
    "WorkloadData": (_data, "arrays by input, a .npz file, or for several networks a list of these"),
    "type": (lambda value: isinstance(value, type), "a class"),
}
#: Classes of baco that arguments may be of, by the text that says so.
_CLASSES = {
    "Candidate": "a design",
    "DesignSpace": "a DesignSpace",
    "Space": "a baco.Space",
    "Kernel": "a kernel (@baco.jit)",
    "Limits": "Limits",
    "MainMemory": "a MainMemory",
    "Recording": "a Recording",
    "Result": "a result",
}


def _kind(kind: str) -> str:
    """In words, with what is inside."""
    base, _, inner = kind.partition("[")
    if base in _CLASSES:
        return _CLASSES[base]
    words = _KINDS[base][1] if base in _KINDS else f"a {base}"
    if inner and base in ("Sequence", "Mapping"):
        last = _parts(inner[:-1], ",")[-1]
        several = {"str": "texts", "int": "whole numbers", "float": "numbers"}.get(last)
        return f"{words} of {several}" if several else words
    return words


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except Exception:
        text = "one that cannot be shown"
    kind = type(value).__name__
    return f"{text[:_MOST_SHOWN]}{'…' if len(text) > _MOST_SHOWN else ''} ({kind})"
