"""Dataflows: the ways in which an array multiplies, as data.

A dataflow says which tensor stays in the array's registers and which dimensions run along its axes. Mappings, their text,
cost models, searches, proofs and generated code read what they need from here and compare no names: a dataflow is added by
its name in `Dataflow` and its rule in `DATAFLOWS`. Without hardware it serves models and searches; programs and RTL refuse it.

Source of what the two of Gemmini's array do: the instruction set's specification (CONFIG_EX, PRELOAD, COMPUTE).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from pydantic import ConfigDict

from baco.common.errors import InfeasibleError, InputError

#: Names of the dataflows of our array.
Dataflow = Literal["WS", "OS"]
#: What a configuration says: one of them, or both that one array can offer, by command.
DataflowSetting = Literal[Dataflow, "both"]

#: Dimensions that index each tensor of a convolution or product.
RELEVANT = {"W": ("R", "S", "C", "K"), "I": ("R", "S", "P", "Q", "C", "N"), "O": ("P", "Q", "K", "N")}
_ALL = ("R", "S", "P", "Q", "C", "K", "N")


@dataclass(frozen=True)
class DataflowRule:
    """One way to use an array, for the dimensions R, S, P, Q, C, K, N of a convolution or product.

    Attributes:
        name: as mappings and accelerators call it.
        keeps: by level, innermost first, the tensors that stay there, of W, I, O.
        loops: by level, dimensions whose temporal loops may run over what it keeps.
        spread: for every axis of the array, dimensions that may run along it.
        execute: value of CONFIG_EX's field that chooses it; None where the instruction set has none.
        transposes: which of the operands A and B the array can take transposed together.
    """

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
    name: str
    keeps: tuple[str, ...]
    loops: tuple[tuple[str, ...], ...]
    spread: tuple[tuple[str, ...], ...]
    execute: int | None = None
    transposes: tuple[tuple[bool, bool], ...] = ((False, False),)

    @property
    def config_ex(self) -> int:
        """`execute`, for code. Raises InfeasibleError for a dataflow that no command chooses."""
        if self.execute is None:
            known = ", ".join(name for name, rule in DATAFLOWS.items() if rule.execute is not None)
            raise InfeasibleError(
                f"there are no commands for the dataflow {self.name}",
                hint=f"programs, predictions of programs and RTL know {known}; others serve the reference model",
            )
        return self.execute

    @property
    def stationary(self) -> str:
        """The tensor that stays in the registers."""
        return self.keeps[0]

    @property
    def row(self) -> str:
        """The dimension along the array's rows."""
        return self.spread[0][0]

    @cached_property
    def sums_stay(self) -> bool:
        """Whether partial sums stay in the registers, rather than pass through the array into the accumulator."""
        return self.stationary == "O"

    @cached_property
    def row_peers(self) -> tuple[str, ...]:
        """The dimensions that could run along the rows instead: those of the stationary tensor but its columns'."""
        return tuple(name for name in RELEVANT[self.stationary] if name not in (self.row, "K"))


def _countable(rule: DataflowRule) -> DataflowRule:
    """The rule, if models, proofs and searches know how to count it.

    They do where weights or outputs stay, K runs along the columns, and along the rows another dimension of what stays, so
    that every element of the array holds an element of its own: rows add sums up where weights stay, and share what they
    read where outputs do. Raises InputError for any other.
    """
    if (
        rule.stationary not in ("W", "O")
        or rule.spread != ((rule.row,), ("K",))
        or rule.row not in RELEVANT[rule.stationary]
        or rule.row == "K"
        or rule.keeps != (rule.stationary, "O", "WI", "WIO")
        or set(rule.loops[0]) & set(RELEVANT[rule.stationary])
        or rule.loops[1:] != (_ALL, _ALL, _ALL)
    ):
        raise InputError(
            f"dataflow '{rule.name}' is none that models of the array know",
            hint="W or O stays, K along the columns, and along the rows one other dimension of what stays",
        )
    return rule


def stationary(
    name: Dataflow,
    tensor: str,
    row: str,
    *,
    execute: int | None = None,
    transposes: tuple[tuple[bool, bool], ...] = ((False, False),),
) -> DataflowRule:
    """A dataflow of an array whose rows (axis 0) lie inside the accumulator, its columns (axis 1) inside the scratchpad:
    loops over what `tensor` has no dimension of run while it stays."""
    inside = tuple(dim for dim in _ALL if dim not in RELEVANT[tensor])
    return _countable(
        DataflowRule(
            name,
            (tensor, "O", "WI", "WIO"),
            (inside, _ALL, _ALL, _ALL),
            ((row,), ("K",)),
            execute,
            transposes,
        )
    )


_PLAIN, _A, _B, _AB = (False, False), (True, False), (False, True), (True, True)

#: The dataflows of our array by name. Stored searches name them by their place, so new ones go last.
DATAFLOWS: dict[Dataflow, DataflowRule] = {
    "WS": stationary("WS", "W", "C", execute=1, transposes=(_PLAIN, _A, _B)),
    "OS": stationary("OS", "O", "P", execute=0, transposes=(_PLAIN, _A, _AB)),
}
#: Those of them that one array can offer by command, best first.
_BOTH: tuple[Dataflow, ...] = ("WS", "OS")
#: The one that LOOP_WS and LOOP_CONV_WS run.
MACRO_DATAFLOW: Dataflow = "WS"


def offered(setting: DataflowSetting) -> tuple[Dataflow, ...]:
    """Dataflows of a configuration with that setting, first the one that code takes where any will do."""
    return _BOTH if setting == "both" else (setting,)


def setting_of(dataflows: Iterable[Dataflow]) -> DataflowSetting:
    """The setting of a configuration that offers exactly these. Raises InputError if no array does."""
    asked = set(dataflows)
    found: tuple[DataflowSetting, ...] = (*asked, "both")
    for setting in found:
        if set(offered(setting)) == asked:
            return setting
    raise InputError(
        f"no array offers the dataflows {', '.join(sorted(asked))} together",
        hint=f"one of {', '.join(DATAFLOWS)}, or {' and '.join(_BOTH)}",
    )


def dataflow_of(keeps: Sequence[str], row: str | None) -> Dataflow | None:
    """The dataflow whose levels keep these tensors and that has `row` along its rows; the first that keeps them where none
    has or `row` is None, and None where none keeps them."""
    kept = [name for name, rule in DATAFLOWS.items() if rule.keeps == tuple(keeps)]
    return next((name for name in kept if DATAFLOWS[name].row == row), kept[0] if kept else None)


def check_executable(dataflows: Iterable[Dataflow]) -> None:
    """Raise InfeasibleError for a dataflow that no command chooses."""
    for name in dataflows:
        _ = DATAFLOWS[name].config_ex


def executed(dataflows: Sequence[Dataflow]) -> DataflowRule:
    """How code multiplies on an array with these dataflows, where any will do. Raises as `check_executable`."""
    check_executable(dataflows[:1])
    return DATAFLOWS[dataflows[0]]
