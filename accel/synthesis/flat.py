"""A mapped design without its hierarchy, as arrays: which nets the pins of all instances of each cell are on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from baco.accel.synthesis.liberty import LibraryCell
from baco.accel.synthesis.mapping import CellInstance, Mapped, NetlistModule
from baco.common.errors import BacoError

__all__ = ["Flat", "Instances", "flatten"]

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Instances:
    """All instances of one cell.

    Attributes:
        cell: what they are.
        pins: its pins, in the order of the columns of `nets`.
        nets: shape (instances, pins); -1 where a pin is constant or open.
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
        inputs, outputs: nets at the design's ports, shape (bits,).
        maps: by module instance, what each net of its module is here, shape (nets of the module,).
    """

    nets: int = 0
    instances: dict[str, Instances] = field(default_factory=dict)
    scopes: list[str] = field(default_factory=list)
    modules: list[NetlistModule] = field(default_factory=list)
    inputs: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    outputs: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    maps: list[Integers] = field(default_factory=list)

    def name(self, net: int) -> str:
        """Where a net is and what the source calls it: `execute.station.in_use[3]`, outermost first; empty if nothing names it."""
        for scope, module, local in zip(self.scopes, self.modules, self.maps, strict=True):
            for place in np.flatnonzero(local == net):
                if int(place) in module.net_names:
                    return f"{scope}.{module.net_names[int(place)]}".lstrip(".")
        return ""


def flatten(mapped: Mapped, cells: Mapping[str, LibraryCell]) -> Flat:
    """All instances of a design, module by module.

    Args:
        cells: cells of the library and of the design's memories, by name.

    Raises BacoError for an instance that is neither a module nor one of `cells`.
    """
    flat = Flat()
    rows: dict[str, list[tuple[Integers, int]]] = {}
    layouts = {name: _layout(module, cells, mapped.modules) for name, module in mapped.modules.items()}
    top = mapped.modules[mapped.top]
    pending: list[tuple[str, str, Integers]] = [(mapped.top, "", np.full(top.nets, -1, np.int64))]
    while pending:
        key, scope, local = pending.pop()
        module = mapped.modules[key]
        fresh = np.flatnonzero(local < 0)
        local[fresh] = flat.nets + np.arange(fresh.size)
        flat.nets += fresh.size
        number = len(flat.scopes)
        flat.scopes.append(scope)
        flat.modules.append(module)
        flat.maps.append(local)
        leaves, inner = layouts[key]
        for kind, places in leaves.items():
            rows.setdefault(kind, []).append((np.where(places < 0, -1, local[places]), number))
        for instance in inner:
            child = mapped.modules[instance.kind]
            bound = np.full(child.nets, -1, np.int64)
            for port, nets in instance.nets.items():
                mine = np.array(child.ports[port][1], np.int64)
                given = np.array(nets, np.int64)[: mine.size]
                joined = (mine[: given.size] >= 0) & (given >= 0)
                bound[mine[: given.size][joined]] = local[given[joined]]
            pending.append((instance.kind, f"{scope}.{instance.name}".lstrip("."), bound))
        if key == mapped.top:
            ends: dict[str, list[int]] = {"input": [], "output": []}
            for direction, nets in module.ports.values():
                ends.setdefault(direction, []).extend(int(local[net]) for net in nets if net >= 0)
            flat.inputs, flat.outputs = np.array(ends["input"], np.int64), np.array(ends["output"], np.int64)
    for kind, found in rows.items():
        flat.instances[kind] = Instances(
            cells[kind],
            tuple(cells[kind].pins),
            np.concatenate([nets for nets, _ in found]),
            np.concatenate([np.full(len(nets), scope, np.int64) for nets, scope in found]),
        )
    return flat


def _layout(
    module: NetlistModule, cells: Mapping[str, LibraryCell], modules: Mapping[str, NetlistModule]
) -> tuple[dict[str, Integers], list[CellInstance]]:
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
        bits = dict.fromkeys(cell.pins, -1)
        for pin, nets in instance.nets.items():
            if pin in bits:
                bits[pin] = nets[0]
            else:
                bits.update({f"{pin}[{place}]": net for place, net in enumerate(nets)})
        leaves.setdefault(instance.kind, []).append([bits[pin] for pin in cell.pins])
    return {kind: np.array(nets, np.int64) for kind, nets in leaves.items()}, inner
