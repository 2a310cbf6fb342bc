"""What every layer of a network takes on units of several kinds, over batch sizes and clocks: DNNTune's table of devices, predicted.

A layer is a group (`baco.exploration.systems.unit_profile`): what no unit with the same elements takes apart. Units with elements of floating
point run a network of their own, whose groups can be others.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from baco.accel.config import Accelerator
from baco.accel.system import MOST_ACCELERATORS, System
from baco.common.errors import InputError
from baco.compiler.layers.wide_sums import array_sums
from baco.compiler.network.quantise import sketch
from baco.compiler.network.quantiser import DEFAULT
from baco.exploration.systems.unit_profile import profile, static_pj_per_ns
from baco.workloads.inputs.load import load_network

#: Of a unit's elements where these are whole numbers.
INTEGERS = "int8"


class LayerOnUnit(NamedTuple):
    """What a layer takes on a unit.

    Attributes:
        batch: images at a time; None: as the network is.
        unit: its name; elements: their format.
        number: of the layer among those of units with these elements, in order.
        operators: how many it is of.
        us: of the whole batch; None where the unit cannot compute it.
        energy_uj: with what the accelerator takes meanwhile for being there.
        memory_us: of these, what the channel of memory alone would take.
    """

    batch: int | None
    clock_mhz: float
    unit: str
    elements: str
    number: int
    layer: str
    operators: int
    us: float | None
    energy_uj: float | None
    memory_us: float | None


class NetworkOnUnit(NamedTuple):
    """The same of the whole network by the unit's own program: layers one after the other. None where it cannot compute all."""

    batch: int | None
    clock_mhz: float
    unit: str
    elements: str
    ms: float | None
    energy_uj: float | None

    @property
    def images(self) -> int:
        """At a time."""
        return self.batch or 1


def with_batch(network: str, batch: int | None) -> str:
    """The network's name with a batch size, as options have it."""
    if batch is None:
        return network
    return f"{network}{',' if ':' in network else ':'}batch={batch}"


def layer_profile(
    network: str,
    units: Sequence[tuple[str, Accelerator | None]],
    batches: Sequence[int | None] = (None,),
    clocks: Sequence[float] = (),
    layers: int | None = None,
) -> Iterator[LayerOnUnit]:
    """Of every batch size, clock and unit, in this order.

    Args:
        network: name or file.
        units: by name; None: a core without an accelerator, with the clock of the first one.
        clocks: MHz that all units have, main memory's GB/s as they are; by default each its own.
        layers: run repeated blocks only so many times.

    Raises InputError for what is not known, and where more than four units have the same elements; InfeasibleError for a network that an
    accelerator's programs cannot compute.
    """
    first = next((machine for _, machine in units if machine is not None), None)
    if first is None:
        raise InputError("a core alone has the clock of an accelerator", hint="name an accelerator, too")
    for batch in batches:
        source = load_network(with_batch(network, batch))
        for clock in clocks or (None,):
            at = [
                (
                    name,
                    machine if machine is None or clock is None else machine.with_setting("clock_mhz", clock),
                )
                for name, machine in units
            ]
            for same in _by_elements(at):
                machines = [machine for _, machine in same if machine is not None]
                if len(machines) > MOST_ACCELERATORS:
                    raise InputError(
                        f"at most {MOST_ACCELERATORS} units with the same elements are shown side by side"
                    )
                own = profile(sketch(source, layers, DEFAULT.on(machines[0])), System.of(same))
                elements = form.form if (form := array_sums(machines[0])) else INTEGERS
                for column, (name, machine) in enumerate(
                    zip(own.graph.units, (one for _, one in same), strict=True)
                ):
                    static = 0.0 if machine is None else static_pj_per_ns(System.single(machine))
                    for number, group in enumerate(own.graph.names):
                        ns = float(own.graph.times[number, column])
                        able = ns < math.inf
                        pj = float(own.graph.energies[number, column]) + static * ns if able else 0.0
                        yield LayerOnUnit(
                            batch,
                            (machine or machines[0]).clock_mhz,
                            name,
                            elements,
                            number,
                            group,
                            len(own.operators[number]),
                            ns * 1e-3 if able else None,
                            pj * 1e-6 if able else None,
                            float(own.graph.shared[0, number, column]) * 1e-3 if able else None,
                        )


def _by_elements(
    units: Iterable[tuple[str, Accelerator | None]],
) -> Iterator[list[tuple[str, Accelerator | None]]]:
    """Units with the same elements; cores without an accelerator are beside the first ones."""
    rows = list(units)
    forms = [None if machine is None else array_sums(machine) for _, machine in rows]
    kinds = list(
        dict.fromkeys(form for (_, machine), form in zip(rows, forms, strict=True) if machine is not None)
    )
    for kind in kinds:
        yield [
            row
            for row, form in zip(rows, forms, strict=True)
            if (row[1] is None and kind == kinds[0]) or (row[1] is not None and form == kind)
        ]


def network_totals(rows: Iterable[LayerOnUnit]) -> list[NetworkOnUnit]:
    """Of every batch size, clock and unit."""
    sums: dict[tuple[int | None, float, str, str], list[LayerOnUnit]] = {}
    for row in rows:
        sums.setdefault((row.batch, row.clock_mhz, row.unit, row.elements), []).append(row)
    return [
        NetworkOnUnit(
            *key,
            None if any(row.us is None for row in own) else math.fsum(row.us or 0.0 for row in own) * 1e-3,
            None if any(row.us is None for row in own) else math.fsum(row.energy_uj or 0.0 for row in own),
        )
        for key, own in sums.items()
    ]
