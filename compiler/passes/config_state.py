"""What accelerator commands do to the configuration, for passes that remove and move configuration commands.

The configuration is a set of registers: those of the execute unit, of the store unit and of the three load states, one
a field (instruction set, 4.1 to 4.3). A configuration command writes some of them, a macro may leave others behind
(LOOP_CONV_WS, section 8), and calls may do anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from xdsl.dialects import arith, func, llvm
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation, Region, SSAValue

from baco.accel.isa import COMMANDS, KEEP_SCALE
from baco.compiler.dialects.instgem import OPERATIONS, CommandOp

#: Unit (ex, st, ld0, ld1, ld2) and name of the field.
Register: TypeAlias = tuple[str, str]
#: A known number, or the value that holds it.
Value: TypeAlias = "int | SSAValue"

_EX = (
    "dataflow", "activation", "a_transpose", "b_transpose", "a_stride", "acc_scale", "in_shift", "c_stride",
)  # fmt: skip
_EX_STRIDES = ("a_stride", "c_stride")
_LD = tuple(field.name for field in COMMANDS["CONFIG_LD"].fields if field.name != "state")
_ST = ("activation", "stride", "acc_scale", "pool_size", "pool_stride")
_ST_POOL = ("upad", "lpad", "pool_out_dim", "porows", "pocols", "orows", "ocols")
_UNITS: dict[str, tuple[str, ...]] = {"ex": _EX, "st": _ST + _ST_POOL, "ld0": _LD, "ld1": _LD, "ld2": _LD}
_ALL = frozenset((unit, name) for unit, names in _UNITS.items() for name in names)
_LOADS = frozenset(register for register in _ALL if register[0].startswith("ld"))
_STORE = frozenset(register for register in _ALL if register[0] == "st")

#: Units whose registers each command reads.
_READS: dict[str, tuple[str, ...]] = {
    "MVIN": ("ld0",),
    "MVIN2": ("ld1",),
    "MVIN3": ("ld2",),
    "MVOUT": ("st",),
    "MVOUT_SPAD": ("st",),
    "PRELOAD": ("ex",),
    "COMPUTE_PRELOADED": ("ex",),
    "COMPUTE_ACCUMULATED": ("ex",),
    "LOOP_WS": tuple(_UNITS),
    "LOOP_CONV_WS": ("ex", "st"),
}


@dataclass(frozen=True)
class Effect:
    """What an operation does to the configuration.

    Attributes:
        writes: registers it sets, and to what.
        spoils: registers that hold something unknown afterwards.
        reads: units whose registers it depends on.
        pure: it does nothing but `writes`, so that it may go where they change nothing.
    """

    writes: Mapping[Register, Value] = field(default_factory=dict)
    spoils: frozenset[Register] = frozenset()
    reads: frozenset[str] = frozenset()
    pure: bool = False


_NOTHING = Effect()
_ANYTHING = Effect(spoils=_ALL, reads=frozenset(_UNITS))


def _value(value: Value) -> Value:
    """Constants of the program count as known."""
    if isinstance(value, SSAValue) and isinstance(value.owner, (arith.ConstantOp, llvm.ConstantOp)):
        constant = value.owner.value
        if isinstance(constant, IntegerAttr):
            return constant.value.data & (1 << 64) - 1
    return value


def _registers(unit: str, names: Iterable[str]) -> frozenset[Register]:
    return frozenset((unit, name) for name in names)


def _written(unit: str, names: Iterable[str], fields: Mapping[str, Value]) -> dict[Register, Value]:
    return {(unit, name): fields[name] for name in names}


def _config_ex(fields: Mapping[str, Value]) -> Effect:
    only = fields["set_only_strides"]
    if not isinstance(only, int):
        return Effect(spoils=_registers("ex", _EX))
    return Effect(_written("ex", _EX_STRIDES if only else _EX, fields), pure=True)


def _config_ld(fields: Mapping[str, Value]) -> Effect:
    state = fields["state"]
    if not isinstance(state, int) or f"ld{state}" not in _UNITS:
        return Effect(spoils=_LOADS)
    return Effect(_written(f"ld{state}", _LD, fields), pure=True)


def _config_st(fields: Mapping[str, Value]) -> Effect:
    if not isinstance(fields["pool_stride"], int) or not isinstance(fields["pool_size"], int):
        return Effect(spoils=_STORE)
    # with neither, the pool fields stay as they are; a computed scale may be the one that keeps the old scale, and
    # writing it twice is the same as writing it once
    pools = fields["pool_stride"] or fields["pool_size"]
    names = [*_ST, *(_ST_POOL if pools else ())]
    if fields["acc_scale"] == KEEP_SCALE:
        names.remove("acc_scale")
    return Effect(_written("st", names, fields), pure=True)


def _loop_conv(fields: Mapping[str, Value]) -> Effect:
    spoils = _LOADS
    if fields["no_pool"] != 1:
        spoils |= _STORE
    if fields["trans_input_3120"] != 0:
        spoils |= _registers("ex", _EX_STRIDES)
    return Effect(spoils=spoils, reads=frozenset(_READS["LOOP_CONV_WS"]))


#: Effects of operations whose fields do not matter, the most by far.
_OF_KIND: dict[type[Operation], Effect] = {
    **{one: Effect(reads=frozenset(_READS.get(one.KIND.name, ()))) for one in OPERATIONS.values()},
    OPERATIONS["config_norm"]: Effect(spoils=_STORE),
    **dict.fromkeys((func.CallOp, llvm.CallOp, llvm.InlineAsmOp), _ANYTHING),
}
#: Of the others, by their fields.
_BY_FIELDS: dict[type[Operation], Callable[[Mapping[str, Value]], Effect]] = {
    OPERATIONS["config_ex"]: _config_ex,
    OPERATIONS["config_ld"]: _config_ld,
    OPERATIONS["config_st"]: _config_st,
    OPERATIONS["loop_conv_ws"]: _loop_conv,
}


def effect_of(op: Operation) -> Effect:
    """The effect of one operation, without its regions."""
    by_fields = _BY_FIELDS.get(type(op))
    if by_fields is None:
        return _OF_KIND.get(type(op), _NOTHING)
    assert isinstance(op, CommandOp)
    return by_fields({key: _value(value) for key, value in op.fields.items()})


def effects_inside(*regions: Region) -> list[Effect]:
    """Effects of all operations in regions that have any, in the order of the text."""
    effects = (effect_of(op) for region in regions for op in region.walk())
    return [effect for effect in effects if effect is not _NOTHING]


def defined_inside(value: Value, op: Operation) -> bool:
    """Whether a value changes from one run of an operation's regions to the next."""
    return not isinstance(value, int) and value.owner is not op and op.is_ancestor(value.owner)
