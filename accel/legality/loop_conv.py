"""Rules of LOOP_CONV_WS and its configuration (ISA specification, section 8); see LOOP_WS on what they are for."""

from __future__ import annotations

from baco.accel.legality.language import Let, Refuse, Set, Step
from baco.accel.legality.original import (
    ASSERTION,
    KEPT,
    NO_CONFIG,
    NO_COPIES,
    NO_SCALED_READS,
    NOTHING,
    OVERFULL_CONV,
    SIDE_BY_SIDE,
    TWO_HALVES,
    UNPAIRED,
    undefined,
)


def _config(number: int, **names: str) -> tuple[Step, ...]:
    """Remember fields of a configuration command, by the names of the state."""
    kept = tuple(Set(f"conv_{name}", value) for name, value in names.items())
    return (*kept, Set("conv_given", f"conv_given | {1 << number - 1}"))


LOOP_CONV_WS: tuple[Step, ...] = (
    Refuse(
        "OUT_OF_TURN",
        "no PRELOAD waits for its COMPUTE",
        "pending",
        original=UNPAIRED,
    ),
    Refuse(
        "INCOMPLETE",
        "all six configurations were given since the last LOOP_CONV_WS",
        "conv_given != 63",
        original=KEPT,
    ),
    Refuse(
        "BAD_FLAGS",
        "spad ids are 0, 1 or 2",
        "a_spad_id > 2 or b_spad_id > 2",
        original=TWO_HALVES,
    ),
    # what is not built is off
    Let("rotated", "training_convs and wrot180"),
    Let("weights_1203", "training_convs and trans_weight_1203"),
    Let("weights_0132", "training_convs and trans_weight_0132"),
    Let("input_3120", "training_convs and trans_input_3120"),
    Let("dilated", "training_convs and input_dilated"),
    Let("depthwise", "depthwise_convs and dw"),
    Let("pooled", "max_pool and not no_pool"),
    Let("pixels", "max(1, max_pixels_per_row) if first_layer else 1"),
    Refuse(
        "BAD_FLAGS",
        "weights have one layout",
        "weights_1203 and weights_0132",
        original=undefined("each option is an order of the weights of its own"),
    ),
    Refuse(
        "BAD_FLAGS",
        "packed pixels go with neither rotated weights nor batches in place of channels",
        "pixels > 1 and (rotated or input_3120)",
        original=undefined(
            "its library never packs pixels then: pixels of a row would meet the wrong weights"
        ),
    ),
    Refuse(
        "BAD_FLAGS",
        "the window of a pooled store has an edge and a stride of 1 to 3, and paddings of at most 3",
        "conv_stores and pooled and (conv_pool_size == 0 or conv_pool_size > 3 or conv_pool_stride == 0"
        " or conv_pool_stride > 3 or conv_pool_upad > 3 or conv_pool_lpad > 3)",
        original=undefined(
            "CONFIG_ST, which the loop issues, has two bits for each, and an edge of 0 is a maximum over nothing"
        ),
    ),
    Refuse(
        "NOT_BUILT",
        "the activation of a pooled convolution is none or ReLU where normalizations are not built",
        "conv_stores and pooled and activation > 1 and not normalizations",
        original=ASSERTION,
    ),
    Refuse(
        "NOT_BUILT",
        "scaled accumulator reads (read_small_width) are built",
        "conv_stores and not read_small_width",
        original=NO_SCALED_READS,
    ),
    Refuse(
        "BAD_SIZE",
        "no size of the tile is 0, nor the stride",
        "conv_batches == 0 or conv_ochs == 0 or conv_ichs == 0 or conv_krows == 0 or conv_kcols == 0"
        " or conv_orows == 0 or conv_ocols == 0 or conv_stride == 0",
        original=NOTHING,
    ),
    Refuse(
        "BAD_SIZE",
        "a depthwise tile has one channel",
        "depthwise and (conv_ochs != 1 or conv_ichs != 1)",
        original=undefined("addresses of weights have no channels then"),
    ),
    Refuse(
        "BAD_SIZE",
        "packed pixels fit in a row",
        "pixels > 1 and pixels * conv_ichs > DIM",
        original=NO_COPIES,
    ),
    Refuse(
        "BAD_SIZE",
        "a pooled store has 1 to 255 rows and columns, before and after, of an image of at most 255 columns",
        "conv_stores and pooled and (conv_porows == 0 or conv_porows > 255 or conv_pocols == 0 or conv_pocols > 255"
        " or conv_orows > 255 or conv_ocols > 255 or conv_pool_out_cols > 255)",
        original=undefined(
            "CONFIG_ST, which the loop issues, has eight bits for each, and a walk over no rows has no meaning"
        ),
    ),
    # the input with its padding: rows and columns that the windows span
    Let("rows", "conv_orows * conv_stride + conv_krows + (conv_dilation - 1) * (conv_krows - 1) - 1"),
    Let("cols", "conv_ocols * conv_stride + conv_kcols + (conv_dilation - 1) * (conv_kcols - 1) - 1"),
    Refuse(
        "BAD_SIZE",
        "the windows of the tile span at most 65,535 rows and columns",
        "rows > 65535 or cols > 65535",
        original=undefined("its counters have 16 bits"),
    ),
    Let("rows_inside", "(rows - conv_upad - conv_dpad + dilated) >> dilated"),
    Let("cols_inside", "(cols - conv_lpad - conv_rpad + dilated) >> dilated"),
    Refuse(
        "BAD_SIZE",
        "paddings do not exceed the input",
        "rows_inside < 0 or cols_inside < 0",
        original=undefined("a size below 0 wraps around"),
    ),
    Let("top", "(conv_upad + dilated) >> dilated"),
    Let("bottom", "(conv_dpad + dilated) >> dilated"),
    Let("left", "(conv_lpad + dilated) >> dilated"),
    Let("right", "(conv_rpad + dilated) >> dilated"),
    Let("height", "rows_inside + top + bottom if dilated else rows"),
    Let("width", "cols_inside + left + right if dilated else cols"),
    Refuse(
        "BAD_SIZE",
        "a downsampled input has an even number of rows, and of columns left of the image, in it and right of it",
        "downsample and (height & 1 or left & 1 or cols_inside & 1 or right & 1)",
        original=undefined("half of an odd number of pixels: rows would begin in those before"),
    ),
    # rows in local memory; a block holds DIM channels (or batches) of everything
    Let("image", "(height >> downsample) * (width >> downsample)"),
    Let("input_block", "(conv_ichs if input_3120 else conv_batches) * image"),
    Let("input_rows", "blocks(conv_batches if input_3120 else conv_ichs) * input_block"),
    Let("weight_block", "conv_krows * conv_kcols * (conv_ochs if weights_0132 else conv_ichs)"),
    Let("weight_rows", "blocks(conv_ichs if weights_0132 else conv_ochs) * weight_block"),
    Let("output_block", "conv_batches * conv_orows * conv_ocols"),
    Let("output_rows", "blocks(conv_ochs) * output_block"),
    Let("half", "SCRATCHPAD_ROWS // 2"),
    Refuse(
        "BAD_SIZE",
        "the weights fit half of the scratchpad",
        "weight_rows > half",
        original=OVERFULL_CONV,
    ),
    Refuse(
        "BAD_SIZE",
        "the input fits half of the scratchpad",
        "input_rows > half",
        original=OVERFULL_CONV,
    ),
    Let("input_half", "a_spad_id - 1 if a_spad_id else conv_slot"),
    Let("weight_half", "b_spad_id - 1 if b_spad_id else conv_slot"),
    Refuse(
        "BAD_SIZE",
        "input and weights fit half of the scratchpad together when they share it",
        "input_half == weight_half and input_rows + weight_rows > half",
        original=OVERFULL_CONV,
    ),
    Refuse(
        "BAD_SIZE",
        "the output fits half of the accumulator",
        "output_rows > ACCUMULATOR_ROWS // 2",
        original=OVERFULL_CONV,
    ),
    Refuse(
        "BAD_SIZE",
        "a block that is not the only one has at most 65,535 rows, so have images of batches",
        "(input_block > 65535 and input_rows > input_block)"
        " or (weight_block > 65535 and weight_rows > weight_block)"
        " or (output_block > 65535 and output_rows > output_block)"
        " or (input_3120 and (image > 65535 or conv_orows * conv_ocols > 65535))",
        original=undefined("block strides have 16 bits"),
    ),
    Refuse(
        "NOT_CONFIGURED",
        "CONFIG_EX, and CONFIG_ST for what is stored, have come before",
        "not ex_configured or (conv_stores and not st_configured)",
        original=NO_CONFIG,
    ),
    Refuse(
        "UNSUITABLE",
        "products are weight-stationary, A transposed as trans_input_3120 and B as trans_weight_0132 say",
        "not weight_stationary or transpose_a != input_3120 or transpose_b != weights_0132",
        original=SIDE_BY_SIDE,
    ),
    Refuse(
        "UNSUITABLE",
        "CONFIG_EX's a_stride is the convolution's (half of it, downsampled), c_stride 1 (2, input_dilated)",
        "not input_3120 and (stride_a != conv_stride >> downsample or stride_c != 1 + dilated)",
        original=SIDE_BY_SIDE,
    ),
    Refuse(
        "UNSUITABLE",
        "stores softmax and normalise no rows, and those that are not pooled find neither pooling nor the 1-D mode",
        "conv_stores and (st_function >= 2 or (not pooled and st_windowed))",
        original=SIDE_BY_SIDE,
    ),
    # what it leaves behind; a dilated input may have data at no position of the tile
    Let("rows_meet", "conv_orows > 1 or (conv_krows > 1 and conv_dilation & 1) or not conv_upad & 1"),
    Let("cols_meet", "conv_ocols > 1 or (conv_kcols > 1 and conv_dilation & 1) or not conv_lpad & 1"),
    Set("empty_array", "0", when="not dilated or (rows_meet and cols_meet)"),
    Set("conv_slot", "1 - conv_slot"),
    Set("conv_given", "0"),
    Set("stride_a", "image", when="input_3120"),
    Set("stride_c", "conv_orows * conv_ocols", when="input_3120"),
    Set("st_activation", "activation", when="conv_stores and pooled"),
    Set("st_pooled", "0", when="conv_stores and pooled"),
    Set("st_windowed", "0", when="conv_stores and pooled"),
    *(
        step
        for index, operand, block in (
            (0, "input", "input_block"),
            (1, "weights", "weight_block"),
            (2, "bias", "output_block"),
        )
        for step in (
            Set("ld_configured", "1", f"conv_{operand}", str(index)),
            Set("ld_shrink", "0", f"conv_{operand}", str(index)),
            Set("ld_repeats", "pixels" if operand == "input" else "1", f"conv_{operand}", str(index)),
            Set("ld_blocks", "0", f"conv_{operand}", str(index)),
            Set("ld_block_stride", f"{block} & 65535", f"conv_{operand}", str(index)),
        )
    ),
)

#: Steps by command.
RULES = {
    "LOOP_CONV_WS": LOOP_CONV_WS,
    "LOOP_CONV_WS_CONFIG_1": _config(1, stride="stride"),
    "LOOP_CONV_WS_CONFIG_2": _config(
        2,
        pool_size="pool_size",
        pool_stride="pool_stride",
        pool_out_cols="pool_out_col_dim",
        ochs="pochs",
        pocols="pocols",
        porows="porows",
        batches="batches",
    ),
    "LOOP_CONV_WS_CONFIG_3": _config(
        3,
        lpad="lpad",
        ichs="kchs",
        kcols="kcols",
        krows="krows",
        pool_lpad="plpad",
        dpad="dpad",
        upad="upad",
        rpad="rpad",
    ),
    "LOOP_CONV_WS_CONFIG_4": _config(
        4, dilation="kernel_dilation", pool_upad="pupad", orows="orows", ocols="ocols"
    ),
    "LOOP_CONV_WS_CONFIG_5": _config(5, weights="weights != 0", stores="output != 0"),
    "LOOP_CONV_WS_CONFIG_6": _config(6, bias="bias != 0", input="input != 0"),
}
