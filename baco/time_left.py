"""How long a search will still take, by what it took so far."""

from __future__ import annotations

from bisect import bisect_left

__all__ = ["TimeLeft"]

#: Share of the budget below which a stretch of time counts as one in which hardly any was spent.
_HARDLY = 0.02
#: Reports before which there is no estimate.
_LEAST_REPORTS = 3


class TimeLeft:
    """Seconds left, from the shares of the budget that were spent by then.

    Samples do not pass evenly: some phases (the compiler's own schedules, exact finishes) take long and spend next to
    nothing of the budget, and most searches end with one. So the rest of the budget is charged at the mean pace, and the
    longest stretch so far in which hardly any of it was spent is expected once more.
    """

    def __init__(self) -> None:
        self._seconds: list[float] = []
        self._shares: list[float] = []
        self._stretch = 0.0

    def report(self, seconds: float, share: float) -> None:
        """After so many seconds (ascending), this share (0 to 1, ascending) of the budget was spent.

        The first report is where the pace is counted from: a resumed search has a past that took another time.
        """
        self._seconds.append(seconds)
        self._shares.append(share)
        begun = bisect_left(self._shares, share - _HARDLY)
        self._stretch = max(self._stretch, seconds - self._seconds[begun])

    def left(self, seconds: float) -> float | None:
        """Seconds left at a time at or after the last report; None as long as nothing can be said."""
        if len(self._seconds) < _LEAST_REPORTS or self._shares[-1] <= self._shares[0]:
            return None
        last, share = self._seconds[-1], self._shares[-1]
        pace = (last - self._seconds[0]) / (share - self._shares[0])
        return max(0.0, (1 - share) * pace + self._stretch - (seconds - last))
