"""Host core, reservation station and units of the original, as far as they decide when explicit code's commands are done."""

from __future__ import annotations

import heapq
from collections import deque

from baco.compiler.analysis.profile import TimingProfile
from baco.compiler.latency.issued_counts import CodeNumbers

#: Commands between host core and reservation station, and cycles on this way (`sim/cpp/gemmini_engine.cpp`).
_QUEUED, _WAY = 9, 5.0
#: Cycles of a load beside those of the port and of lines that are filled; of a store to its first read, and to its first write
#: (`gemmini_load.cpp`, `gemmini_store.cpp`).
_LOADS, _READS, _WRITES = 26.0, 4.0, 20.0
#: Rows that stores have read and not written yet, at most.
_ROWS_AHEAD = 22.0
#: Fewest rows of a pass, loads and stores under way at a time.
_LEAST_ROWS, _TRACKERS = 4.0, 2
#: Cycles before the first command.
_START = 20.0
_LOAD, _EXECUTE, _STORE = range(3)
_LONG_AGO = -1e9


class Units:
    """Host core, reservation station and units: when commands that come in the program's order are done."""

    def __init__(self, n: CodeNumbers, profile: TimingProfile) -> None:
        self.n, self.profile = n, profile
        self.host, self.sent = _START, 0.0
        self._way = deque([0.0] * _QUEUED)
        self._free = [[0.0] * round(x) for x in (n.load_entries, n.execute_entries, n.store_entries)]
        self._issued = [0.0, 0.0, 0.0]
        # of loads and of stores: when the port, the memory's refills, and those under way are done
        self._port, self._filled = [0.0, 0.0], [_LONG_AGO, _LONG_AGO]
        self._under_way = [deque([0.0] * _TRACKERS) for _ in range(2)]
        self._stored, self._written = 0.0, deque([(0.0, 0.0, 0.0, 0.0)])
        self._pass, self._rows = 0.0, 0.0
        self._results = deque([0.0] * round(profile.passes_inside))

    @property
    def end(self) -> float:
        """When all is done."""
        return max(*self._port, *self._filled, self._results[-1])

    def load(self, host: float, port: float, filling: float, after: float) -> float:
        """A load, from host core to its last row: cycles of the host core, of the port, and of the memory that fills lines."""
        start = max(self._enter(_LOAD, host, after), self._under_way[0].popleft() + 1.0)
        late = self.profile.miss_cycles if filling else 0.0
        done = max(start + _LOADS + late + port, self._port[0] + port)
        if filling:
            done = max(done, self._fill(0, start + _LOADS, filling) + _READS)
        self._port[0] = done
        self._under_way[0].append(done)
        heapq.heappush(self._free[_LOAD], done)
        return done

    def store(self, host: float, port: float, rows: float, filling: float, after: float) -> float:
        """A store, until it has read its last row: rows wait in queues for those before that have to be written first."""
        start = max(self._enter(_STORE, host, after), self._under_way[1].popleft() + 1.0)
        busy = max(port, rows)
        done = max(start + _READS + busy, self._port[1] + busy)
        begin = max(start + _WRITES, self._written[-1][3])
        end = max(start + _WRITES + busy, begin + port)
        if filling:
            end = max(end, self._fill(1, begin, filling))
        count = rows / self.profile.store_pace
        self._written.append((self._stored, self._stored + count, begin, end))
        self._stored += count
        waits = self._stored - _ROWS_AHEAD
        while len(self._written) > 1 and self._written[0][1] < waits:
            self._written.popleft()
        first, last, begin, end = self._written[0]
        if waits > first:
            done = max(done, begin + (end - begin) * (waits - first) / (last - first))
        self._port[1] = done
        self._under_way[1].append(done)
        heapq.heappush(self._free[_STORE], done)
        return done

    def multiply(self, host: float, rows: float, weights: float | None, inputs: float, sums: float) -> float:
        """A preload and its compute, until the result is there; they wait for new weights, if there are any, inputs, and rows of sums."""
        preload = self._enter(_EXECUTE, host / 2, max(sums, weights or 0.0))
        compute = self._enter(_EXECUTE, host / 2, max(inputs, preload))
        room, before = self._results.popleft(), self._pass + max(self._rows, _LEAST_ROWS)
        side = self.n.dim
        if weights is None:
            start = max(compute + 1.0, before, room)
        else:
            # they come in with the rows of the pass before
            start = max(max(preload + 1.0, compute - 1.0, self._pass, room - side) + side, before)
        self._pass, self._rows = start, rows / self.n.array_speed
        fed = start + max(self._rows, _LEAST_ROWS) + 1.0
        self._results.append(fed + self.n.latency)
        for done in (fed, fed + self.n.latency):
            heapq.heappush(self._free[_EXECUTE], done)
        return fed + self.n.latency

    def _enter(self, kind: int, host: float, after: float) -> float:
        """When a command is issued that the host core takes so long for and that waits for others."""
        self.host = max(self.host + host, self._way.popleft())
        self.sent = max(self.host + _WAY, self.sent + 1.0, heapq.heappop(self._free[kind]) + 1.0)
        self._way.append(self.sent)
        self._issued[kind] = max(self.sent + 1.0, self._issued[kind] + 1.0, after)
        return self._issued[kind]

    def _fill(self, which: int, begin: float, cycles: float) -> float:
        """When lines are there that memory fills for loads (0) or stores (1): both take turns where both wait."""
        begin, other = max(begin, self._filled[which]), self._filled[1 - which]
        waiting = max(0.0, other - begin)
        self._filled[1 - which] += min(cycles, waiting)
        self._filled[which] = begin + cycles + min(cycles, waiting)
        return self._filled[which]
