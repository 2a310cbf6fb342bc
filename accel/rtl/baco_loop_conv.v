// Convolution unroller: turns LOOP_CONV_WS, one command for a whole tile of a convolution, into loads, matrix
// multiplications and stores. Other commands pass through when no loop is pending.
//
// Two loops can be in progress. The setup holds the newer one; five phases (bias, weights, input, execute, store) each
// copy what they need of it as soon as they have finished with the older loop, and when all have, the setup accepts the
// next. So loads of a tile overlap the arithmetic and the stores of the tile before.
//
// Within a loop, too, an execute command waits only for the loads of its own operands, and a store for the last
// command of its channel block. It is enough that a command leaves after those it depends on: the reservation station
// orders accesses to the local memories by the order in which it receives commands. For the same reason a load phase
// waits for the older loop's execute phase when software has pointed both at the same half of a memory.
//
// A loop is begun before it is known to be legal (baco_loop_conv_check): until then, what comes out of it is on trial. When
// all phases have begun it, there is nothing left of the loop ahead; if it is illegal, they stop, and the run command leaves
// raw with its error.
//
// One command leaves in a cycle: stores first, then execution, then loads. A load of the older loop comes before any of
// the newer one; then bias and weights that are about to be needed, then input, then the other weights and biases.
module baco_loop_conv #(
    parameter DIM = 16,             // elements in a row
    parameter SP_ROWS = 16384,      // rows of the scratchpad
    parameter ACC_ROWS = 1024,      // rows of the accumulator
    parameter DMA_MAX_BYTES = 64    // largest memory request, which bounds the channel blocks of one load
) (
    input wire clock,
    input wire reset,               // synchronous
    input wire in_valid,            // commands from the processor
    output wire in_ready,
    input wire [6:0] in_funct,
    input wire [63:0] in_rs1,
    input wire [63:0] in_rs2,
    input wire [4:0] in_rd,
    input wire in_xd,
    output wire out_valid,          // commands to the next unroller
    input wire out_ready,
    output wire [6:0] out_funct,
    output wire [63:0] out_rs1,
    output wire [63:0] out_rs2,
    output wire [4:0] out_rd,
    output wire out_xd,
    output wire [3:0] out_error,    // what the command is to be rejected for
    output wire [2:0] out_loop,     // bit 2: it comes out of a loop; bit 1 set, bit 0 its slot
    output wire out_trial,          // ... which may turn out to be illegal
    output wire [2:0] out_class,    // a command of this unroller's is: bit 0 a load, 1 execution, 2 a store; none: none of them
    input wire ld_space,            // the reservation station can take a load, execute or store command
    input wire ex_space,
    input wire st_space,
    // configuration by others, see baco_configuration
    input wire preloaded,           // a PRELOAD that is none of a loop's is without its COMPUTE
    input wire ex_set,
    input wire ex_ws,
    input wire [1:0] ex_transposes,
    input wire [15:0] ex_stride_a,
    input wire [15:0] ex_stride_c,
    input wire st_set,
`ifdef BACO_ROW_FUNCTIONS
    input wire st_by_row,
`endif
    input wire st_plain,
    output wire [1:0] loops,        // by slot: a loop is pending
    output wire busy                // any
);
  localparam MOST_ROWS = SP_ROWS > ACC_ROWS ? SP_ROWS : ACC_ROWS;
  // wide enough that a tile which does not fit is seen as such, not wrapped into the memory
  localparam ROW_BITS = $clog2(MOST_ROWS) + 2 > 26 ? 26 : $clog2(MOST_ROWS) + 2 < 21 ? 21 : $clog2(MOST_ROWS) + 2;
  localparam [ROW_BITS-1:0] SP_HALF = SP_ROWS[ROW_BITS:1];
  localparam [ROW_BITS-1:0] ACC_HALF = ACC_ROWS[ROW_BITS:1];
  localparam [ROW_BITS-1:0] NONE = 0;
  localparam MOST_LOG = $clog2(MOST_ROWS);
  localparam PRODUCT_BITS = MOST_LOG > 16 ? MOST_LOG + 16 : 32;

  // ---- accepting commands
  reg loaded;                       // the setup holds a loop that some phase has not begun
  reg tag;                          // its parity, which is also its half of the scratchpad
  reg acc_half;                     // its half of the accumulator
  reg acc_half_next;                // the next loop's
  reg same_half;                    // the loop before it has the same half of the accumulator
  reg [4:0] begun;                  // phases that have begun it: bias, weights, input, execute, store
  wire is_run = in_funct == 7'd15;
  wire is_loop = in_funct >= 7'd15 && in_funct <= 7'd21 && !in_xd;  // those that ask for a result are illegal
  wire take = in_valid & is_loop & !loaded;
  wire run = take & is_run;

  // the loop that the setup holds
  wire weights_ready, bias_ready, input_ready, execute_ready, store_ready, no_bias, wrot180, odd_up, odd_left,
      trans_weight_1203, trans_weight_0132, trans_input_3120, dw, no_pool, downsample, dilated;
  wire [63:0] weights_addr, output_addr, bias_addr, input_addr;
  wire [15:0] batches, ochs, ichs, krows, kcols, orows, ocols, in_channels, batch_size, weight_stride,
      pool_out_col_dim, pool_out_rows, pool_out_cols, out_stride, kernel_chs, pack_dilation, in_pixel;
  wire [7:0] stride, pool_size, pool_stride, pool_upad, pool_lpad, pixels_per_row;
  wire [9:0] kernel_dilation;
  wire [1:0] activation, a_spad_id, b_spad_id;
`ifdef BACO_PACKED_WEIGHTS
  wire weights_packed;
`endif
  wire [ROW_BITS-1:0] image_out, block_out, kernel_line, kernel_block, weights_rows, image_in, block_in,
      pack_chs;
  wire [19:0] icols;
  wire signed [19:0] rows_inside, cols_inside;
  wire [16:0] pad_up, pad_down, pad_left, pad_right;
  wire [31:0] weight_col, weight_row, weight_plane, in_line, in_image, out_pixel, out_line, out_image;

  wire all_ready, odd;
  wire [4:0] step;
  wire [PRODUCT_BITS-1:0] product;
  wire [19:0] flags1;
  wire [4:0] flags2;
  wire overlong;
  baco_loop_conv_setup #(.DIM(DIM), .ROW_BITS(ROW_BITS), .PRODUCT_BITS(PRODUCT_BITS)) setup (
      .clock(clock), .reset(reset), .write(take), .run(run), .funct(in_funct), .rs1(in_rs1), .rs2(in_rs2),
      .weights_ready(weights_ready), .bias_ready(bias_ready), .input_ready(input_ready),
      .execute_ready(execute_ready), .store_ready(store_ready), .all_ready(all_ready), .step(step), .product(product),
      .flags1(flags1), .flags2(flags2), .overlong(overlong), .odd(odd), .weights_addr(weights_addr),
      .output_addr(output_addr), .bias_addr(bias_addr), .input_addr(input_addr), .batches(batches),
      .ochs(ochs), .ichs(ichs), .krows(krows), .kcols(kcols), .orows(orows), .ocols(ocols),
      .in_channels(in_channels), .batch_size(batch_size), .weight_stride(weight_stride), .stride(stride),
      .kernel_dilation(kernel_dilation), .odd_up(odd_up), .odd_left(odd_left), .pool_size(pool_size),
      .pool_stride(pool_stride), .pool_upad(pool_upad), .pool_lpad(pool_lpad),
      .pool_out_col_dim(pool_out_col_dim), .pool_out_rows(pool_out_rows), .pool_out_cols(pool_out_cols),
      .out_stride(out_stride), .no_bias(no_bias), .wrot180(wrot180),
      .trans_weight_1203(trans_weight_1203), .trans_weight_0132(trans_weight_0132),
`ifdef BACO_PACKED_WEIGHTS
      .weights_packed(weights_packed),
`endif
      .trans_input_3120(trans_input_3120), .dw(dw), .no_pool(no_pool), .downsample(downsample),
      .dilated(dilated), .activation(activation), .a_spad_id(a_spad_id), .b_spad_id(b_spad_id),
      .pixels_per_row(pixels_per_row), .image_out(image_out), .block_out(block_out), .kernel_chs(kernel_chs),
      .kernel_line(kernel_line), .kernel_block(kernel_block), .weights_rows(weights_rows), .image_in(image_in),
      .block_in(block_in), .icols(icols), .pack_dilation(pack_dilation), .pack_chs(pack_chs),
      .rows_inside(rows_inside), .cols_inside(cols_inside), .pad_up(pad_up), .pad_down(pad_down),
      .pad_left(pad_left), .pad_right(pad_right), .weight_col(weight_col), .weight_row(weight_row),
      .weight_plane(weight_plane), .in_pixel(in_pixel), .in_line(in_line), .in_image(in_image),
      .out_pixel(out_pixel), .out_line(out_line), .out_image(out_image));

  // ---- phases and the loop each is at
  wire bias_active, weights_active, input_active, execute_active, store_active;
  reg bias_tag, weights_tag, input_tag, execute_tag, store_tag;
  reg store_dilated;
  reg execute_half_in, execute_half_w;         // halves of the scratchpad which execution reads

  // a_spad_id, b_spad_id: 0 the loop's own half, 1 the lower, 2 the upper
  wire input_half = a_spad_id == 2'd0 ? tag : a_spad_id[1];
  wire weights_half = b_spad_id == 2'd0 ? tag : b_spad_id[1];
  wire [ROW_BITS-1:0] input_start = input_half ? SP_HALF : NONE;
  wire [ROW_BITS-1:0] weights_start = (weights_half ? SP_HALF << 1 : SP_HALF) - weights_rows;
  wire [ROW_BITS-1:0] acc_start = acc_half ? ACC_HALF : NONE;

  // Execution that has not finished while the setup holds a loop it has not begun is of the loop before.
  wire older_execute = execute_active & !begun[3];
  wire begin_bias = loaded & !begun[0] & bias_ready & !bias_active & !(older_execute & same_half & bias_addr != 64'd0);
  wire begin_weights = loaded & !begun[1] & weights_ready & !weights_active
                       & !(older_execute & execute_half_w == weights_half & weights_addr != 64'd0);
  wire begin_input = loaded & !begun[2] & input_ready & !input_active
                     & !(older_execute & execute_half_in == input_half & input_addr != 64'd0);
  wire begin_execute = loaded & !begun[3] & execute_ready & !execute_active;
  wire begin_store = loaded & !begun[4] & store_ready & !store_active;

  wire [3:0] error;
  baco_loop_conv_check #(
      .DIM(DIM), .SP_ROWS(SP_ROWS), .ACC_ROWS(ACC_ROWS), .ROW_BITS(ROW_BITS), .MOST_LOG(MOST_LOG),
      .PRODUCT_BITS(PRODUCT_BITS)) check (
      .clock(clock), .reset(reset), .write(take), .run(run), .funct(in_funct), .rs1(in_rs1), .rs2(in_rs2), .error(error),
      .step(step), .product(product), .batches(batches), .ochs(ochs), .ichs(ichs), .krows(krows), .kcols(kcols),
      .orows(orows), .ocols(ocols), .stride(stride), .kernel_dilation(kernel_dilation),
      .output_null(output_addr == 64'd0), .wrot180(wrot180), .trans_weight_1203(trans_weight_1203),
      .trans_weight_0132(trans_weight_0132), .trans_input_3120(trans_input_3120), .dw(dw), .no_pool(no_pool),
      .downsample(downsample), .dilated(dilated), .activation(activation), .a_spad_id(a_spad_id),
      .b_spad_id(b_spad_id), .same_half(input_half == weights_half), .pixels_per_row(pixels_per_row),
      .overlong(overlong), .negative(rows_inside[19] | cols_inside[19]), .odd(odd),
      .weights_rows(weights_rows), .kernel_block(kernel_block), .image_in(image_in), .block_in(block_in),
      .image_out(image_out), .block_out(block_out), .preloaded(preloaded), .begin_execute(begin_execute),
      .begin_store(begin_store), .ex_set(ex_set), .ex_ws(ex_ws), .ex_transposes(ex_transposes),
      .ex_stride_a(ex_stride_a), .ex_stride_c(ex_stride_c), .st_set(st_set),
`ifdef BACO_ROW_FUNCTIONS
      .st_by_row(st_by_row),
`endif
      .st_plain(st_plain));
  reg judged;                       // the verdict is there
  reg [3:0] verdict;
  reg illegal;
  wire refuse = judged & illegal;
  wire refused;                     // the run command leaves
  always @(posedge clock) begin
    judged <= loaded & (&begun) & all_ready & !(judged & !illegal | refused) & !reset;
    verdict <= error;
    illegal <= error != `BACO_ERROR_NONE;
  end

  always @(posedge clock) begin
    if (reset) begin
      loaded <= 1'b0;
      tag <= 1'b1;
      acc_half_next <= 1'b0;
      same_half <= 1'b0;
    end else if (run) begin
      loaded <= 1'b1;
      tag <= !tag;
      acc_half <= acc_half_next;
      same_half <= acc_half == acc_half_next;
      acc_half_next <= acc_half_next ^ (output_addr != 64'd0);
      begun <= 5'd0;
    end else if (loaded) begin
      begun <= begun | {begin_store, begin_execute, begin_input, begin_weights, begin_bias};
      if (judged & !illegal | refused) loaded <= 1'b0;
      if (begin_bias) bias_tag <= tag;
      if (begin_weights) weights_tag <= tag;
      if (begin_input) input_tag <= tag;
      if (begin_execute) begin
        execute_tag <= tag;
        execute_half_in <= input_half;
        execute_half_w <= weights_half;
      end
      if (begin_store) begin
        store_tag <= tag;
        store_dilated <= dilated;
      end
    end
  end

  // What a phase is for the loop that execution (for execution: storing) is at: finished, or under way. Execution may
  // begin before loads of its loop do: those of the loop before can be busy yet with rows that no window reaches.
  wire bias_live = bias_active & bias_tag == execute_tag;
  wire weights_live = weights_active & weights_tag == execute_tag;
  wire input_live = input_active & input_tag == execute_tag;
  // A dilated loop has pixels that execution skips but that are stored: the bias of them all must be there.
  wire bias_missing = store_dilated & ((bias_active & bias_tag == store_tag) | (loaded & tag == store_tag & !begun[0]));
  wire execute_live = execute_active & execute_tag == store_tag & !bias_missing;
  wire [2:0] not_begun = loaded & tag == execute_tag ? ~begun[2:0] : 3'd0;
  wire bias_done = !bias_live & !not_begun[0];
  wire weights_done = !weights_live & !not_begun[1];
  wire input_done = !input_live & !not_begun[2];
  wire execute_done = !(execute_active & execute_tag == store_tag) & !(loaded & tag == store_tag & !begun[3])
                      & !bias_missing;

  wire [15:0] bias_group, weights_group, input_batch, execute_block, need_bias_group, need_weights_group;
  wire [ROW_BITS-1:0] bias_pixel, need_pixel;
  wire [31:0] weights_load, need_load;
  wire [19:0] input_row;
  wire execute_valid, store_valid;
  wire bias_take, weights_take, input_take, execute_take, store_take;
  wire [6:0] bias_funct, weights_funct, input_funct, execute_funct, store_funct;
  wire [63:0] bias_rs1, weights_rs1, input_rs1, execute_rs1, store_rs1;
  wire [63:0] bias_rs2, weights_rs2, input_rs2, execute_rs2, store_rs2;

  baco_loop_conv_bias #(.DIM(DIM), .DMA_MAX_BYTES(DMA_MAX_BYTES), .ROW_BITS(ROW_BITS)) bias (
      .clock(clock), .reset(reset | refuse), .start(begin_bias & bias_addr != 64'd0), .bias_addr(bias_addr),
      .no_bias(no_bias), .ochs(ochs), .ocols(ocols), .block_out(block_out), .acc_start(acc_start),
      .at_group(bias_group), .at_pixel(bias_pixel), .cmd_valid(bias_active), .cmd_ready(bias_take),
      .cmd_funct(bias_funct), .cmd_rs1(bias_rs1), .cmd_rs2(bias_rs2));

  baco_loop_conv_weights #(.DIM(DIM), .DMA_MAX_BYTES(DMA_MAX_BYTES), .ROW_BITS(ROW_BITS)) weights (
      .clock(clock), .reset(reset | refuse), .start(begin_weights & weights_addr != 64'd0), .weights_addr(weights_addr),
      .ochs(ochs), .ichs(ichs), .krows(krows), .kcols(kcols), .dw(dw), .trans_weight_1203(trans_weight_1203),
      .trans_weight_0132(trans_weight_0132), .in_channels(in_channels), .weight_stride(weight_stride),
`ifdef BACO_PACKED_WEIGHTS
      .weights_packed(weights_packed),
`endif
      .weight_col(weight_col), .weight_row(weight_row), .weight_plane(weight_plane), .kernel_chs(kernel_chs),
      .kernel_block(kernel_block), .sp_start(weights_start), .at_group(weights_group), .at_load(weights_load),
      .cmd_valid(weights_active), .cmd_ready(weights_take), .cmd_funct(weights_funct), .cmd_rs1(weights_rs1),
      .cmd_rs2(weights_rs2));

  baco_loop_conv_input #(.DIM(DIM), .DMA_MAX_BYTES(DMA_MAX_BYTES), .ROW_BITS(ROW_BITS)) input_phase (
      .clock(clock), .reset(reset | refuse), .start(begin_input & input_addr != 64'd0), .input_addr(input_addr),
      .batches(batches), .batch_size(batch_size), .ichs(ichs), .trans_input_3120(trans_input_3120),
      .downsample(downsample), .pixels_per_row(pixels_per_row), .rows_inside(rows_inside),
      .cols_inside(cols_inside), .pad_up(pad_up), .pad_down(pad_down), .pad_left(pad_left),
      .pad_right(pad_right), .in_pixel(in_pixel), .in_line(in_line), .in_image(in_image), .icols(icols),
      .image_in(image_in), .block_in(block_in), .sp_start(input_start), .at_batch(input_batch),
      .at_row(input_row), .cmd_valid(input_active), .cmd_ready(input_take), .cmd_funct(input_funct),
      .cmd_rs1(input_rs1), .cmd_rs2(input_rs2));

  baco_loop_conv_execute #(.DIM(DIM), .DMA_MAX_BYTES(DMA_MAX_BYTES), .ROW_BITS(ROW_BITS)) execute (
      .clock(clock), .reset(reset | refuse), .start(begin_execute), .batches(batches), .ochs(ochs), .ichs(ichs),
      .krows(krows), .kcols(kcols), .orows(orows), .ocols(ocols), .stride(stride),
      .kernel_dilation(kernel_dilation), .odd_up(odd_up), .odd_left(odd_left), .wrot180(wrot180),
      .trans_weight_0132(trans_weight_0132), .trans_input_3120(trans_input_3120), .downsample(downsample),
      .dilated(dilated), .pixels_per_row(pixels_per_row), .pack_dilation(pack_dilation), .pack_chs(pack_chs),
      .kernel_chs(kernel_chs), .kernel_line(kernel_line), .kernel_block(kernel_block), .icols(icols),
      .image_in(image_in), .block_in(block_in), .image_out(image_out), .block_out(block_out),
      .input_start(input_start), .weights_start(weights_start), .acc_start(acc_start), .bias_done(bias_done),
      .bias_live(bias_live), .bias_group(bias_group), .bias_pixel(bias_pixel), .weights_done(weights_done),
      .weights_live(weights_live), .weights_group(weights_group), .weights_load(weights_load),
      .input_done(input_done), .input_live(input_live), .input_batch(input_batch), .input_row(input_row),
      .need_bias_group(need_bias_group), .need_pixel(need_pixel), .need_weights_group(need_weights_group),
      .need_load(need_load), .at_block(execute_block), .active(execute_active), .cmd_valid(execute_valid),
      .cmd_ready(execute_take), .cmd_funct(execute_funct), .cmd_rs1(execute_rs1), .cmd_rs2(execute_rs2));

  baco_loop_conv_store #(.DIM(DIM), .ROW_BITS(ROW_BITS)) store (
      .clock(clock), .reset(reset | refuse), .start(begin_store & output_addr != 64'd0), .output_addr(output_addr),
      .batches(batches), .ochs(ochs), .orows(orows), .ocols(ocols), .no_pool(no_pool), .activation(activation),
      .out_stride(out_stride), .pool_size(pool_size), .pool_stride(pool_stride), .pool_upad(pool_upad),
      .pool_lpad(pool_lpad), .pool_out_col_dim(pool_out_col_dim), .pool_out_rows(pool_out_rows),
      .pool_out_cols(pool_out_cols), .out_pixel(out_pixel), .out_line(out_line), .out_image(out_image),
      .image_out(image_out), .block_out(block_out), .acc_start(acc_start), .execute_done(execute_done),
      .execute_live(execute_live), .execute_block(execute_block), .active(store_active),
      .cmd_valid(store_valid), .cmd_ready(store_take), .cmd_funct(store_funct), .cmd_rs1(store_rs1),
      .cmd_rs2(store_rs2));

  // ---- choice
  // While the setup holds a loop, load phases at another are at the older one.
  wire older_bias = loaded & bias_active & bias_tag != tag;
  wire older_weights = loaded & weights_active & weights_tag != tag;
  wire older_input = loaded & input_active & input_tag != tag;
  wire older = older_bias | older_weights | older_input;
  wire may_bias = bias_active & (!older | older_bias);
  wire may_weights = weights_active & (!older | older_weights);
  wire may_input = input_active & (!older | older_input);
  // About to be needed: fewer than two commands ahead of what execution stands on (its start, for a later loop).
  localparam [ROW_BITS-1:0] TWO_RUNS = DIM[ROW_BITS-1:0] << 1;
  wire [ROW_BITS:0] pixels_ahead = {1'b0, bias_pixel} - {1'b0, TWO_RUNS};      // none where the first bit is set
  wire [31:0] loads_ahead = weights_load - 32'd2;
  wire first_pixels = pixels_ahead[ROW_BITS];
  wire first_loads = weights_load < 32'd2;
  wire urgent_bias = bias_live & execute_active
                     ? bias_group < need_bias_group
                       || (bias_group == need_bias_group && (first_pixels || pixels_ahead[ROW_BITS-1:0] < need_pixel))
                     : bias_group == 16'd0 && first_pixels;
  wire urgent_weights = weights_live & execute_active
                        ? weights_group < need_weights_group
                          || (weights_group == need_weights_group && (first_loads || loads_ahead < need_load))
                        : weights_group == 16'd0 && first_loads;
  wire ld_bias = may_bias & (urgent_bias | !(may_input | may_weights));
  wire ld_weights = may_weights & !ld_bias & (urgent_weights | !may_input);
  wire ld_input = may_input & !ld_bias & !ld_weights;

  wire go_store = store_valid & st_space & !refuse;
  wire go_execute = execute_valid & ex_space & !go_store & !refuse;
  // Between a PRELOAD and its COMPUTE no load goes out: its rows, of which the reservation station knows the whole range
  // only, could seem to be the PRELOAD's, and the COMPUTE's operands could be behind it in the load queue.
  wire pair_open = execute_valid & execute_funct[6:1] == 6'd2;
  wire go_load = (may_bias | may_weights | may_input) & ld_space & !go_store & !go_execute & !pair_open & !refuse;
  assign store_take = go_store & out_ready;
  assign execute_take = go_execute & out_ready;
  assign bias_take = go_load & ld_bias & out_ready;
  assign weights_take = go_load & ld_weights & out_ready;
  assign input_take = go_load & ld_input & out_ready;

  assign refused = refuse & out_ready;
  wire loads_tag = ld_bias ? bias_tag : ld_weights ? weights_tag : input_tag;
  wire out_tag = go_store ? store_tag : go_execute ? execute_tag : loads_tag;
  wire go = go_store | go_execute | go_load;
  assign out_class = {go_store, go_execute, go_load};
  assign out_loop = go ? {2'b11, out_tag} : 3'd0;
  assign out_trial = go & loaded & out_tag == tag;
  assign out_error = refuse ? verdict : `BACO_ERROR_NONE;
  assign loops[0] = (loaded & !tag) | (bias_active & !bias_tag) | (weights_active & !weights_tag)
                    | (input_active & !input_tag) | (execute_active & !execute_tag) | (store_active & !store_tag);
  assign loops[1] = (loaded & tag) | (bias_active & bias_tag) | (weights_active & weights_tag)
                    | (input_active & input_tag) | (execute_active & execute_tag) | (store_active & store_tag);

  assign busy = loaded | bias_active | weights_active | input_active | execute_active | store_active;
  wire pass = !busy & !is_loop;
  assign in_ready = is_loop ? !loaded : !busy & out_ready;
  assign out_valid = go | refuse | (pass & in_valid);
  assign out_funct = refuse ? 7'd15 : go_store ? store_funct : go_execute ? execute_funct : !go_load ? in_funct :
                     ld_bias ? bias_funct : ld_weights ? weights_funct : input_funct;
  assign out_rs1 = refuse ? {44'd0, flags1} : go_store ? store_rs1 : go_execute ? execute_rs1 : !go_load ? in_rs1 :
                   ld_bias ? bias_rs1 : ld_weights ? weights_rs1 : input_rs1;
  assign out_rs2 = refuse ? {59'd0, flags2} : go_store ? store_rs2 : go_execute ? execute_rs2 : !go_load ? in_rs2 :
                   ld_bias ? bias_rs2 : ld_weights ? weights_rs2 : input_rs2;
  assign out_rd = busy ? 5'd0 : in_rd;
  assign out_xd = busy ? 1'b0 : in_xd;
endmodule
