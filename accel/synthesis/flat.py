"""A mapped design without its hierarchy, as arrays: which nets the pins of all instances of each cell are on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from baco.accel.synthesis.liberty import LibraryCell
from baco.accel.synthesis.mapping import OPEN, CellInstance, Mapped, NetlistModule
from baco.common.errors import BacoError

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Instances:
    """All instances of one cell.

    Attributes:
        cell: what they are.
        pins: its pins, in the order of the columns of `nets`.
        nets: shape (instances, pins); negative where a pin is open or constant (`OPEN`, `ZERO`, `ONE` of
            `baco.accel.synthesis.mapping`).
        scopes: the module instance that each lies in.
    """

    cell: LibraryCell
    pins: tuple[str, ...]
    nets: Integers
    scopes: Integers

    def column(self, pin: str) -> Integers:
        """Nets of one pin, shape (instances,)."""
        return self.nets[:, self.pins.index(pin)]


@dataclass
class Flat:
    """The whole design.

    Attributes:
        nets: how many there are.
        instances: by cell's name.
        scopes: path of each module instance, `accelerator.execute.mesh`; the top's is empty.
        modules: the module of each, as the source names it.
        ports: direction and nets of each of the design's, shape (bits,), lowest first.
        maps: by module instance, what each net of its module is here, shape (nets of the module,).
    """

    nets: int = 0
    instances: dict[str, Instances] = field(default_factory=dict)
    scopes: list[str] = field(default_factory=list)
    modules: list[NetlistModule] = field(default_factory=list)
    ports: dict[str, tuple[str, Integers]] = field(default_factory=dict)
    maps: list[Integers] = field(default_factory=list)

    def ends(self, direction: str) -> Integers:
        """Nets at the design's ports of a direction, shape (bits,)."""
        found = [nets[nets >= 0] for way, nets in self.ports.values() if way == direction]
        return np.concatenate([np.zeros(0, np.int64), *found])

    def name(self, net: int) -> str:
        """Where a net is and what the source calls it: `execute.station.in_use[3]`, outermost first; empty if nothing names it."""
        for scope, module, local in zip(self.scopes, self.modules, self.maps, strict=True):
            for place in np.flatnonzero(local == net):
                if int(place) in module.net_names:
                    return f"{scope}.{module.net_names[int(place)]}".lstrip(".")
        return ""


#: Of a module: local nets of its leaves' pins by cell, shape (instances, pins), and the module instances in it.
Layout = tuple[dict[str, Integers], list[CellInstance]]


def flatten(
    mapped: Mapped,
    cells: Mapping[str, LibraryCell],
    known: dict[int, tuple[NetlistModule, Layout]] | None = None,
) -> Flat:
    """All instances of a design, module by module.

    Args:
        cells: cells of the library and of the design's memories, by name.
        known: modules and what was found of them before, by their identity, in the same cells and names; gets those of this design.

    Raises BacoError for an instance that is neither a module nor one of `cells`.
    """
    flat = Flat()
    rows: dict[str, list[tuple[Integers, int]]] = {}
    same: list[tuple[int, int]] = []
    known = {} if known is None else known
    for module in mapped.modules.values():
        if id(module) not in known:
            known[id(module)] = module, _layout(module, cells, mapped.modules)
    top = mapped.modules[mapped.top]
    pending: list[tuple[str, str, Integers]] = [(mapped.top, "", np.full(top.nets, OPEN, np.int64))]
    while pending:
        key, scope, local = pending.pop()
        fresh = np.flatnonzero(local == OPEN)
        local[fresh] = flat.nets + np.arange(fresh.size)
        flat.nets += fresh.size
        number = len(flat.scopes)
        flat.scopes.append(scope)
        flat.modules.append(mapped.modules[key])
        flat.maps.append(local)
        leaves, inner = known[id(mapped.modules[key])][1]
        for kind, places in leaves.items():
            rows.setdefault(kind, []).append((_outside(places, local), number))
        for instance in inner:
            bound = _bound(mapped.modules[instance.kind], instance, local, same)
            pending.append((instance.kind, f"{scope}.{instance.name}".lstrip("."), bound))
    merged = _merged(flat.nets, same)
    flat.maps = [_outside(local, merged) for local in flat.maps]
    for port, (direction, nets) in top.ports.items():
        flat.ports[port] = direction, _outside(np.array(nets, np.int64), flat.maps[0])
    for kind, found in rows.items():
        flat.instances[kind] = Instances(
            cells[kind],
            tuple(cells[kind].pins),
            _outside(np.concatenate([nets for nets, _ in found]), merged),
            np.concatenate([np.full(len(nets), scope, np.int64) for nets, scope in found]),
        )
    return flat


def _outside(places: Integers, names: Integers) -> Integers:
    """What nets are called elsewhere; constants stay."""
    return np.where(places < 0, places, names[places]) if names.size else places


def _bound(
    child: NetlistModule, instance: CellInstance, local: Integers, same: list[tuple[int, int]]
) -> Integers:
    """What the nets of a module instance are in the design, `OPEN` where they are its own.

    Two nets at its ports are one where the module joins them: `same` gets them, or a net and the constant that it is.
    """
    bound = np.full(child.nets, OPEN, np.int64)
    for port, outer in instance.nets.items():
        direction, inner = child.ports[port]
        for mine, there in zip(inner, outer, strict=False):
            given = int(local[there]) if there >= 0 else there
            if given == OPEN or mine == OPEN:
                continue
            if mine < 0 or bound[mine] != OPEN:
                known = mine if mine < 0 else int(bound[mine])
                if direction == "output" and known != given:
                    same.append((given, known))
                elif known != given:  # an input behind an output that it feeds
                    same.append((known, given))
                continue
            bound[mine] = given
    return bound


def _merged(nets: int, same: list[tuple[int, int]]) -> Integers:
    """What each net is called, shape (nets,), when some are one, or constants."""
    names = np.arange(nets)

    def name(net: int) -> int:
        while net >= 0 and names[net] != net:
            net = int(names[net])
        return net

    for one, other in same:
        first, second = name(one), name(other)
        if first >= 0 and first != second:
            names[first] = second
        elif second >= 0 and first != second:
            names[second] = first
    for net in np.flatnonzero(names != np.arange(nets)):
        names[net] = name(int(net))
    return names


def _layout(
    module: NetlistModule, cells: Mapping[str, LibraryCell], modules: Mapping[str, NetlistModule]
) -> Layout:
    """Local nets of the leaves' pins by cell, shape (instances, pins), and the module instances."""
    leaves: dict[str, list[list[int]]] = {}
    inner = []
    for instance in module.instances:
        if instance.kind in modules:
            inner.append(instance)
            continue
        cell = cells.get(instance.kind)
        if cell is None:
            raise BacoError(
                f"synthesis left a cell that the library does not have: {instance.kind} in {module.name}"
            )
        bits = dict.fromkeys(cell.pins, OPEN)
        for pin, nets in instance.nets.items():
            if pin in bits:
                bits[pin] = nets[0]
            else:
                bits.update({f"{pin}[{place}]": net for place, net in enumerate(nets)})
        leaves.setdefault(instance.kind, []).append([bits[pin] for pin in cell.pins])
    return {kind: np.array(nets, np.int64) for kind, nets in leaves.items()}, inner
