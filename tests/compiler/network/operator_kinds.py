"""Kinds of operators, whatever base they share."""


def concrete_kinds(kind: type) -> set[type]:
    """Those derived from a kind, in however many steps, that nothing is derived from."""
    derived = kind.__subclasses__()
    return {kind} if not derived else set().union(*map(concrete_kinds, derived))
