"""A whole network on one accelerator: what runs as one unit, and how each unit and each layer is carried out. With the network, all that a program needs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accel.config import Accelerator
from common.errors import InfeasibleError, InputError, Location
from common.files import read_input_text
from compiler.layers.layer import Layer
from compiler.network.lowered import LoweredNetwork
from compiler.network.row_code import RowCode
from compiler.schedules.schedule import Schedule
from compiler.schedules.text import layer_text, parse_layer, parse_schedule, schedule_text
from compiler.styles import check_schedule, workspaces
from compiler.styles.fused.chain import ChainSchedule, ProductChain, place_chain
from compiler.styles.fused.text import chain_text, parse_chain, parse_chain_schedule

__all__ = ["Plan"]

#: Of a plan's JSON.
_FIELDS = {"network", "accelerator", "seed", "schedules", "chains"}


@dataclass(frozen=True)
class Plan:
    """Which schedule every layer and chain of a network's program takes; a `compiler.network.lowered.Scheduler`, whose method
    `chain` is a `compiler.network.chains.ChainScheduler`.

    Equal plans give equal programs, byte for byte.

    Attributes:
        network: as `workloads.inputs.load.load_network` takes it.
        accelerator: that the program is for.
        seed: of parameters that the source of the network does not give, and of the sample that ranges are taken from.
        schedules: texts of schedules by texts of layers (`compiler.schedules.text`).
        chains: likewise of chains that run as one unit (`compiler.styles.fused.text`).
    """

    network: str
    accelerator: Accelerator
    seed: int
    schedules: Mapping[str, str]
    chains: Mapping[str, str]

    @classmethod
    def of(cls, network: str, accelerator: Accelerator, seed: int, lowered: LoweredNetwork) -> Plan:
        """What was decided for a lowered network."""
        codes = lowered.layers.values()
        return cls(
            network,
            accelerator,
            seed,
            {layer_text(one.layer): schedule_text(one.schedule) for one in codes},
            {chain_text(one.chain): str(one.schedule) for one in lowered.chains.values()},
        )

    def __call__(self, layer: Layer) -> tuple[Schedule, tuple[tuple[str, int], ...]]:
        """The schedule of a layer, and its workspaces. Raises InfeasibleError for a layer that the plan does not know or
        cannot carry out as it says."""
        text = self.schedules.get(layer_text(layer))
        if text is None:
            raise InfeasibleError(f"the plan has no schedule for {layer.problem}")
        schedule = parse_schedule(text)
        check_schedule(layer, schedule, self.accelerator)
        return schedule, tuple(workspaces(layer, schedule, self.accelerator))

    def chain(self, chain: ProductChain, between: RowCode | None) -> ChainSchedule | None:
        """The schedule of a chain, None if its operators run one by one. Raises InfeasibleError for one that cannot be carried
        out as the plan says."""
        text = self.chains.get(chain_text(chain))
        if text is None:
            return None
        schedule = parse_chain_schedule(text)
        place_chain(chain, schedule, self.accelerator)
        return schedule

    @classmethod
    def read(cls, path: str | Path) -> Plan:
        """From a file as `text` writes it. Raises InputError naming the file."""
        try:
            return cls.from_json(json.loads(read_input_text(path)))
        except ValueError as error:
            raise InputError(f"this is no plan: {error}", location=Location(str(path))) from None
        except InputError as error:
            raise InputError(
                error.message, location=error.location or Location(str(path)), hint=error.hint
            ) from None

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
            "chains": dict(self.chains),
        }

    @classmethod
    def from_json(cls, data: Any) -> Plan:
        """Inverse of `to_json`. Raises InputError for anything else."""
        if not isinstance(data, dict) or set(data) != _FIELDS:
            raise InputError(f"this is no plan: it has {', '.join(sorted(_FIELDS))}")
        schedules, chains, seed = data["schedules"], data["chains"], data["seed"]
        texts = all(
            isinstance(one, dict) and all(isinstance(text, str) for text in one.values())
            for one in (schedules, chains)
        )
        if not (texts and isinstance(data["network"], str) and type(seed) is int and 0 <= seed < 2**32):
            raise InputError(
                "this is no plan: schedules are texts by layer and by chain, and the seed is a whole number"
            )
        for layer, schedule in schedules.items():
            parse_layer(layer)
            parse_schedule(schedule)
        for chain, schedule in chains.items():
            parse_chain(chain)
            parse_chain_schedule(schedule)
        if not isinstance(data["accelerator"], dict):
            raise InputError("this is no plan: its accelerator is no configuration")
        return cls(data["network"], Accelerator(**data["accelerator"]), seed, dict(schedules), dict(chains))
