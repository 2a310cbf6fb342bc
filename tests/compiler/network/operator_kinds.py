"""Kinds of operators, whatever base they share."""

from collections.abc import Iterator


def _derived(kind: type) -> Iterator[type]:
    """A kind itself if nothing is derived from it, else what is derived from it in however many steps."""
    if not kind.__subclasses__():
        yield kind
    for one in kind.__subclasses__():
        yield from _derived(one)


def concrete_kinds(kind: type) -> set[type]:
    """Those of the compiler that derive from a kind and that nothing is derived from.

    A bench or a test may have kinds of its own, which are there once its module is imported.
    """
    return {one for one in _derived(kind) if one.__module__.startswith("baco.compiler.")}
