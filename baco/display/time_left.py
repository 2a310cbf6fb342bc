"""How long a search will still take, by what it took so far."""

from __future__ import annotations

from bisect import bisect_left

#: Share of the budget below which a stretch of time counts as one in which hardly any was spent.
_HARDLY = 0.02
#: From this share of the budget on, a search is at its closing phases.
_LATE = 0.95
#: What closing phases take at least, as a share of the time before them; of searches in `tests/baco`.
_CLOSING = 0.25
#: Of what closing phases were to take, when they take longer.
_LAST = 0.1
#: Reports before which there is no estimate.
_LEAST_REPORTS = 3


class TimeLeft:
    """Seconds left, from the shares of the budget that were spent by then.

    Samples do not pass evenly: some phases (the compiler's own schedules, exact finishes) take long and spend next to
    nothing of the budget, and searches end with such ones. So the rest of the budget is charged at the mean pace, and
    behind it the longest stretch so far in which hardly any of it was spent, or a share of the time so far.
    """

    def __init__(self) -> None:
        self._seconds: list[float] = []
        self._shares: list[float] = []
        self._stretch = 0.0
        self._closing = 0.0
        self._late_since: float | None = None

    def report(self, seconds: float, share: float) -> None:
        """After so many seconds (ascending), this share (0 to 1, ascending) of the budget was spent.

        The first report is where the pace is counted from: a resumed search has a past that took another time.
        """
        self._seconds.append(seconds)
        self._shares.append(share)
        if self._late_since is not None:
            return
        begun = bisect_left(self._shares, share - _HARDLY)
        self._stretch = max(self._stretch, seconds - self._seconds[begun])
        self._closing = max(self._stretch, _CLOSING * (seconds - self._seconds[0]))
        if share >= _LATE:
            self._late_since = seconds

    def left(self, seconds: float) -> float | None:
        """Seconds left at a time at or after the last report; None as long as nothing can be said."""
        if len(self._seconds) < _LEAST_REPORTS or self._shares[-1] <= self._shares[0]:
            return None
        last, share = self._seconds[-1], self._shares[-1]
        pace = (last - self._seconds[0]) / (share - self._shares[0])
        closing = self._closing - (0.0 if self._late_since is None else seconds - self._late_since)
        return max(0.0, (1 - share) * pace - (seconds - last)) + max(_LAST * self._closing, closing)
