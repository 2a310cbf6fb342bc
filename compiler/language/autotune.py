"""`@baco.autotune`: the compile-time constants of a kernel are chosen from a list, by the cost of each choice.

Names and meanings are Triton's where there is something of the kind: `configs`, `key`, `prune_configs_by`, `do_bench`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from baco.common.cache import Cache
from baco.common.errors import InfeasibleError, did_you_mean
from baco.common.provenance import stable_hash
from baco.compiler.language.jit import BoundLaunch, Kernel, run, using
from baco.compiler.language.source import KernelError


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


#: Configurations worth a look, of all and the other arguments by name.
Prune = Callable[[list[Config], dict[str, Any]], Sequence[Config]]
#: The cost of a candidate: less is better. `InfeasibleError` means that it cannot be built.
Cost = Callable[[ConfiguredLaunch], float]


def default_cost(candidate: ConfiguredLaunch) -> float:
    """Predicted cycles on the launch's accelerator (`baco.compiler.language.cost`).

    Raises:
        InfeasibleError: the blocks exceed its memories.
    """
    from baco.compiler.language.cost import predicted_cycles

    return predicted_cycles(candidate.launch, candidate.launch.options.machine())


def do_bench(function: Callable[[], Any]) -> int:
    """Cycles of a launch in RTL: `baco.do_bench(lambda: kernel[grid](a, b, c, ...))`.

    The function is called once, since cycles are the same every time; its launches run on the engine `rtl` unless their
    options name another one.

    Raises:
        KernelError: the function does not return what a launch measured.
    """
    with using(engine="rtl"):
        cycles = getattr(function(), "cycles", None)
    if not isinstance(cycles, int):
        raise KernelError(
            "do_bench takes a function that launches a kernel in RTL, and returns what the launch returns",
            hint="baco.do_bench(lambda: kernel[grid](a, b, c))",
        )
    return cycles


def _measured_cycles(launch: BoundLaunch) -> int:
    """Cycles of a launch in RTL; its arrays are afterwards as they were. Kept in the cache: equal programs on equal hardware
    are simulated once."""
    from baco.accel.verilog.generate import verilog
    from baco.compiler.language.compile import compile_launch

    machine = launch.options.machine()
    text = compile_launch(launch, machine).elf.hex() + verilog(machine)
    key = stable_hash({"program": text, "timing": machine.timing})

    def simulate(folder: Path) -> None:
        before = [buffer.memory.copy() for buffer in launch.buffers]
        try:
            options = replace(launch.options, engine="rtl")
            cycles = do_bench(lambda: run(replace(launch, options=options)))
        finally:
            for buffer, content in zip(launch.buffers, before, strict=True):
                if buffer.writeable:
                    buffer.memory[:] = content
        (folder / "cycles.json").write_text(json.dumps(cycles), encoding="utf-8")

    found: int = json.loads((Cache().entry(f"autotune-{key}", simulate) / "cycles.json").read_text("utf-8"))
    return found


class AutotunedKernel(Kernel):
    """A kernel that chooses some of its constants itself, once for each combination of key arguments and accelerator.

    Attributes:
        configs: the choices.
        key: names of the arguments on which the best choice depends.
        cost: what is minimised.
        prune: looks through the configurations before they are costed, see `autotune`.
        top_k: how many of least cost are measured; 0: none.
    """

    def __init__(
        self,
        kernel: Kernel,
        configs: Sequence[Config],
        key: Sequence[str],
        cost: Cost,
        prune: Prune | None = None,
        top_k: int = 0,
    ) -> None:
        super().__init__(kernel.function)
        self.prune, self.top_k = prune, top_k
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

    def pruned(self, launch: Callable[..., BoundLaunch]) -> Sequence[Config]:
        """The configurations worth a look; `launch` gives the launch with the constants of one."""
        if self.prune is None:
            return self.configs
        first = launch(**self.configs[0].constants)
        given = {
            name: value
            for name, value in {**first.arrays, **first.constants}.items()
            if name not in self.configs[0].constants
        }
        left = list(self.prune(list(self.configs), given))
        if not left or any(one not in self.configs for one in left):
            raise self._error("early_config_prune gives some of the configurations it is given")
        return left

    def _best(self, launch: Callable[..., BoundLaunch]) -> Config:
        costs: list[tuple[float, int]] = []
        failures: list[str] = []
        configs = self.pruned(launch)
        for index, config in enumerate(configs):
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
        if self.top_k:
            nearest = [index for _, index in sorted(costs)[: self.top_k]]
            costs = [(_measured_cycles(launch(**configs[index].constants)), index) for index in nearest]
        return configs[min(costs)[1]]


def autotune(
    configs: Sequence[Config],
    key: Sequence[str] = (),
    cost: Cost = default_cost,
    prune_configs_by: Mapping[str, Any] | None = None,
) -> Callable[[Kernel], AutotunedKernel]:
    """Decorator above `@baco.jit`: the launch need not give what the configurations set.

    Args:
        configs: choices of compile-time constants; all set the same ones.
        key: names of arguments; the choice is made anew for each combination of their values.
        cost: function of a `ConfiguredLaunch`; the configuration of least cost is taken, the first one of equal costs. By
            default predicted cycles on the launch's accelerator, by the analyses that networks are predicted with.
        prune_configs_by: `{"early_config_prune": f, "perf_model": cost, "top_k": k}`, each of them as needed: f is given the
            configurations and a dict of the other arguments, and returns those worth a look; `perf_model` is another name of
            `cost`; the k of least cost are simulated in RTL (see `do_bench`), and the fastest is taken. What was simulated
            is kept in baco's cache.

    Raises:
        KernelError: a configuration or key does not fit the kernel.
    """
    pruning = dict(prune_configs_by or {})
    prune, model, top_k = (pruning.pop(name, None) for name in ("early_config_prune", "perf_model", "top_k"))
    if pruning:
        name = next(iter(pruning))
        known = ("early_config_prune", "perf_model", "top_k")
        raise KernelError(f"autotune prunes by no '{name}'", hint=did_you_mean(name, known))
    if not isinstance(top_k, int | None) or isinstance(top_k, bool) or (top_k is not None and top_k < 1):
        raise KernelError(f"top_k is a number of configurations, at least 1, not {top_k!r}")

    def decorate(kernel: Kernel) -> AutotunedKernel:
        if not isinstance(kernel, Kernel):
            raise KernelError("@baco.autotune stands above @baco.jit")
        return AutotunedKernel(kernel, configs, key, cost if model is None else model, prune, top_k or 0)

    return decorate
