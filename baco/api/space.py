"""`baco.Space`: a design space to look at, to change, and to search."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from baco.api.argument_types import checked
from baco.common.shown import Shown
from baco.exploration.space import DesignSpace, load_space, space_of

if TYPE_CHECKING:
    import pandas as pd

    from baco.accel.config import Accelerator


class Space(Shown):
    """The accelerators that a search may choose from, and the constraints on designs. Spaces do not change: `replace` gives another.

    `Space(dim=[8, 16], constraints={"area_mm2": 2})` is `gemmini` but for what is said, by the keys of a space file
    (docs/formats.md): `name`, `rules`, `base`, `fixed`, `dim`, `scratchpad_kib`, `accumulator_kib`, `dataflows`, `units`, `input_formats`, `settings`,
    `double_buffer`, `constraints`, `networks`. Choices are lists, or ranges such as `{"min": 4, "max": 64, "powers_of": 2}`, or
    Python's `range`.

    Raises InputError for a key or value that does not exist, InfeasibleError where no accelerator is legal.

    Attributes:
        design: as searches take it.
    """

    design: DesignSpace

    def __init__(self, **values: Any) -> None:
        self.design = space_of(_listed(values))

    @classmethod
    def of(cls, design: DesignSpace) -> Space:
        """The space that searches know as `design`."""
        made = cls.__new__(cls)
        made.design = design
        return made

    @classmethod
    @checked()
    def load(cls, source: str | Path = "gemmini") -> Space:
        """A space that comes with baco (`gemmini`, `reference`), or one from a YAML file. Raises as `baco.Space` does."""
        return cls.of(load_space(source))

    def replace(self, **values: Any) -> Space:
        """The space with other values of some keys of its file; a dict of `constraints`, `fixed` or `settings` changes what it names
        and leaves the rest, where None takes a bound or setting away. Its name is `custom` unless one is given.

        Raises as `baco.Space` does.
        """
        from baco.common.yaml import parse_yaml

        own = dict(parse_yaml(self.to_yaml(), self.name).data)
        for key in ("constraints", "fixed", "settings"):
            if isinstance(values.get(key), Mapping):
                merged = {**own.get(key, {}), **values[key]}
                values[key] = {name: value for name, value in merged.items() if value is not None}
        if not values.keys() <= {"name", "constraints"}:
            own["name"] = "custom"
        return self.of(space_of(_listed(values), like=own))

    def to_yaml(self) -> str:
        """A file that `load` reads back as an equal space."""
        return self.design.to_yaml()

    @checked()
    def save(self, path: str | Path) -> Path:
        """Write the file. Raises StorageError when that fails."""
        from baco.common.files import atomic_write

        atomic_write(Path(path), self.to_yaml())
        return Path(path)

    # ------------------------------------------------------------------ what is in it

    @property
    def name(self) -> str:
        """What reports call it."""
        return self.design.name

    @property
    def dim(self) -> tuple[int, ...]:
        """Array sides, ascending."""
        return self.design.dim

    @property
    def scratchpad_kib(self) -> tuple[int, ...]:
        """Capacities, ascending; which pairs with sides are legal, `accelerators` says."""
        return self.design.scratchpad_kib

    @property
    def accumulator_kib(self) -> tuple[int, ...]:
        """Likewise."""
        return self.design.accumulator_kib

    @property
    def dataflows(self) -> tuple[str, ...]:
        """Stationary operands that mappings may have."""
        return self.design.dataflows

    @property
    def settings(self) -> dict[str, tuple[int, ...]]:
        """What is searched besides, by name."""
        return dict(self.design.settings)

    @property
    def constraints(self) -> dict[str, Any]:
        """Upper bounds that are set, by name."""
        found = self.design.constraints.model_dump(exclude_none=True)
        return {name: bound for name, bound in found.items() if bound != {}}

    @property
    def base(self) -> Accelerator:
        """Gives the values of what is not searched."""
        return self.design.base

    def accelerators(self) -> pd.DataFrame:
        """All legal accelerators within the bounds on area and SRAM, a row each: `dim`, `accumulator_kib`, `scratchpad_kib`, `row_functions`,
        `area_mm2`. Raises InputError where there are too many to list."""
        import pandas as pd

        points = self.design.hardware()
        return pd.DataFrame(
            {
                "dim": points.dim,
                "accumulator_kib": points.accumulator_kib,
                "scratchpad_kib": points.scratchpad_kib,
                "row_functions": points.units,
                "area_mm2": points.area_mm2,
            }
        )

    def __len__(self) -> int:
        return len(self.design.hardware())

    @checked()
    def accelerator(
        self, dim: int, accumulator_kib: int, scratchpad_kib: int, *, row_functions: bool | None = None
    ) -> Accelerator:
        """One accelerator of the space. Raises InputError for one that is not in it."""
        from baco.common.errors import InputError

        if not self.design.allowed(
            dim, accumulator_kib, scratchpad_kib, row_functions or self.design.units[0]
        ):
            raise InputError(
                f"the space '{self.name}' has no accelerator of side {dim} with {accumulator_kib} and {scratchpad_kib} KiB",
                hint="accelerators() lists those that it has",
            )
        return self.design.accelerator(dim, accumulator_kib, scratchpad_kib, row_functions)

    def __contains__(self, accelerator: object) -> bool:
        from baco.accel.config import Accelerator

        if not isinstance(accelerator, Accelerator):
            return False
        sizes = accelerator.dim, accelerator.accumulator_kib, accelerator.scratchpad_kib
        if not self.design.allowed(*sizes, accelerator.features.row_functions):
            return False
        there = self.design.at(self.design.choice_of(accelerator))
        own = there.accelerator(*sizes, accelerator.features.row_functions)
        return own.config_hash == accelerator.config_hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Space) and self.design.space_hash == other.design.space_hash

    def __hash__(self) -> int:
        return hash(self.design.space_hash)

    def _headline(self) -> str:
        return self.design._headline()

    def _facts(self) -> Iterator[tuple[str, object]]:
        return self.design._facts()


def _listed(values: Mapping[str, Any]) -> dict[str, Any]:
    """Single choices as lists of one."""
    keys = ("dim", "scratchpad_kib", "accumulator_kib", "dataflows", "units")
    return {key: [one] if key in keys and isinstance(one, (int, str)) else one for key, one in values.items()}


def design_space(source: str | Path | Mapping[str, Any] | DesignSpace | Space) -> DesignSpace:
    """The space that anything stands for that functions of the interface take for one. Raises as `baco.Space` does."""
    if isinstance(source, Space):
        return source.design
    if isinstance(source, DesignSpace):
        return source
    return space_of(source) if isinstance(source, Mapping) else load_space(source)
