"""`@baco.autotune`: the compile-time constants of a kernel are chosen from a list, by the cost of each choice."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from common.errors import InfeasibleError
from compiler.codegen.block_program import lower_block_program
from compiler.language.estimate import estimated_commands
from compiler.language.jit import BoundLaunch, Kernel
from compiler.language.source import KernelError


@dataclass(frozen=True)
class Config:
    """One choice of compile-time constants: `baco.Config({"BLOCK": 32})`."""

    constants: Mapping[str, int | float | bool | str]

    def __post_init__(self) -> None:
        if not isinstance(self.constants, Mapping) or not all(
            isinstance(name, str) for name in self.constants
        ):
            raise KernelError(
                f"a Config takes a dict of constants, got {self.constants!r}",
                hint='baco.Config({"BLOCK": 32})',
            )

    def __str__(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.constants.items())


@dataclass(frozen=True)
class ConfiguredLaunch:
    """What a cost function judges.

    Attributes:
        config: the choice.
        launch: the launch with this choice.
    """

    config: Config
    launch: BoundLaunch
    _cache: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def module(self) -> ModuleOp:
        """The block program."""
        if "module" not in self._cache:
            self._cache["module"] = self.launch.module()
        module: ModuleOp = self._cache["module"]
        return module

    @property
    def arrays(self) -> Mapping[str, Any]:
        """Parameter -> numpy array, sharing the user's memory: a cost function must not change them."""
        return self.launch.arrays


#: The cost of a candidate: less is better. `InfeasibleError` means that it cannot be built.
Cost = Callable[[ConfiguredLaunch], float]


def default_cost(candidate: ConfiguredLaunch) -> float:
    """The estimated number of accelerator commands (see `estimate`) of a program that the accelerator can run.

    Raises:
        InfeasibleError: the blocks exceed its memories.
    """
    machine = candidate.launch.options.machine()
    if candidate.launch.options.engine != "interpret":
        lower_block_program(candidate.launch.module(), machine)
    return estimated_commands(candidate.module, machine.dim)


class AutotunedKernel(Kernel):
    """A kernel that chooses some of its constants itself, once for each combination of key arguments and accelerator.

    Attributes:
        configs: the choices.
        key: names of the arguments on which the best choice depends.
        cost: what is minimised.
    """

    def __init__(self, kernel: Kernel, configs: Sequence[Config], key: Sequence[str], cost: Cost) -> None:
        super().__init__(kernel.function)
        self.configs = tuple(configs)
        self.key = tuple(key)
        self.cost = cost
        self._chosen: dict[object, Config] = {}
        self._check()

    def _check(self) -> None:
        compile_time = {parameter.name for parameter in self.parameters if parameter.compile_time}
        names = {parameter.name for parameter in self.parameters}
        if not self.configs:
            raise self._error("autotune needs at least one Config")
        for config in self.configs:
            if not isinstance(config, Config):
                raise self._error(f"autotune takes a list of Config, got {config!r}")
            for name in config.constants:
                if name not in compile_time:
                    raise self._error(
                        f"the configuration ({config}) sets `{name}`, which is no compile-time constant",
                        f"mark it in the kernel: {name}: baco.const",
                    )
            if config.constants.keys() != self.configs[0].constants.keys():
                raise self._error("the configurations set different constants")
        for name in self.key:
            if name not in names or name in self.configs[0].constants:
                raise self._error(f"the key `{name}` is no argument of the launch")
        if not callable(self.cost):
            raise self._error(f"the cost must be a function of a candidate, got {self.cost!r}")

    def configured(self, launch: Callable[..., BoundLaunch]) -> BoundLaunch:
        """The launch with the best choice for its key."""
        first = launch(**self.configs[0].constants)
        values = tuple(self._key_part(first, name) for name in self.key)
        key = (values, first.options.machine().config_hash)
        if key not in self._chosen:
            self._chosen[key] = self._best(launch)
        return launch(**self._chosen[key].constants)

    def _key_part(self, launch: BoundLaunch, name: str) -> object:
        if name in launch.arrays:
            array = launch.arrays[name]
            return array.dtype.name, array.shape, array.strides
        return launch.constants[name]

    def _best(self, launch: Callable[..., BoundLaunch]) -> Config:
        costs: list[tuple[float, int]] = []
        failures: list[str] = []
        for index, config in enumerate(self.configs):
            try:
                cost = float(self.cost(ConfiguredLaunch(config, launch(**config.constants))))
            except InfeasibleError as error:
                failures.append(f"{config}: {error.message}")
                continue
            if cost != cost:
                raise self._error(f"the cost of ({config}) is no number")
            costs.append((cost, index))
        if not costs:
            raise InfeasibleError(
                f"none of the configurations of kernel `{self.name}` can be built:",
                hint="add smaller blocks",
                details=failures,
            )
        return self.configs[min(costs)[1]]


def autotune(
    configs: Sequence[Config], key: Sequence[str] = (), cost: Cost = default_cost
) -> Callable[[Kernel], AutotunedKernel]:
    """Decorator above `@baco.jit`: the launch need not give what the configurations set.

    Args:
        configs: choices of compile-time constants; all set the same ones.
        key: names of arguments; the choice is made anew for each combination of their values.
        cost: function of a `ConfiguredLaunch`; the configuration of least cost is taken, the first one of equal costs.

    Raises:
        KernelError: a configuration or key does not fit the kernel.
    """

    def decorate(kernel: Kernel) -> AutotunedKernel:
        if not isinstance(kernel, Kernel):
            raise KernelError("@baco.autotune stands above @baco.jit")
        return AutotunedKernel(kernel, configs, key, cost)

    return decorate
