"""From an archive of mappings to accelerators: which hardware points are worth having, and with what mappings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from baco.common import portable
from baco.common.portable import Floats
from baco.exploration.candidate import Candidate, Cost
from baco.exploration.cost.evaluation import ACCUMULATOR, SCRATCHPAD, SIDE
from baco.exploration.cost.genome import to_mapping
from baco.exploration.front import nondominated, thin
from baco.exploration.objective import Objective, metric
from baco.exploration.search.archive import Archive
from baco.exploration.search.focus import Focus
from baco.exploration.space.points import HardwarePoints

#: Weighings of energy against latency that a scan tries, relative to each point's own latency/energy ratio.
WEIGHINGS = np.array([1e-5, 0.05, 0.25, 0.5, 0.8, 1.25, 2.0, 4.0, 20.0, 1e5])
#: Steps of capacity around an elite when the space has too many points to scan them all.
_FINE = np.array([0.86, 0.93, 0.98, 1.0, 1.03, 1.1])
_COARSE = np.array([0.5, 0.7, 1.0, 1.4, 2.0])
#: Penalty of every infeasible design, and of one for every time that its value is e times the bound.
_INFEASIBLE, _STEEP = 1e3, 100.0
#: Hardware points that are combined exactly in a scan as long as nothing feasible is known.
_LOOKED_AT = 16


@dataclass(frozen=True)
class Elite:
    """A hardware point, the focus it is good for, and its best choice of mappings.

    Attributes:
        point: (dim, accumulator KiB, scratchpad KiB).
        units: whether it has row functions, where that is searched.
        choice: (tasks,) archive entries; valid until the archive is pruned.
        value: the focus's scalarised objective, violations included.
        violation: largest relative excess over a constraint, 0 when feasible, with the constraint's name.
    """

    point: tuple[float, float, float]
    units: bool
    choice: NDArray[np.int64]
    energy: float
    latency: float
    value: float
    violation: float
    violated: str


class Selector:
    """Scans hardware points for a set of focuses."""

    def __init__(self, archive: Archive, objective: Objective, focuses: Sequence[Focus]) -> None:
        self.archive = archive
        self.space = archive.space
        self.objective = objective
        self.focuses = list(focuses)
        self._limits = self.space.constraints.on_mappings
        self.points: HardwarePoints | None = None
        if self.space.enumerable:
            self.points = self.space.hardware().floats()
        self._dims = np.array(self.space.dim, dtype=np.float64)
        self._acc = np.array(self.space.accumulator_kib, dtype=np.float64)
        self._sp = np.array(self.space.scratchpad_kib, dtype=np.float64)
        self.ratio = 1e-2
        self.scans = 0
        self._grid = self._coarse_grid()
        self._points: dict[tuple[tuple[float, float, float], bool], tuple[float, bool]] = {}

    # -- hardware points ---------------------------------------------------------------------------------

    def allowed(self, hardware: HardwarePoints) -> NDArray[np.bool_]:
        """Points of the space that keep the bounds on area and SRAM."""
        return np.asarray(self.space.allowed(*hardware.columns), dtype=np.bool_)

    def _point(self, point: tuple[float, float, float], units: bool) -> tuple[float, bool]:
        """Area of one point, and whether it is allowed; the same few are asked about again and again."""
        key = point, bool(units)
        if key not in self._points:
            one = self.archive.point(point, units)
            self._points[key] = float(one.area_mm2[0]), bool(self.allowed(one)[0])
        return self._points[key]

    def sides(self) -> NDArray[np.int64]:
        """Array sides that keep the bounds on area and SRAM with some memories."""
        if self.points is not None:
            return np.unique(self.points.dim).astype(np.int64)
        open_ = self.allowed(self.space.points(self._dims, self._acc[0], self._sp[0]))
        return self._dims[open_].astype(np.int64)

    def snap(self, dim: Floats, acc_kib: Floats, sp_kib: Floats, units: NDArray[np.bool_]) -> HardwarePoints:
        """The least allowed values that are not below the given ones (the largest where none is)."""

        def up(allowed: Floats, value: Floats) -> Floats:
            return np.asarray(allowed[np.searchsorted(allowed, value - 1e-9).clip(0, len(allowed) - 1)])

        return self.space.points(up(self._dims, dim), up(self._acc, acc_kib), up(self._sp, sp_kib), units)

    def least(self, choice: NDArray[np.int64], units: bool) -> tuple[float, float, float]:
        """The least hardware that holds the chosen mappings (one-loop inference), with row functions or without."""
        a, one = self.archive, np.array([units])
        chosen = np.stack([a.data[i][[SIDE, ACCUMULATOR, SCRATCHPAD], k] for i, k in enumerate(choice)])
        side = max(2.0, float(chosen[:, 0].max()))
        dim = float(self.snap(np.array([side]), np.ones(1), np.ones(1), one).dim[0])
        acc, sp = (float(need) for need in a.kib(chosen[:, 1].max(), chosen[:, 2].max(), dim))
        # Bank rules may ask for more than the mappings do: take the least legal point at or above.
        snapped = self.snap(np.array([dim]), np.array([acc]), np.array([sp]), one)
        if self.points is None or self.allowed(snapped)[0]:
            return snapped.row(0)
        p = self.points
        holds = (p.dim == dim) & (p.accumulator_kib >= acc) & (p.scratchpad_kib >= sp)
        above = np.flatnonzero(holds & (p.units == units))
        if not len(above):
            return snapped.row(0)
        best = above[np.argmin(p.accumulator_kib[above] + p.scratchpad_kib[above])]
        return p.row(int(best))

    def pool(self, around: Sequence[Elite]) -> HardwarePoints:
        """Points to scan: all of a small space; else a coarse grid over it and finer ones around the elites."""
        if self.points is not None:
            return self.points
        rows = [self._grid]
        self.scans += 1
        steps = _FINE if self.scans % 2 else _COARSE
        for dim, acc, sp in sorted({e.point for e in around}):
            near = self._dims[np.abs(portable.log(self._dims / dim)) < 0.3]
            dims = (
                np.unique(np.concatenate([[dim], near[[0, -1]]])) if self.scans % 4 == 0 else np.array([dim])
            )
            grid = np.stack(np.meshgrid(dims, acc * steps, sp * steps, indexing="ij"), -1).reshape(-1, 3)
            # A larger array needs proportionally more accumulator for the same tiles.
            grid[:, 1] *= grid[:, 0] / dim
            rows.append(grid)
        return self._legal_points(np.concatenate(rows))

    def _legal_points(self, table: Floats) -> HardwarePoints:
        """The allowed points next above the rows of `table`, each once."""
        snapped = self.snap(table[:, 0], table[:, 1], table[:, 2], np.zeros(len(table), dtype=np.bool_))
        hardware = self.space.with_all_units(*np.unique(snapped.table, axis=0).T)
        return hardware.take(np.flatnonzero(self.allowed(hardware)))

    def _coarse_grid(self) -> Floats:
        """A few array sides times octaves of capacity, over what may pay: up to 8 MiB."""
        sides = self.sides().astype(np.float64)
        dims = np.unique(sides[np.linspace(len(sides) - 1, len(sides) // 4, 4).round().astype(int)])
        acc = _octaves(self._acc[0], min(self._acc[-1], 2048.0))
        sp = _octaves(self._sp[0], min(self._sp[-1], 8192.0))
        return np.stack(np.meshgrid(dims, acc, sp, indexing="ij"), -1).reshape(-1, 3)

    def sample(self, number: int, rng: np.random.Generator) -> Floats:
        """Random hardware points, (number, 3), the larger ones preferred as small ones hold little of use."""
        points = self.points if self.points is not None else self._legal_points(self._grid)
        # no accelerator is smaller with row functions, so that all sizes are among these
        points = points.take(np.flatnonzero(points.units == self.space.units[0]))
        memories = portable.log(points.accumulator_kib) + portable.log(points.scratchpad_kib)
        size = portable.log(points.dim) + 0.5 * memories
        chance = portable.exp(0.5 * (size - size.max()))
        index = rng.choice(len(points), min(number, len(points)), replace=False, p=chance / chance.sum())
        return points.table[index]

    # -- choices -----------------------------------------------------------------------------------------

    def excess(
        self, energy: Floats, latency: Floats, network_e: Floats, network_l: Floats
    ) -> tuple[Floats, list[str]]:
        """Relative excess over each mapping-dependent constraint, (..., constraints), and their names."""
        cost = Cost(latency, energy, 0.0)  # type: ignore[arg-type]
        by_network = [np.moveaxis(one, -1, 0) for one in (network_e, network_l)]
        values = self.archive.reached(self._limits, cost, by_network)
        ratios = [value / limit - 1 for value, limit in values.values()]
        return np.stack(ratios, -1) if ratios else np.zeros((*energy.shape, 0)), list(values)

    def choose(self, point: tuple[float, float, float], units: bool, focus: Focus) -> Elite | None:
        """The best exact combination on one point; None if a task does not fit it."""
        costs = self.archive.at(point, units)
        area, _ = self._point(point, units)
        scale: Floats | None = None
        best: Elite | None = None
        for _ in range(6):
            chain = self.archive.chain(costs, scale)
            if chain is None:
                return None
            value = focus.value(chain.energy, chain.latency, np.full(len(chain.energy), area))
            if not self.space.constraints.any_on_mappings:
                k = int(value.argmin())
                return self._elite(
                    point, units, chain.choice[k], chain.energy[k], chain.latency[k], value[k], 0.0, ""
                )
            excess, names = self.excess(
                chain.energy, chain.latency, *self.archive.totals(costs, chain.choice)
            )
            worst = excess.max(1).clip(min=0.0)
            k = int(np.lexsort((value, worst))[0])
            name = names[int(excess[k].argmax())] if worst[k] > 0 else ""
            penalised = value[k] + float(_penalty(worst[k]))
            totals = chain.energy[k], chain.latency[k]
            found = self._elite(point, units, chain.choice[k], *totals, penalised, float(worst[k]), name)
            if best is None or found.value < best.value:
                best = found
            late = {n for n, x in zip(names, excess[k], strict=True) if x > 0}
            broken = [n for n in self.archive.networks if f"networks.{n}.latency_cycles" in late]
            if not broken:
                break
            # A network that is too slow counts its cycles double in the combination until it is not.
            scale = np.ones(len(self.archive.tasks)) if scale is None else scale
            scale = scale * np.array([2.0 if t.network in broken else 1.0 for t in self.archive.tasks])
        return best

    @staticmethod
    def _elite(
        point: tuple[float, float, float],
        units: bool,
        choice: NDArray[np.int64],
        energy: float,
        latency: float,
        value: float,
        violation: float,
        violated: str,
    ) -> Elite:
        return Elite(
            point, bool(units), choice, float(energy), float(latency), float(value), violation, violated
        )

    def scan(self, around: Sequence[Elite], keep: Sequence[int], prune: bool = True) -> list[list[Elite]]:
        """Elites for every focus, best first.

        Args:
            around: previous elites (where a large space is scanned).
            keep: how many elites to keep for each focus.
            prune: drop archive entries of no use on any point scanned.
        """
        hardware = self.pool(around)
        weighings = np.broadcast_to(self.ratio * WEIGHINGS, (len(hardware), len(WEIGHINGS)))
        scan = self.archive.scan(hardware, weighings, prune=prune)
        area = hardware.area_mm2[:, None]
        excess, _ = self.excess(scan.energy, scan.latency, scan.network_energy, scan.network_latency)
        penalty = np.zeros(scan.energy.shape)
        if excess.shape[-1]:
            worst = np.nan_to_num(excess.max(-1), posinf=1e6).clip(min=0.0)
            penalty = _penalty(worst)
        result: list[list[Elite]] = []
        for focus, number in zip(self.focuses, keep, strict=True):
            value = (
                focus.value(scan.energy, scan.latency, np.broadcast_to(area, scan.energy.shape)) + penalty
            ).min(1)
            chosen = self._elites(self._shortlist(value, hardware, number), value, hardware, focus)
            if excess.shape[-1] and not result and all(e.violation > 0 for e in chosen.values()):
                # The weighings of the scan may miss what is feasible; where nothing is known to be, more is looked at.
                order = np.argsort(value, kind="stable")[:_LOOKED_AT]
                more = self._elites(order, value, hardware, focus)
                best = sorted(more.values(), key=_rank)[:number]
                chosen = {(elite.point, elite.units): elite for elite in best}
            result.append(sorted(chosen.values(), key=_rank))
        leaders = [elites[0] for elites in result if elites]
        if leaders:
            self.ratio = leaders[0].latency / leaders[0].energy
        return result

    def _elites(
        self, order: NDArray[np.int64], value: Floats, hardware: HardwarePoints, focus: Focus
    ) -> dict[tuple[tuple[float, float, float], bool], Elite]:
        """The best choices on the points at `order`, by point."""
        chosen: dict[tuple[tuple[float, float, float], bool], Elite] = {}
        for h in order:
            if not np.isfinite(value[h]):
                continue
            units = bool(hardware.units[h])
            elite = self.choose(hardware.row(int(h)), units, focus)
            if elite is None:
                continue
            # The mappings may need less than the point has: then the smaller one is better for free.
            least = self.least(elite.choice, units)
            if least != elite.point and self._point(least, units)[1]:
                smaller = self.choose(least, units, focus)
                if smaller is not None and smaller.value <= elite.value:
                    elite = smaller
            chosen.setdefault((elite.point, units), elite)
        return chosen

    @staticmethod
    def _shortlist(value: Floats, hardware: HardwarePoints, number: int) -> NDArray[np.int64]:
        """The best point of each of the best cells (a third of an octave of array side, an octave of each
        capacity), so that the elites differ by more than a few KiB."""
        order = np.argsort(value, kind="stable")
        cells = np.stack(
            [
                np.floor(3 * portable.log2(hardware.dim[order])),
                np.floor(portable.log2(hardware.accumulator_kib[order])),
                np.floor(portable.log2(hardware.scratchpad_kib[order])),
            ]
        )
        _, first = np.unique(cells, axis=1, return_index=True)
        return order[np.sort(first)][:number]

    # -- candidates --------------------------------------------------------------------------------------

    def candidate(self, elite: Elite, samples: int) -> Candidate:
        """An elite as a design point."""
        dim, acc, sp = (int(v) for v in elite.point)
        a = self.archive
        area, _ = self._point(elite.point, elite.units)
        cost = Cost(elite.latency, elite.energy, area, clock_mhz=self.space.clock_mhz)
        mappings = tuple(
            to_mapping(a.genomes[i][k], a.tasks[i].problem.groups, a.double_buffer)
            for i, k in enumerate(elite.choice)
        )
        return Candidate(
            accelerator=self.space.accelerator(dim, acc, sp, elite.units),
            tasks=a.tasks,
            mappings=mappings,
            cost=cost,
            samples=samples,
            objective=self.objective.scalar(cost),
        )

    def front(self, around: Sequence[Elite], samples: int, limit: int) -> list[Candidate]:
        """Non-dominated design points over all points scanned, at most `limit`, evenly spread."""
        hardware = self.pool(around)
        weighings = np.broadcast_to(self.ratio * WEIGHINGS, (len(hardware), len(WEIGHINGS)))
        scan = self.archive.scan(hardware, weighings)
        area = hardware.area_mm2
        excess, _ = self.excess(scan.energy, scan.latency, scan.network_energy, scan.network_latency)
        feasible = np.isfinite(scan.energy)
        if excess.shape[-1]:
            feasible &= (np.nan_to_num(excess, nan=1.0) <= 0).all(-1)
        h, g = np.nonzero(feasible)
        if not len(h):
            return []
        clock = self.space.clock_mhz
        costs = Cost(scan.latency[h, g], scan.energy[h, g], area[h], clock_mhz=clock)  # type: ignore[arg-type]
        table = np.stack([metric(costs, m) for m in self.objective.front_metrics], 1)
        kept = nondominated(table)
        kept = kept[thin(table[kept], limit)]
        result = []
        for k in kept:
            point, units = hardware.row(int(h[k])), bool(hardware.units[h[k]])
            at = self.archive.at(point, units)
            chosen = [
                int((weighings[0, g[k]] * pj + cycles).argmin())
                for pj, cycles in zip(at.energy, at.latency, strict=True)
            ]
            elite = self._elite(
                point,
                units,
                np.array(chosen),
                float(scan.energy[h[k], g[k]]),
                float(scan.latency[h[k], g[k]]),
                0.0,
                0.0,
                "",
            )
            result.append(self.candidate(elite, samples))
        return result


def _rank(elite: Elite) -> tuple[float, tuple[float, float, float], bool]:
    """Best first, and always the same of equals."""
    return elite.value, elite.point, elite.units


def _penalty(excess: Floats) -> Floats:
    """What is added to the logarithm of the objective of designs that break a constraint by a relative excess: so much
    that every feasible one is better, and of two others nearly always the nearer."""
    return np.asarray(_STEEP * portable.log(1 + excess) + np.where(excess > 0, _INFEASIBLE, 0.0))


def _octaves(low: float, high: float) -> Floats:
    return low * portable.exp2(np.arange(int(portable.log2(high / low)) + 1))
