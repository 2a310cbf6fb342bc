"""Which groups of operators of a graph save most together: dynamic programming over what has run so far.

Source: GTCO (operators fused by ending sets), over sets and not sequences of operators: groups must run one after the other, so
each may only read what groups before it, or its own operators, have made.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence


def best_partition(
    needs: Sequence[Collection[int]], gains: Mapping[frozenset[int], float]
) -> list[frozenset[int]]:
    """Disjoint groups of the greatest sum of gains, in an order in which they can run with all other operators between them.

    Args:
        needs: of each operator, those whose results it reads; all come before it.
        gains: of groups that might run as one unit, what that saves against their operators one by one. Groups that save
            nothing are not taken.
    """
    bits = {group: sum(1 << operator for operator in group) for group, gain in gains.items() if gain > 0}
    outside = {
        group: _mask(need for operator in group for need in needs[operator]) & ~mask
        for group, mask in bits.items()
    }
    of: dict[int, list[frozenset[int]]] = defaultdict(list)
    for group in bits:
        for operator in group:
            of[operator].append(group)
    alone = [_mask(ones) for ones in needs]
    everything = (1 << len(needs)) - 1
    # by what has run: the greatest sum, what had run before the last step, and the step if it was a group
    best: dict[int, tuple[float, int, frozenset[int] | None]] = {0: (0.0, 0, None)}
    waiting: list[set[int]] = [{0}, *(set() for _ in needs)]
    for ran in range(len(needs)):
        for state in sorted(waiting[ran]):
            total = best[state][0]
            first = (~state & (state + 1)).bit_length() - 1
            open_ = [group for group in of[first] if not bits[group] & state]
            ready = [group for group in open_ if not outside[group] & ~state]
            singles = [first]
            if len(ready) < len(open_):  # others have to run before that group can
                ready += [
                    group
                    for group, mask in bits.items()
                    if first not in group and not mask & state and not outside[group] & ~state
                ]
                singles += [
                    operator
                    for operator in range(first + 1, len(needs))
                    if not state >> operator & 1 and not alone[operator] & ~state
                ]
            steps: list[tuple[int, float, frozenset[int] | None]]
            steps = [(state | 1 << operator, total, None) for operator in singles]
            steps += [(state | bits[group], total + gains[group], group) for group in ready]
            for after, value, step in steps:
                if after not in best or value > best[after][0]:
                    best[after] = value, state, step
                waiting[after.bit_count()].add(after)
        waiting[ran].clear()
    found: list[frozenset[int]] = []
    state = everything
    while state:
        _, before, taken = best[state]
        if taken is not None:
            found.append(taken)
        state = before
    return found[::-1]


def _mask(numbers: Iterable[int]) -> int:
    found = 0
    for one in numbers:
        found |= 1 << one
    return found
