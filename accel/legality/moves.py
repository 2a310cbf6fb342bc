"""Rules of loads and stores and their configuration (ISA specification, sections 4.2, 4.3 and 5)."""

from __future__ import annotations

from baco.accel.legality.language import Let, Refuse, Set, Step
from baco.accel.legality.original import (
    ASSERTION,
    BEYOND,
    LONG_ROWS,
    NO_BLOCKS,
    NO_CONFIG_ST,
    NO_COPIES,
    NO_FUNCTIONS,
    NO_ROWS,
    NO_SCALED_READS,
    RESERVED,
    WAITS,
    absent,
    forbidden,
    undefined,
)

CONFIG_LD: tuple[Step, ...] = (
    Refuse("BAD_FLAGS", "state is 0, 1 or 2", "state > 2", original=undefined("there are three load states")),
    Set("ld_configured", "1", index="state"),
    Set("ld_shrink", "shrink", index="state"),
    Set("ld_repeats", "max(1, pixel_repeats) if first_layer else 1", index="state"),
    Set("ld_block_stride", "block_stride", index="state"),
    Set("ld_blocks", "block_weights and block_format != 0", index="state"),
)

CONFIG_ST: tuple[Step, ...] = (
    Refuse(
        "NOT_BUILT",
        "activation is none or ReLU where normalizations are not built",
        "activation > 1 and not normalizations",
        original=RESERVED,
    ),
    Let("pools", "max_pool and pool_stride != 0"),
    Let("windowed", "pools or pool_size != 0"),
    Refuse(
        "BAD_FLAGS",
        "a pooling window has an edge of 1 to 3",
        "pools and pool_size == 0",
        original=undefined("a maximum over no element"),
    ),
    Refuse(
        "BAD_SIZE",
        "pooling and the 1-D mode have orows and ocols of at least 1",
        "windowed and (orows == 0 or ocols == 0)",
        original=NO_ROWS,
    ),
    Refuse(
        "BAD_SIZE",
        "pooling has porows and pocols of at least 1",
        "pools and (porows == 0 or pocols == 0)",
        original=NO_ROWS,
    ),
    Set("st_configured", "1"),
    Set("st_activation", "activation"),
    Set("st_pooled", "pools"),
    Set("st_windowed", "windowed"),
    Set("st_rows", "orows * ocols", when="windowed"),
)


CONFIG_NORM: tuple[Step, ...] = (
    Refuse(
        "BAD_FLAGS",
        "statistics slots are 0 and 1",
        "stats_id > 1",
        original=undefined(
            "its RTL has two slots, of which higher numbers name one; its functional simulator has four"
        ),
    ),
    Refuse(
        "BAD_FLAGS",
        "softmax follows a CONFIG_ST without activation",
        "not set_stats_id_only and activation_msb and (st_activation & 3) != 0",
        original=undefined("the two bits of CONFIG_ST and this one give no activation together"),
    ),
    Set("st_activation", "4 * activation_msb + (st_activation & 3)", when="not set_stats_id_only"),
)


def _load(state: int) -> tuple[Step, ...]:
    return (
        Refuse(
            "NOT_CONFIGURED",
            f"a CONFIG_LD of state {state} has come before",
            f"not ld_configured[{state}]",
            original=undefined("no register of CONFIG_LD has a value after reset"),
        ),
        Let("repeats", f"ld_repeats[{state}]"),
        Let("block_stride", f"ld_block_stride[{state}]"),
        Let("element_bytes", f"4 if accumulator(local) and not ld_shrink[{state}] else ELEMENT_BYTES"),
        Refuse(
            "BAD_FLAGS",
            "pixels are repeated in the scratchpad only",
            "repeats > 1 and accumulator(local)",
            original=undefined("its way into the accumulator knows no copies"),
        ),
        Let("blocked", f"ld_blocks[{state}]"),
        Let("brings_powers", "blocked and accumulates(local)"),
        Refuse(
            "BAD_FLAGS",
            "elements of blocks and their powers go to the scratchpad, without copies",
            "blocked and (accumulator(local) or repeats > 1)",
            original=NO_BLOCKS,
        ),
        Refuse(
            "NOT_CONFIGURED",
            "powers of all columns have come before elements of blocks",
            "blocked and not brings_powers and cols > powers",
            original=NO_BLOCKS,
        ),
        Refuse(
            "BAD_SIZE",
            "rows are 1 to 255",
            "rows == 0 or rows > 255",
            original=forbidden("an assertion of its RTL for 0; beyond DIM, where we go on, it loses bits"),
        ),
        Refuse("BAD_SIZE", "powers are one row", "brings_powers and rows != 1", original=NO_BLOCKS),
        Refuse(
            "BAD_SIZE",
            "cols are at least 1 and at most ROW_BYTES of main memory",
            "cols == 0 or cols * element_bytes > ROW_BYTES",
            original=forbidden(
                "an assertion of its RTL for 0; longer rows than its largest request it does not define"
            ),
        ),
        Refuse(
            "BAD_SIZE",
            "several blocks are a block_stride of at least rows apart",
            "cols > DIM and block_stride < rows",
            original=forbidden("an assertion of its RTL, for single blocks too"),
        ),
        Refuse(
            "BAD_SIZE",
            "all copies of a pixel fit in a row",
            "repeats > 1 and repeats * cols > DIM",
            original=NO_COPIES,
        ),
        Let("first", "row(local)"),
        Let("past", "first + (blocks(cols) - 1) * block_stride + rows"),
        Refuse(
            "LOCAL_ADDRESS",
            "the destination exists, whole",
            "past > rows_of(local)",
            original=BEYOND,
        ),
        # copies lie below their pixel
        Let("lowest", "first - min(first, repeats - 1)"),
        Refuse(
            "ROWS_IN_USE",
            "the rows are none that the PRELOAD before it names",
            "meets_result(accumulator(local), lowest, past)"
            " or meets_stationary(accumulator(local), lowest, past)",
            original=WAITS,
        ),
        Set("powers", "cols", when="brings_powers"),
    )


#: Of every store.
_STORE_CONFIGURED = Refuse(
    "NOT_CONFIGURED",
    "a CONFIG_ST has come before",
    "not st_configured",
    original=NO_CONFIG_ST,
)

MVOUT: tuple[Step, ...] = (
    _STORE_CONFIGURED,
    Refuse(
        "BAD_FLAGS",
        "what is pooled is not raw",
        "raw(local) and st_pooled",
        original=undefined("maxima are taken of int8 elements"),
    ),
    Refuse(
        "BAD_FLAGS",
        "rows are softmaxed or normalised with pooling and the 1-D mode off",
        "by_row(local, st_function) and st_windowed",
        original=NO_FUNCTIONS,
    ),
    Let("normaliser", "norm(local) if normalizations else 0"),
    Refuse(
        "BAD_FLAGS",
        "normaliser commands are for accumulator rows",
        "normaliser != 0 and not accumulator(local)",
        original=undefined("the normaliser stands behind the accumulator only"),
    ),
    Refuse(
        "BAD_FLAGS",
        "statistics go without pooling, the 1-D mode and functions of rows, layer norm, I-GELU and softmax without the last",
        "(normaliser != 0 and (st_windowed or by_row(local, st_function)))"
        " or (accumulator(local) and st_activation >= 2 and by_row(local, st_function))",
        original=undefined(
            "statistics are of whole rows, one behind the other; functions of rows it does not have"
        ),
    ),
    Refuse(
        "NOT_BUILT",
        "raw accumulator reads (read_full_width) are built",
        "raw(local) and not read_full_width",
        original=absent("built without acc_read_full_width, the raw elements lead nowhere"),
    ),
    Refuse(
        "NOT_BUILT",
        "scaled accumulator reads (read_small_width) are built",
        "accumulator(local) and not raw(local) and not read_small_width",
        original=NO_SCALED_READS,
    ),
    Refuse(
        "BAD_SIZE",
        "cols are at least 1 and at most ROW_BYTES, or any number where rows are softmaxed or normalised",
        "cols == 0 or (cols * ELEMENT_BYTES > ROW_BYTES and not by_row(local, st_function))",
        original=LONG_ROWS,
    ),
    Refuse(
        "BAD_SIZE",
        "raw, pooled and 1-D stores have at most DIM columns",
        "(raw(local) or st_windowed) and cols > DIM",
        original=undefined("such stores are of one block of columns"),
    ),
    Refuse(
        "BAD_SIZE",
        "rows are 1 to DIM, of one block of columns that is not softmaxed or normalised up to 255",
        "not st_windowed and (rows == 0 or rows > 255 or (rows > DIM and (cols > DIM or by_row(local, st_function))))",
        original=undefined("rows lose the bits above those of DIM: it has no more than DIM, and not 0"),
    ),
    Let("first", "row(local)"),
    Let("apart", "st_apart if by_row(local, st_function) and st_apart != 0 else DIM"),
    Let("past", "first + (st_rows if st_windowed else (blocks(cols) - 1) * apart + rows)"),
    Refuse(
        "LOCAL_ADDRESS",
        "the source exists, whole",
        "past > rows_of(local)",
        original=BEYOND,
    ),
    Let("normalises", "by_row(local, st_function) and st_function == 3"),
    Let("parameters_first", "st_parameters + (first if st_product else 0)"),
    Let("parameters_past", "st_parameters + (past if st_product else blocks(cols))"),
    Refuse(
        "LOCAL_ADDRESS",
        "gains and offsets of all columns exist, or what rows are multiplied by",
        "normalises and parameters_past > ACCUMULATOR_ROWS",
        original=NO_FUNCTIONS,
    ),
    Refuse(
        "ROWS_IN_USE",
        "the rows are none to which the PRELOAD before it directs a result",
        "meets_result(accumulator(local), first, past)"
        " or (normalises and meets_result(1, parameters_first, parameters_past))",
        original=WAITS,
    ),
)

CONFIG_FUNCTION: tuple[Step, ...] = (
    Refuse(
        "BAD_FLAGS",
        "gains and offsets are in the accumulator",
        "function == 3 and not accumulator(parameter)",
        original=NO_FUNCTIONS,
    ),
    Refuse(
        "BAD_SIZE",
        "the shift is at least 7",
        "function == 3 and shift < 7",
        original=NO_FUNCTIONS,
    ),
    Refuse(
        "BAD_SIZE",
        "the shift of a numerator is at most 15",
        "function == 2 and shift > 15",
        original=NO_FUNCTIONS,
    ),
    Set("st_function", "function"),
    Set("st_apart", "apart if function == 2 else 0"),
    Set("st_parameters", "row(parameter)", when="function == 3"),
    Set("st_product", "product", when="function == 3"),
)

LOAD_TABLE: tuple[Step, ...] = (
    Refuse(
        "BAD_FLAGS",
        "a table is in the accumulator",
        "not accumulator(table)",
        original=NO_FUNCTIONS,
    ),
    Let("first", "row(table)"),
    Let("past", "first + max(1, 128 // DIM)"),
    Refuse(
        "LOCAL_ADDRESS",
        "the table exists, whole",
        "past > ACCUMULATOR_ROWS",
        original=NO_FUNCTIONS,
    ),
    Refuse(
        "ROWS_IN_USE",
        "the rows are none to which the PRELOAD before it directs a result",
        "meets_result(1, first, past)",
        original=WAITS,
    ),
)

MVOUT_SPAD: tuple[Step, ...] = (
    _STORE_CONFIGURED,
    Refuse(
        "BAD_FLAGS",
        "the destination is in the scratchpad",
        "accumulator(destination)",
        original=ASSERTION,
    ),
    Refuse(
        "BAD_FLAGS",
        "pooling and the 1-D mode are off",
        "st_windowed",
        original=ASSERTION,
    ),
    Refuse(
        "BAD_FLAGS",
        "accumulator rows are scaled: raw ones do not fit",
        "raw(local)",
        original=undefined("a row of int32 elements does not fit a row of the scratchpad"),
    ),
    Refuse(
        "BAD_FLAGS",
        "rows are neither normalised nor multiplied",
        "st_function > 2",
        original=NO_FUNCTIONS,
    ),
    Refuse(
        "BAD_FLAGS",
        "there are no normaliser commands, and not layer norm, I-GELU or softmax and a function of rows at once",
        "(normalizations and norm(local) != 0)"
        " or (accumulator(local) and st_activation >= 2 and by_row(local, st_function))",
        original=undefined("statistics store nothing; functions of rows it does not have"),
    ),
    Refuse(
        "NOT_BUILT",
        "scaled accumulator reads (read_small_width) are built",
        "accumulator(local) and not read_small_width",
        original=NO_SCALED_READS,
    ),
    Refuse(
        "BAD_SIZE",
        "cols are at least 1; rows are 1 to DIM, of one block of columns that is not softmaxed up to 255",
        "rows == 0 or rows > 255 or (rows > DIM and (cols > DIM or by_row(local, st_function))) or cols == 0",
        original=undefined("it has no more than DIM rows, and no size is 0"),
    ),
    Refuse(
        "BAD_SIZE",
        "several blocks have rows that follow each other",
        "cols > DIM and destination_stride != 1",
        original=undefined("its macros use it block by block, and it guards consecutive rows only"),
    ),
    Let("first", "row(local)"),
    Let("apart", "st_apart if by_row(local, st_function) and st_apart != 0 else DIM"),
    Let("past", "first + (blocks(cols) - 1) * apart + rows"),
    Let("to_first", "row(destination)"),
    Let("to_past", "to_first + (blocks(cols) - 1) * DIM + (rows - 1) * destination_stride + 1"),
    Refuse(
        "LOCAL_ADDRESS",
        "the source exists, whole",
        "past > rows_of(local)",
        original=BEYOND,
    ),
    Refuse(
        "LOCAL_ADDRESS",
        "the destination exists, whole",
        "to_past > SCRATCHPAD_ROWS",
        original=BEYOND,
    ),
    Refuse(
        "ROWS_IN_USE",
        "source and destination are apart",
        "meet(accumulator(local), first, past, 0, to_first, to_past)",
        original=undefined("rows of the source are not guarded against the copy"),
    ),
    Refuse(
        "ROWS_IN_USE",
        "the rows are none that the PRELOAD before it names",
        "meets_result(accumulator(local), first, past) or meets_result(0, to_first, to_past)"
        " or meets_stationary(0, to_first, to_past)",
        original=WAITS,
    ),
)

#: Steps by command.
RULES = {
    "CONFIG_LD": CONFIG_LD,
    "CONFIG_ST": CONFIG_ST,
    "CONFIG_NORM": CONFIG_NORM,
    "MVIN": _load(0),
    "MVIN2": _load(1),
    "MVIN3": _load(2),
    "MVOUT": MVOUT,
    "CONFIG_FUNCTION": CONFIG_FUNCTION,
    "LOAD_TABLE": LOAD_TABLE,
    "MVOUT_SPAD": MVOUT_SPAD,
}
