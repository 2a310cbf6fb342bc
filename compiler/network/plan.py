"""A whole network on one accelerator: what runs as one unit, and how each unit and each layer is carried out. With the network, all that a program needs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from baco.accel.config import Accelerator
from baco.common.errors import InfeasibleError, InputError, Location
from baco.common.files import read_input_text
from baco.compiler.layers.layer import Layer
from baco.compiler.layers.text import layer_text, parse_layer
from baco.compiler.network.groups import Group, GroupCode, GroupSchedule, GroupStyle, group_rows
from baco.compiler.network.lowered import LoweredNetwork
from baco.compiler.network.quantiser import DEFAULT, Quantiser
from baco.compiler.network.row_code import RowCode
from baco.compiler.schedules.schedule import Schedule
from baco.compiler.styles.fused.text import parse_group_schedule
from baco.compiler.styles.registry import parse_schedule, plan_layer
from baco.workloads.inputs.samples import SampleFile

#: Of a plan's JSON.
_FIELDS = {"network", "accelerator", "seed", "schedules", "groups", "data", "quantiser"}
#: Between the names of a group's operators.
_NEXT = " > "


@dataclass(frozen=True)
class Plan:
    """What runs as one unit in a network's program, and which schedule every layer and unit takes; a
    `baco.compiler.network.lowered.Scheduler`, whose method `group` is a `baco.compiler.network.groups.GroupScheduler`.

    Equal plans give equal programs, byte for byte.

    Attributes:
        network: as `baco.workloads.inputs.load.load_network` takes it.
        accelerator: that the program is for.
        seed: of parameters that the source of the network does not give, and of the sample that ranges are taken from.
        schedules: texts of schedules by texts of layers (`Schedule.text`, `baco.compiler.layers.text`).
        groups: likewise of operators that run as one unit (`baco.compiler.styles.fused.text`), by their names with ` > ` between.
        data: samples that ranges are taken from, the first of which is what the program's inputs hold; None for random ones.
        quantiser: how scales are chosen.
    """

    network: str
    accelerator: Accelerator
    seed: int
    schedules: Mapping[str, str]
    groups: Mapping[str, str]
    data: SampleFile | None = None
    quantiser: Quantiser = DEFAULT

    @classmethod
    def of(
        cls,
        network: str,
        accelerator: Accelerator,
        seed: int,
        lowered: LoweredNetwork,
        data: SampleFile | None = None,
        quantiser: Quantiser = DEFAULT,
    ) -> Plan:
        """What was decided for a lowered network."""
        codes = lowered.layers.values()
        return cls(
            network,
            accelerator,
            seed,
            {layer_text(one.layer): one.schedule.text for one in codes},
            {_NEXT.join(names): str(lowered.groups[name].schedule) for names, name in lowered.units.items()},
            data,
            quantiser,
        )

    def __call__(self, layer: Layer) -> tuple[Schedule, tuple[tuple[str, int], ...]]:
        """The schedule of a layer, and its workspaces. Raises InfeasibleError for a layer that the plan does not know or
        cannot carry out as it says."""
        text = self.schedules.get(layer_text(layer))
        if text is None:
            raise InfeasibleError(f"the plan has no schedule for {layer.problem}")
        schedule = parse_schedule(text)
        return schedule, plan_layer(layer, schedule, self.accelerator).workspaces

    def group(
        self, names: tuple[str, ...], group: Group, between: RowCode | None
    ) -> tuple[GroupSchedule, float] | None:
        """The schedule of a group, None if its operators run one by one. Raises InfeasibleError for one that cannot be carried
        out as the plan says."""
        text = self.groups.get(_NEXT.join(names))
        if text is None:
            return None
        schedule = parse_group_schedule(text)
        if not isinstance(schedule, GroupStyle.of(group).schedule):
            raise InfeasibleError(f"the plan has '{text}' for {group}")
        group_rows(GroupCode(group, schedule), self.accelerator)
        return schedule, 1.0

    @classmethod
    def read(cls, path: str | Path) -> Plan:
        """From a file as `text` writes it: a path of samples is relative to the file. Raises InputError naming the file."""
        try:
            found = cls.from_json(json.loads(read_input_text(path)))
        except ValueError as error:
            raise InputError(f"this is no plan: {error}", location=Location(str(path))) from None
        except InputError as error:
            raise InputError(
                error.message, location=error.location or Location(str(path)), hint=error.hint
            ) from None
        return replace(found, data=found.data and found.data.inside(Path(path).parent))

    @property
    def identity(self) -> dict[str, Any]:
        """Plain values, equal for plans of equal programs: wherever their samples lie."""
        return {**self.to_json(), "data": self.data and self.data.digest}

    @property
    def text(self) -> str:
        """As a file."""
        return json.dumps(self.to_json(), indent=1) + "\n"

    def to_json(self) -> dict[str, Any]:
        """Plain values; `from_json` is the way back."""
        return {
            "network": self.network,
            "accelerator": self.accelerator.model_dump(mode="json"),
            "seed": self.seed,
            "schedules": dict(self.schedules),
            "groups": dict(self.groups),
            "data": None if self.data is None else asdict(self.data),
            "quantiser": self.quantiser.to_json(),
        }

    @classmethod
    def from_json(cls, data: Any) -> Plan:
        """Inverse of `to_json`. Raises InputError for anything else."""
        if not isinstance(data, dict) or set(data) != _FIELDS:
            raise InputError(f"this is no plan: it has {', '.join(sorted(_FIELDS))}")
        schedules, groups, seed = data["schedules"], data["groups"], data["seed"]
        texts = all(
            isinstance(one, dict) and all(isinstance(text, str) for text in one.values())
            for one in (schedules, groups)
        )
        if not (texts and isinstance(data["network"], str) and type(seed) is int and 0 <= seed < 2**32):
            raise InputError(
                "this is no plan: schedules are texts by layer and by group, and the seed is a whole number"
            )
        for layer, schedule in schedules.items():
            parse_layer(layer)
            parse_schedule(schedule)
        for schedule in groups.values():
            parse_group_schedule(schedule)
        if not isinstance(data["accelerator"], dict):
            raise InputError("this is no plan: its accelerator is no configuration")
        machine = Accelerator(**data["accelerator"])
        return cls(
            data["network"],
            machine,
            seed,
            dict(schedules),
            dict(groups),
            _sample_file(data["data"]),
            _quantiser(data["quantiser"]),
        )


def _quantiser(data: Any) -> Quantiser:
    """Of a plan's JSON. Raises InputError for anything else."""
    try:
        return Quantiser(**data)
    except TypeError as error:
        raise InputError(f"this is no plan: its quantiser: {error}") from None


def _sample_file(data: Any) -> SampleFile | None:
    """Of a plan's JSON. Raises InputError for anything else."""
    if data is None:
        return None
    if not (
        isinstance(data, dict)
        and set(data) == {"path", "digest"}
        and all(isinstance(one, str) for one in data.values())
    ):
        raise InputError("this is no plan: its samples are a file with a digest")
    return SampleFile(**data)
