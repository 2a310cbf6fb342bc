"""What rules are made of: steps that name a value, refuse a command, or remember something of it.

The steps of a command run in order when it arrives. The first `Refuse` that applies ends the run with its error;
otherwise the `Set` steps have brought the state up to date. Names in expressions are, in this order of precedence:
values of earlier `Let` steps, the command's fields, state, and parameters of the accelerator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from baco.accel.config import Features
from baco.accel.legality.expression import RuleExpression
from baco.accel.legality.original import Original


@dataclass(frozen=True)
class Let:
    """Give a value a name."""

    name: str
    value: str

    @cached_property
    def expression(self) -> RuleExpression:
        """The value, parsed."""
        return RuleExpression(self.value)


@dataclass(frozen=True)
class Refuse:
    """Refuse the command.

    Args:
        error: name of the error code.
        rule: what must hold, a sentence without its full stop; for messages and documentation.
        when: the condition under which it does not.
        original: what the original makes of such a command.
    """

    error: str
    rule: str
    when: str
    original: Original

    @cached_property
    def expression(self) -> RuleExpression:
        """The condition, parsed."""
        return RuleExpression(self.when)

    @cached_property
    def shown(self) -> tuple[str, ...]:
        """Names whose values belong to a message."""
        return tuple(
            name
            for name in self.expression.names
            if name not in Features.model_fields
            and (name not in STATE or (STATE[name].tells and not STATE[name].size))
        )


@dataclass(frozen=True)
class Set:
    """Remember a value: in a variable of the state, or with `index` in one place of an array, when `when` holds."""

    target: str
    value: str
    when: str = "1"
    index: str = ""

    @cached_property
    def expression(self) -> RuleExpression:
        """The value, parsed."""
        return RuleExpression(self.value)

    @cached_property
    def condition(self) -> RuleExpression:
        """When, parsed."""
        return RuleExpression(self.when)

    @cached_property
    def place(self) -> RuleExpression | None:
        """The index, parsed."""
        return RuleExpression(self.index) if self.index else None


Step = Let | Refuse | Set


@dataclass(frozen=True)
class StateVariable:
    """A variable of the state.

    Args:
        meaning: what it remembers.
        reset: its value after reset.
        size: for an array, the number of elements.
        tells: its value tells people something that the rule does not say already.
    """

    meaning: str
    reset: int = 0
    size: int = 0
    tells: bool = True


#: Parameters beside the features, which have their own names: 0 or 1 each, as `WS` and `OS`, the dataflows built.
PARAMETERS = {
    "DIM": "rows and columns of the array",
    "SCRATCHPAD_ROWS": "rows of the scratchpad",
    "ACCUMULATOR_ROWS": "rows of the accumulator",
    "ROW_BITS": "bits of a row number of the larger local memory",
    "ELEMENT_BYTES": "bytes of an element in the scratchpad: 2 for bf16, else 1",
    "ROW_BYTES": "most bytes of main memory in one row of a load or store: 64, DMA_MAX_BYTES or 4 * DIM",
    "WS": "the weight-stationary dataflow is built",
    "OS": "the output-stationary dataflow is built",
}


@dataclass(frozen=True)
class _Function:
    parameters: tuple[str, ...]
    value: str
    expression: RuleExpression = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "expression", RuleExpression(self.value))


#: Functions of expressions beside min, max and overtakes(result, result_stride, first, stride, rows): whether row i of a
#: result falls on row j > i of an operand, of `rows` rows each. A local address word is taken apart as hardware does (see
#: there): the bit above the row number belongs to no row, so that a word which sets it names rows beyond the memory.
FUNCTIONS: Mapping[str, _Function] = {
    "accumulator": _Function(("word",), "word >> 31 & 1"),
    # adds to rows of the accumulator; to the scratchpad, from a load state of blocks, it brings powers
    "accumulates": _Function(("word",), "word >> 30 & 1"),
    "raw": _Function(("word",), "(word >> 31 & 1) != 0 and (word >> 29 & 1) != 0"),
    "row": _Function(("word",), "word & ((2 << ROW_BITS) - 1)"),
    "nowhere": _Function(
        ("word",), "(word & (7 << 29 | (2 << ROW_BITS) - 1)) == (7 << 29 | (2 << ROW_BITS) - 1)"
    ),
    # normaliser command of a store, which hardware without normalizations ignores
    "norm": _Function(("word",), "word >> 26 & 7"),
    "rows_of": _Function(("word",), "ACCUMULATOR_ROWS if accumulator(word) else SCRATCHPAD_ROWS"),
    # a store whose rows are softmaxed or normalised
    "by_row": _Function(("word", "function"), "function >= 2 and not raw(word)"),
    "blocks": _Function(("count",), "(count + DIM - 1) // DIM"),
    # rows first .. past - 1 of two memories (1 the accumulator): is one in both? A range without rows is 0 .. -1
    "meet": _Function(
        ("memory", "first", "past", "memory_2", "first_2", "past_2"),
        "memory == memory_2 and first < past_2 and first_2 < past",
    ),
    # the PRELOAD that waits for its COMPUTE: rows of its result, and of the operand that stays in the array
    "meets_result": _Function(
        ("memory", "first", "past"),
        "pending and meet(memory, first, past, result_memory, result_first, result_past)",
    ),
    "meets_stationary": _Function(
        ("memory", "first", "past"),
        "pending and meet(memory, first, past, 0, stationary_first, stationary_past)",
    ),
}

#: What is remembered of the commands before, all of it in program order.
STATE: Mapping[str, StateVariable] = {
    "ex_configured": StateVariable("a CONFIG_EX of everything came", tells=False),
    "weight_stationary": StateVariable("dataflow"),
    "transpose_a": StateVariable("A is transposed"),
    "transpose_b": StateVariable("B is transposed"),
    "stride_a": StateVariable("local rows between rows of A", 1),
    "stride_c": StateVariable("local rows between rows of C", 1),
    "ld_configured": StateVariable("a CONFIG_LD of the load state came", size=3),
    "ld_shrink": StateVariable("loads to the accumulator find elements of input width", size=3),
    "ld_repeats": StateVariable("copies of a pixel", 1, size=3),
    "ld_block_stride": StateVariable("local rows between blocks", size=3),
    "ld_blocks": StateVariable("loads find elements of blocks with a shared power", size=3),
    "powers": StateVariable("columns whose powers the last load of powers brought"),
    "st_configured": StateVariable("a CONFIG_ST came", tells=False),
    "st_pooled": StateVariable("stores pool", tells=False),
    "st_windowed": StateVariable("stores pool, or take rows in sequence (1-D mode)", tells=False),
    "st_rows": StateVariable("local rows that a pooled or 1-D store takes its results from"),
    "st_activation": StateVariable("activation of stores: 2 layer norm, 3 I-GELU, 4 softmax"),
    "st_function": StateVariable("function of stores"),
    "st_parameters": StateVariable("first accumulator row of a normalisation's gains and offsets"),
    "st_apart": StateVariable("rows from one block of columns of a softmaxed row to the next; 0: DIM"),
    "st_product": StateVariable("a normalisation multiplies by accumulator rows from there on instead"),
    "pending": StateVariable("a PRELOAD waits for its COMPUTE", tells=False),
    "result_kept": StateVariable("... whose result goes somewhere"),
    "result_memory": StateVariable("... memory of the result"),
    "result_first": StateVariable("... first row of the result"),
    "result_past": StateVariable("... row behind the result"),
    "result_rows": StateVariable("... rows of the result"),
    "stationary_first": StateVariable("... first row of the operand that stays in the array"),
    "stationary_past": StateVariable("... row behind it"),
    "empty_array": StateVariable("the array holds no weights, no sums of this dataflow", 1, tells=False),
    "ws_slot": StateVariable("slot that the next LOOP_WS takes"),
    "ws_given": StateVariable("configuration commands since the last LOOP_WS, a bit each from BOUNDS on"),
    "ws_i": StateVariable("blocks of I"),
    "ws_j": StateVariable("blocks of J"),
    "ws_k": StateVariable("blocks of K"),
    "ws_a": StateVariable("A is not null"),
    "ws_b": StateVariable("B is not null"),
    "ws_c": StateVariable("C is not null"),
    "ws_d": StateVariable("D is not null"),
    "ws_placed": StateVariable("the slot's places of A and B were given", size=2),
    "ws_a_start": StateVariable("... first row of A", size=2),
    "ws_b_end": StateVariable("... row behind B", size=2),
    "conv_slot": StateVariable("slot that the next LOOP_CONV_WS takes"),
    "conv_given": StateVariable("configuration commands since the last LOOP_CONV_WS, a bit each"),
    **{
        f"conv_{name}": StateVariable(f"{name} of the convolution")
        for name in (
            *("batches", "ochs", "ichs", "krows", "kcols", "orows", "ocols", "stride", "dilation", "stores"),
            *("upad", "dpad", "lpad", "rpad", "pool_size", "pool_stride", "pool_upad", "pool_lpad"),
            *("porows", "pocols", "pool_out_cols"),
            *("bias", "weights", "input"),
        )
    },
}
