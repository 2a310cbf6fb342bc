"""How long a loop takes whose loads run ahead, by the number of places that its blocks have (ALCOP, table 5.1).

A round loads for `load` cycles and uses what came for `use` cycles; rounds use one after the other. With N places the load of
round i begins when round i - N is done with its place. For long loops a round takes `use` cycles if loads keep up, else
(load + use) / N; what is exact for any number of rounds is `loop_cycles`. A loader that does one thing at a time
adds a bound: it is at work for all blocks one after the other (`busy`).
"""

from __future__ import annotations

from dataclasses import dataclass


def loop_cycles(load: float, use: float, rounds: int, stages: int) -> float:
    """Cycles from the first load to the end of the last use, of however few rounds.

    With P rounds, N places: L + P U if L <= (N - 1) U, else L + U ((P - 1) mod N + 1) + floor((P - 1) / N) (L + U).
    """
    if rounds <= 0:
        return 0.0
    if load <= (stages - 1) * use:
        return load + rounds * use
    turns, rest = divmod(rounds - 1, stages)
    return load + use * (rest + 1) + turns * (load + use)


@dataclass(frozen=True)
class LoopTimes:
    """A loop whose loads can run ahead, on a machine with one loader and commands that are issued in order.

    Attributes:
        latency: cycles until the first of a block's data are there.
        busy: cycles that the loader works for a round's blocks, and for nothing else.
        use: cycles that a round's products take.
        rounds: of the loop.
        beside: cycles in which the loader's channel serves others, over all rounds (results on their way out).
    """

    latency: float
    busy: float
    use: float
    rounds: int
    beside: float = 0.0

    def cycles(self, stages: int) -> float:
        """Of the whole loop: never less than the loader, which is serial, is at work, nor than the products that are issued
        behind the loads of all rounds before the first."""
        load = self.latency + self.busy
        pipeline = loop_cycles(load, self.use, self.rounds, stages)
        waiting = self.busy * min(stages - 1, self.rounds)
        serial = load + self.busy * (self.rounds - 1) + self.beside + self.use
        return max(pipeline, waiting + self.use * self.rounds, serial)

    def stages(self, most: int, tolerance: float = 0.005) -> int:
        """The fewest places, up to `most`, with which the loop takes no more than the least cycles and a tolerance."""
        cycles = [self.cycles(n) for n in range(1, most + 1)]
        return 1 + next(n for n, one in enumerate(cycles) if one <= min(cycles) * (1 + tolerance))
