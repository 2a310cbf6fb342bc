"""The instruction set as data: every command of Gemmini and every bit-field, once.

Encoder, decoder, disassembler, Verilog header and reference documentation derive from `COMMANDS`.
Bits that no field lists are ignored by the hardware. Source: Gemmini's RTL, which decides wherever its
documentation, C library or functional model say otherwise.
"""

from __future__ import annotations

from typing import Literal

from baco.accel.isa.command import CommandType, Field, FieldKind

#: Bits of the float32 number 1.0: the scale that leaves elements as they are.
IDENTITY_SCALE = 0x3F800000
#: Value of CONFIG_ST's acc_scale that leaves the previous scale in force.
KEEP_SCALE = 0xFFFFFFFF


def _field(
    place: str,
    name: str,
    meaning: str,
    kind: FieldKind = "unsigned",
    default: int = 0,
    feature: str | None = None,
) -> Field:
    """A field whose place is written as in the documentation, `1[31:16]` for bits 31 to 16 of rs1."""
    span = place[2:-1].split(":")
    register: Literal["rs1", "rs2"] = "rs1" if place[0] == "1" else "rs2"
    return Field(name, register, int(span[0]), int(span[-1]), meaning, kind, default, feature)


def _operand(register: int, name: str, what: str) -> tuple[Field, Field, Field]:
    """A matrix in local memory: address word and logical size (after any transpose)."""
    return (
        _field(f"{register}[31:0]", name, f"local address of {what}", "local"),
        _field(f"{register}[47:32]", f"{name}_cols", f"logical columns of {name.upper()}, 0..DIM"),
        _field(f"{register}[63:48]", f"{name}_rows", f"logical rows of {name.upper()}, 0..DIM"),
    )


def _move(local: str) -> tuple[Field, Field, Field]:
    return (
        _field("2[31:0]", "local", local, "local"),
        _field("2[47:32]", "cols", "columns (elements of a row), at least 1"),
        _field(
            "2[63:48]",
            "rows",
            "rows, 1..DIM; not in Gemmini: up to 255, of stores those of one block of columns",
        ),
    )


def _mvin(name: str, funct: int, state: int) -> CommandType:
    return CommandType(
        name,
        funct,
        "ld",
        f"load rows from main memory into local memory, with the configuration of load state {state}",
        (
            _field("1[63:0]", "address", "source in main memory; 0 writes zeros", "address"),
            *_move(
                "destination; its accumulate bit adds to accumulator rows, and in the scratchpad, where the load state has a"
                " block_format, says that a row of powers is loaded, a byte a column, which goes to no row"
            ),
        ),
    )


_CONFIG = (
    CommandType(
        "CONFIG_EX",
        0,
        "ex",
        "configure matrix products; waits until all earlier ones have left the array",
        (
            _field("1[2]", "dataflow", "0 output-stationary, 1 weight-stationary (where both are built)"),
            _field(
                "1[4:3]",
                "activation",
                "0 none, 1 ReLU: on results written to the scratchpad; 2 and 3, with normalizations, are none",
                feature="activations",
            ),
            _field("1[7]", "set_only_strides", "1: update a_stride and c_stride, leave everything else"),
            _field("1[8]", "a_transpose", "transpose A"),
            _field("1[9]", "b_transpose", "transpose B (not together with A in WS, only with A in OS)"),
            _field("1[31:16]", "a_stride", "local rows between rows of A", default=1),
            _field(
                "1[63:32]",
                "acc_scale",
                "scale of accumulator rows read as operands; not used by MVOUT",
                "float32",
                IDENTITY_SCALE,
            ),
            _field("2[4:0]", "in_shift", "rounding right shift of output-stationary results"),
            _field("2[47:32]", "relu6_shift", "ignored"),
            _field("2[63:48]", "c_stride", "local rows between rows of C", default=1),
        ),
        subtype=0,
    ),
    CommandType(
        "CONFIG_LD",
        0,
        "ld",
        "configure one of the three load states",
        (
            _field(
                "1[2]", "shrink", "loads to the accumulator: 0 memory holds accType, 1 inputType elements"
            ),
            _field("1[4:3]", "state", "0 for MVIN, 1 for MVIN2, 2 for MVIN3 (3 is undefined)"),
            _field(
                "1[5]",
                "packed",
                "memory holds signed elements of 4 bits instead of inputType, two a byte, the first in the low bits;"
                " a row begins with a byte; not in Gemmini",
                feature="packed_weights",
            ),
            _field(
                "1[7:6]",
                "block_format",
                "memory holds elements of blocks with a shared power of two (OCP Microscaling) instead of inputType:"
                " 1 E4M3, or E2M1, two a byte, where `packed` is set; 2 E5M2; 3 INT8; not in Gemmini",
                feature="block_weights",
            ),
            _field(
                "1[15:8]",
                "pixel_repeats",
                "first-layer replication; 0 is treated as 1",
                feature="first_layer",
            ),
            _field(
                "1[31:16]",
                "block_stride",
                "local rows between blocks of DIM columns; at least the rows loaded",
            ),
            _field("1[63:32]", "scale", "multiplier of loaded elements", "float32", IDENTITY_SCALE),
            _field("2[63:0]", "stride", "main-memory bytes between rows; 0 replicates one row"),
        ),
        subtype=1,
    ),
    CommandType(
        "CONFIG_ST",
        0,
        "st",
        "configure stores; pool fields are latched only when pool_stride is not 0",
        (
            _field("1[3:2]", "activation", "0 none, 1 ReLU, 2 layer norm, 3 I-GELU", feature="activations"),
            _field("1[5:4]", "pool_stride", "0: pooling off", feature="max_pool"),
            _field(
                "1[7:6]",
                "pool_size",
                "window edge, 1..3; not 0 with pool_stride 0: 1-D mode, orows by ocols rows in sequence",
            ),
            _field("1[9:8]", "upad", "zero rows above the unpooled tile"),
            _field("1[11:10]", "lpad", "zero columns left of the unpooled tile"),
            _field("1[31:24]", "pool_out_dim", "pixels in a row of the whole output image in main memory"),
            _field("1[39:32]", "porows", "pooled rows to emit"),
            _field("1[47:40]", "pocols", "pooled columns to emit"),
            _field("1[55:48]", "orows", "unpooled rows held locally"),
            _field("1[63:56]", "ocols", "unpooled columns held locally"),
            _field("2[31:0]", "stride", "main-memory bytes between rows (pooling: output pixels)"),
            _field(
                "2[63:32]",
                "acc_scale",
                "scale of scaled accumulator stores; all ones keeps the previous one",
                "float32",
                IDENTITY_SCALE,
            ),
        ),
        subtype=2,
    ),
    CommandType(
        "CONFIG_NORM",
        0,
        "st",
        "say how stores normalise: statistics slot, softmax, constants of I-GELU and softmax",
        (
            _field("1[15:8]", "stats_id", "statistics slot of the stores that follow, 0 or 1"),
            _field(
                "1[16]", "activation_msb", "third bit of the store activation (4: softmax), until CONFIG_ST"
            ),
            _field("1[17]", "set_stats_id_only", "1: only stats_id changes"),
            _field("1[18]", "q_const_type", "0: q_const is qln2, 1: qln2_inv"),
            _field("1[63:32]", "q_const", "constant qln2 or qln2_inv of softmax"),
            _field("2[31:0]", "qb", "constant qb of I-GELU and softmax"),
            _field("2[63:32]", "qc", "constant qc of I-GELU and softmax"),
        ),
        subtype=3,
        feature="normalizations",
    ),
)

_MOVES = (
    _mvin("MVIN2", 1, 1),
    _mvin("MVIN", 2, 0),
    CommandType(
        "MVOUT",
        3,
        "st",
        "store rows from local memory to main memory",
        (
            _field("1[63:0]", "address", "destination in main memory", "address"),
            *_move(
                "source; of the accumulator: read_full raw, otherwise activated, scaled and saturated; a normaliser"
                " command makes statistics of it and stores nothing"
            ),
        ),
    ),
    _mvin("MVIN3", 14, 2),
    CommandType(
        "MVOUT_SPAD",
        23,
        "st",
        "store rows from local memory to the scratchpad; not in Gemmini: several blocks of columns, DIM rows apart in both",
        (
            _field("1[31:0]", "destination", "scratchpad address of the first row", "local"),
            _field("1[63:32]", "destination_stride", "rows between rows of the destination"),
            *_move("source"),
        ),
    ),
)

_FUNCTIONS = (
    CommandType(
        "CONFIG_FUNCTION",
        26,
        "st",
        "say what stores do with int8 elements, once scaled (to the scratchpad: tables and softmax only); not in Gemmini",
        (
            _field("1[1:0]", "function", "0 nothing, 1 table, 2 softmax of rows, 3 normalisation of rows"),
            _field(
                "1[2]", "centre", "normalisation: 1 subtracts the mean (layer norm), 0 does not (RMS norm)"
            ),
            _field("1[3]", "causal", "softmax: row r takes part with its first valid + r elements only"),
            _field(
                "1[8:4]",
                "shift",
                "normalisation: right shift of the result, 7..31; softmax: left shift of the numerator, 0..15",
                default=7,
            ),
            _field(
                "1[9]",
                "product",
                "normalisation: 1 multiplies by elements of accumulator rows instead, those of the source's row s by row"
                " parameter + s",
            ),
            _field("1[31:16]", "valid", "causal: elements of the next store's first row; later stores go on"),
            _field(
                "1[63:32]",
                "parameter",
                "softmax: numerator before its shift; normalisation: local address of the first row of gains and offsets;"
                " product: of the row that source row 0 is multiplied by",
            ),
            _field(
                "2[47:0]", "epsilon", "normalisation: summand of n * n * variance; product: factor (28 bits)"
            ),
            _field(
                "2[55:48]",
                "apart",
                "softmax: rows of the source from one block of columns of a row to the next; 0: DIM",
            ),
        ),
        feature="row_functions",
    ),
    CommandType(
        "LOAD_TABLE",
        27,
        "st",
        "fill the table of stores from accumulator rows: 256 entries of 16 bits, two an element; not in Gemmini",
        (_field("1[31:0]", "table", "local address of the first row", "local"),),
        feature="row_functions",
    ),
)

_OUTPUT = (
    CommandType(
        "CONFIG_OUTPUT",
        28,
        "st",
        "say how stores requantise accumulator elements: limited(rounded(element * scale) + zero); not in Gemmini",
        (
            _field(
                "1[0]",
                "by_column",
                "0: the scale is CONFIG_ST's, 1: that of the element's column (SET_SCALES)",
            ),
            _field("1[15:8]", "zero", "signed summand"),
            _field("1[23:16]", "low", "signed least result", default=0x80),
            _field(
                "1[31:24]",
                "high",
                "signed largest result, which counts where `low` is above it",
                default=0x7F,
            ),
        ),
        feature="requantization",
    ),
    CommandType(
        "SET_SCALES",
        29,
        "st",
        "set the scales of two neighbouring columns of the array; not in Gemmini",
        (
            _field(
                "1[7:0]",
                "column",
                "the first of both; its lowest bit is ignored, columns beyond DIM are not there",
            ),
            _field("2[63:0]", "scales", "bits of their float32 scales, that of the even column lowest"),
        ),
        feature="requantization",
    ),
)

_PRODUCTS = (
    CommandType(
        "COMPUTE_PRELOADED",
        4,
        "ex",
        "product with the operand that the preceding PRELOAD brought",
        (*_operand(1, "a", "A"), *_operand(2, "bd", "the bias D (WS) or of B (OS)")),
    ),
    CommandType(
        "COMPUTE_ACCUMULATED",
        5,
        "ex",
        "product with the weights (WS) or onto the results (OS) already in the array",
        (*_operand(1, "a", "A"), *_operand(2, "bd", "the bias D (WS) or of B (OS)")),
    ),
    CommandType(
        "PRELOAD",
        6,
        "ex",
        "bring the stationary operand and say where the result of the next compute goes",
        (*_operand(1, "bd", "the weights B (WS) or of the bias D (OS)"), *_operand(2, "c", "the result C")),
    ),
)

_FRONT = (
    CommandType(
        "FLUSH",
        7,
        "front",
        "flush address translations",
        (_field("1[0]", "skip", "1: skip the faulting translation, 0: retry it"),),
    ),
    CommandType(
        "CLKGATE_EN",
        22,
        "front",
        "switch clock gating where it is built",
        (_field("1[0]", "enable", "clock enable"),),
    ),
    CommandType(
        "COUNTER_OP",
        126,
        "front",
        "read a performance counter into rd, and change the counters afterwards",
        (
            _field("1[0]", "reset", "reset all counters and leave snapshot mode"),
            _field("1[1]", "leave_snapshot", "leave snapshot mode"),
            _field("1[2]", "take_snapshot", "take a snapshot, which later operations read"),
            _field("1[3]", "configure", "count `event` from now on, beginning at zero"),
            _field("1[6:4]", "index", "counter"),
            _field("1[17:12]", "event", "event code"),
            _field("1[31]", "external", "the event is an external one"),
        ),
        response=True,
    ),
)


def _loop_ws(suffix: str, funct: int, meaning: str, *fields: Field) -> CommandType:
    return CommandType(f"LOOP_WS{suffix}", funct, "loop", meaning, fields, feature="loop_ws")


_LOOP_WS = (
    _loop_ws(
        "",
        8,
        "run a tiled matrix product C = A*B + D with the configuration given before",
        _field("1[0]", "ex_accumulate", "1: add to what the accumulator holds, 0: overwrite"),
        _field("1[1]", "full_c", "C has accType elements in memory"),
        _field("1[2]", "low_d", "D has inputType elements in memory"),
        _field("1[10:8]", "act", "2 layer norm, 4 softmax; other activations are set by CONFIG_ST"),
        _field("1[17:16]", "b_spad_id", "half of the scratchpad for B: 0 the slot's, 1 lower, 2 upper"),
        _field("1[19:18]", "a_spad_id", "half of the scratchpad for A: 0 the slot's, 1 lower, 2 upper"),
        _field("2[0]", "a_transpose", "memory holds A transposed (K by I)"),
        _field("2[1]", "b_transpose", "memory holds B transposed (J by K)"),
        _field("2[2]", "is_resadd", "C = A + B element by element instead of a product"),
        _field("2[3]", "skip_a", "skip the loads of A"),
        _field("2[4]", "skip_b", "skip the loads of B"),
        _field("2[5]", "skip_d", "skip the loads of D"),
        _field("2[6]", "skip_ex", "skip the products"),
        _field("2[7]", "skip_st", "skip the stores"),
        _field("2[8]", "inc_acc_addr", "with spad_only: change accumulator halves (otherwise: C not null)"),
        _field("2[9]", "spad_only", "store C into the scratchpad instead of memory"),
        _field(
            "2[10]",
            "b_packed",
            "memory holds B packed (CONFIG_LD): bytes from its start are half as many; not in Gemmini",
            feature="packed_weights",
        ),
        _field("2[63:32]", "c_spad_addr", "destination of spad_only", "local"),
    ),
    _loop_ws(
        "_CONFIG_BOUNDS",
        9,
        "tile size in blocks, and what the last blocks lack",
        _field("1[15:0]", "pad_i", "elements missing in the last block of I"),
        _field("1[31:16]", "pad_j", "elements missing in the last block of J"),
        _field("1[47:32]", "pad_k", "elements missing in the last block of K"),
        _field("2[15:0]", "i", "rows of C, blocks"),
        _field("2[31:16]", "j", "columns of C, blocks"),
        _field("2[47:32]", "k", "inner dimension, blocks"),
    ),
    _loop_ws(
        "_CONFIG_ADDRS_AB",
        10,
        "where A and B are; null skips the load",
        _field("1[63:0]", "a", "A", "address"),
        _field("2[63:0]", "b", "B", "address"),
    ),
    _loop_ws(
        "_CONFIG_ADDRS_DC",
        11,
        "where D and C are; null skips the bias, the store",
        _field("1[63:0]", "d", "D", "address"),
        _field("2[63:0]", "c", "C", "address"),
    ),
    _loop_ws(
        "_CONFIG_STRIDES_AB",
        12,
        "elements between rows of A and B",
        _field("1[63:0]", "a_stride", "elements between rows of A in memory"),
        _field("2[63:0]", "b_stride", "elements between rows of B in memory"),
    ),
    _loop_ws(
        "_CONFIG_STRIDES_DC",
        13,
        "elements between rows of D and C",
        _field("1[63:0]", "d_stride", "elements (of D's type in memory) between rows of D"),
        _field("2[63:0]", "c_stride", "elements (of C's type in memory) between rows of C"),
    ),
    _loop_ws(
        "_CONFIG_SPAD_AB",
        24,
        "place A and B in the scratchpad",
        _field("1[31:0]", "a_start", "first row of A", "local"),
        _field("2[31:0]", "b_end", "row behind the last one of B", "local"),
    ),
    _loop_ws("_CONFIG_SPAD_C", 25, "accepted, without effect"),
)


def _loop_conv(suffix: str, funct: int, meaning: str, *fields: Field) -> CommandType:
    return CommandType(f"LOOP_CONV_WS{suffix}", funct, "loop", meaning, fields, feature="loop_conv")


_LOOP_CONV = (
    _loop_conv(
        "",
        15,
        "run a tiled convolution with the configuration given before",
        _field("1[0]", "no_bias", "accumulators begin at zero (the bias address must not be null)"),
        _field("1[1]", "wrot180", "weights rotated by 180 degrees", feature="training_convs"),
        _field(
            "1[2]", "trans_output_1203", "output in memory as (row, col, n, ch)", feature="training_convs"
        ),
        _field(
            "1[3]", "trans_weight_1203", "weights in memory as (in, row, col, out)", feature="training_convs"
        ),
        _field(
            "1[4]", "trans_weight_0132", "weights in memory as (row, col, out, in)", feature="training_convs"
        ),
        _field("1[5]", "trans_input_3120", "input in memory as (ch, row, col, n)", feature="training_convs"),
        _field("1[6]", "dw", "depthwise", feature="depthwise_convs"),
        _field(
            "1[15:8]", "max_pixels_per_row", "kernel columns packed into a row; 0 is 1", feature="first_layer"
        ),
        _field("1[17:16]", "b_spad_id", "half of the scratchpad for weights: 0 the slot's, 1 lower, 2 upper"),
        _field("1[19:18]", "a_spad_id", "half of the scratchpad for input: 0 the slot's, 1 lower, 2 upper"),
        _field("2[0]", "no_pool", "store unpooled results"),
        _field("2[1]", "downsample", "load every second pixel only"),
        _field("2[2]", "input_dilated", "zeros between input pixels", feature="training_convs"),
        _field("2[4:3]", "activation", "activation of pooled stores"),
        _field(
            "2[5]",
            "weights_packed",
            "memory holds weights packed (CONFIG_LD): bytes from their start and between rows are half as many;"
            " not in Gemmini",
            feature="packed_weights",
        ),
    ),
    _loop_conv(
        "_CONFIG_1",
        16,
        "sizes of the whole layer",
        _field("1[15:0]", "batch_size", "images"),
        _field("1[31:16]", "in_row_dim", "input rows"),
        _field("1[47:32]", "in_channels", "input channels"),
        _field("1[63:48]", "out_channels", "output channels"),
        _field("2[15:0]", "out_row_dim", "output rows"),
        _field("2[31:16]", "pool_out_row_dim", "pooled output rows"),
        _field("2[47:32]", "out_col_dim", "output columns"),
        _field("2[55:48]", "stride", "stride"),
        _field("2[63:56]", "padding", "unused"),
    ),
    _loop_conv(
        "_CONFIG_2",
        17,
        "kernel and pooling of the layer; size of the tile",
        _field("1[7:0]", "pool_padding", "unused"),
        _field("1[15:8]", "pool_stride", "pooling stride"),
        _field("1[31:16]", "pool_size", "pooling window edge"),
        _field("1[47:32]", "pool_out_col_dim", "pooled output columns"),
        _field("1[63:48]", "kernel_dim", "kernel edge"),
        _field("2[15:0]", "pochs", "output channels of the tile"),
        _field("2[31:16]", "pocols", "pooled output columns of the tile"),
        _field("2[47:32]", "porows", "pooled output rows of the tile"),
        _field("2[63:48]", "batches", "images of the tile"),
    ),
    _loop_conv(
        "_CONFIG_3",
        18,
        "kernel and padding of the tile",
        _field("1[15:0]", "lpad", "zero columns left of the tile"),
        _field("1[31:16]", "kchs", "input channels of the tile"),
        _field("1[47:32]", "kcols", "kernel columns of the tile"),
        _field("1[63:48]", "krows", "kernel rows of the tile"),
        _field("2[15:0]", "in_col_dim", "input columns of the layer"),
        _field("2[23:16]", "plpad", "zero columns left of the unpooled tile"),
        _field("2[31:24]", "dpad", "zero rows below the tile"),
        _field("2[47:32]", "upad", "zero rows above the tile"),
        _field("2[63:48]", "rpad", "zero columns right of the tile"),
    ),
    _loop_conv(
        "_CONFIG_4",
        19,
        "unpooled output of the tile, and channel strides",
        _field("1[9:0]", "kernel_dilation", "dilation of the kernel, at least 1", default=1),
        _field("1[20:10]", "pdpad", "unused"),
        _field("1[31:21]", "pupad", "zero rows above the unpooled tile"),
        _field("1[47:32]", "prpad", "unused"),
        _field("1[63:48]", "orows", "unpooled output rows of the tile"),
        _field("2[15:0]", "ocols", "unpooled output columns of the tile"),
        _field("2[31:16]", "out_stride", "elements between output pixels"),
        _field("2[47:32]", "weight_stride", "elements between rows of weights (one input channel each)"),
        _field("2[63:48]", "in_stride", "elements between input pixels"),
    ),
    _loop_conv(
        "_CONFIG_5",
        20,
        "where weights and output are; null skips the load, the store",
        _field("1[63:0]", "weights", "weights", "address"),
        _field("2[63:0]", "output", "output", "address"),
    ),
    _loop_conv(
        "_CONFIG_6",
        21,
        "where bias and input are; null skips the load",
        _field("1[63:0]", "bias", "bias", "address"),
        _field("2[63:0]", "input", "input", "address"),
    ),
)

#: Every command by its name, ordered by funct and subtype.
COMMANDS: dict[str, CommandType] = {
    one.name: one
    for one in sorted(
        (*_CONFIG, *_MOVES, *_FUNCTIONS, *_OUTPUT, *_PRODUCTS, *_FRONT, *_LOOP_WS, *_LOOP_CONV),
        key=lambda one: (one.funct, one.subtype or 0),
    )
}

#: Function codes by command name.
FUNCT: dict[str, int] = {name: one.funct for name, one in COMMANDS.items()}
