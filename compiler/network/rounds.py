"""Parts of operators that accelerator and host core compute at the same time, in rounds.

In a round the array computes a part of a product, and the host parts of functions of rows or elements that take as long; all of
it depends on earlier rounds alone. Of the parts that can be next the array takes that which the host needs first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from baco.compiler.ops.elementwise import Addition, Gate, Map
from baco.compiler.ops.operator import IntegerOperator
from baco.compiler.ops.products import MatMul
from baco.compiler.ops.rows import NormalisationBySums, Softmax

#: What the host does.
HostPart: TypeAlias = Map | Gate | Softmax | NormalisationBySums


@dataclass(frozen=True)
class ArrayPart:
    """What the accelerator does.

    Attributes:
        op: part of a product or of an addition.
        runs: the first of its runs of LOOP_WS and the one behind the last; None: all of them.
        last: whether they are its last ones. Before, nothing else may use the accumulator.
    """

    op: MatMul | Addition
    runs: tuple[int, int] | None = None
    last: bool = True


Part: TypeAlias = ArrayPart | HostPart
#: What accelerator and host do at the same time.
Round: TypeAlias = tuple[ArrayPart | None, list[HostPart]]
_Numbers: TypeAlias = tuple[int | None, list[int]]

#: Shares of a part of the host's that have to fit in the rest of a round, of which the best one is taken; of equally good ones the
#: first.
_LEAST_SHARES = (0.5, 0.25, 0.75, 0.01, 1.0)


@dataclass(frozen=True)
class Shared:
    """Operators whose parts accelerator and host compute in turns.

    Attributes:
        operators: in the order of the network.
        array, host: their parts; runs of one part follow each other.
    """

    operators: tuple[IntegerOperator, ...]
    array: tuple[ArrayPart, ...]
    host: tuple[HostPart, ...]

    def rounds(self, words: Mapping[str, int], cycles: Callable[[Part], float]) -> list[Round]:
        """What both do at the same time, one round after the other.

        How much the host does beside a part of the array's is a choice for all of the rounds: a little more makes the array wait, a
        little less makes the host work alone in the end. The rounds that take the least time are those.

        Args:
            words: elements of the values.
            cycles: that a part takes, about.
        """
        parts: list[IntegerOperator] = [*(part.op for part in self.array), *self.host]
        needs = _needs(parts, words)
        for number in range(1, len(self.array)):
            if not self.array[number - 1].last:
                needs[number].add(number - 1)
        taken = [cycles(part) for part in (*self.array, *self.host)]
        choices = [self._numbers(needs, taken, share) for share in _LEAST_SHARES]
        best = min(choices, key=lambda rounds: sum(_length(ours, theirs, taken) for ours, theirs in rounds))
        count = len(self.array)
        return [
            (None if ours is None else self.array[ours], [self.host[part - count] for part in theirs])
            for ours, theirs in best
        ]

    def _numbers(self, needs: Sequence[set[int]], taken: Sequence[float], share: float) -> list[_Numbers]:
        """Numbers of the parts that rounds consist of; the host's come behind the array's.

        Args:
            needs: for each part those that write what it reads.
            taken: cycles of each part.
            share: the host takes a further part where at least this share of it fits in what the array's takes.
        """
        count = len(self.array)
        first = _first_users(needs, range(count, len(needs)))
        array = sorted(range(count), key=lambda part: first[part])
        host, done, rounds = list(range(count, len(needs))), set[int](), list[_Numbers]()
        last, begun = -1, False
        while array or host:
            ours = next((part for part in array if needs[part] <= done), None)
            if begun:  # nothing comes between runs of a part
                ours = last + 1
            left = 0.0
            if ours is not None:
                array.remove(ours)
                begun, last = not self.array[ours].last, ours
                left = taken[ours]
            theirs = list[int]()
            while (part := next((part for part in host if needs[part] <= done), None)) is not None:
                if theirs and left < share * taken[part]:
                    break
                theirs.append(part)
                host.remove(part)
                left -= taken[part]
            rounds.append((ours, theirs))
            done |= {*theirs, *(() if ours is None else (ours,))}
        return rounds


def _length(ours: int | None, theirs: Sequence[int], taken: Sequence[float]) -> float:
    """Cycles of a round: of the slower one of both."""
    return max(0.0 if ours is None else taken[ours], sum(taken[part] for part in theirs))


def _needs(parts: Sequence[IntegerOperator], words: Mapping[str, int]) -> list[set[int]]:
    """For each part those that write what it reads."""
    writers: dict[str, np.ndarray] = {}
    for number, part in enumerate(parts):
        owner = writers.setdefault(part.output.value, np.full(words[part.output.value], -1))
        part.output.write(owner, np.full(part.output.shape, number))
    return [
        {
            int(number)
            for view in part.inputs
            if view.value in writers
            for number in np.unique(view.read(writers[view.value]))
        }
        - {-1}
        for part in parts
    ]


def _first_users(needs: Sequence[set[int]], functions: Sequence[int]) -> list[int]:
    """For each part the first of the host's that depends on it, over others maybe; one behind the last where none does."""
    first = [len(needs)] * len(needs)
    for function in functions:
        waiting = [function]
        while waiting:
            part = waiting.pop()
            if first[part] > function or part == function:
                first[part] = min(first[part], function)
                waiting += [need for need in needs[part] if first[need] > function]
    return first
