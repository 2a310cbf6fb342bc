// From local rows to bytes of memory: picks a row up the cycle after its read was accepted, cuts it into slices no
// wider than the bus, applies ReLU and scale to accumulator elements, takes the maximum over pooling windows, and queues
// the slices in order.
//
// A slice is LANES int8 elements, or as many bytes of raw int32 elements as the bus has, so that one slice a cycle fills the bus where
// there are lanes for it; wider rows take several cycles and wait in `hold` meanwhile. Nothing after the first stage can stall: a slice only
// leaves it with a credit for a place in the queue behind. Slices that are not scaled take a shorter way and wait
// until no scaled one is left that they could overtake; this costs three cycles when the kind of store changes.
module baco_store_convert #(
    parameter DIM = 16,        // elements in a local row
    parameter DMA_BITS = 128,  // memory bus
    parameter LANES = 16,      // elements in a slice, a part of DIM
    parameter ADDR_BITS = 40   // memory address
) (
    input wire clock,
    input wire reset,
    output wire room,                            // a read may be made in this cycle
    output wire room_next,                       // there will be in the next one, whatever happens
    input wire item_taken,                       // it is made (or the item is zero); its data come in the next cycle
    input wire item_late,                        // ... it was made a cycle ago: there is room
    input wire [ADDR_BITS-1:0] item_addr,        // address of its first byte
    input wire [9:0] item_bytes,                 // bytes of the row that are stored, not 0
    input wire item_acc,                         // source: accumulator, else scratchpad
    input wire item_full,                        // raw int32 elements
    input wire item_spad,                        // destination: scratchpad, else memory
    input wire item_zero,                        // padding: counts as zeros
    input wire item_first,                       // first of its window
    input wire item_emit,                        // last of its window: the result is stored
`ifdef BACO_ROW_FUNCTIONS
    input wire [1:0] item_function,              // of its elements
    input wire [1:0] item_pass,                  // of functions of rows: results in the last, 2
    input wire [6:0] item_index,                 // row of the store
    input wire [7:0] item_count,                 // elements that take part
    input wire item_end,                         // last item of its row
    input wire function_start,                   // a store of rows begins
    input wire function_softmax,                 // ... with this configuration, constant while there is something in here
    input wire function_centre,
    input wire function_product,
    input wire [4:0] function_shift,
    input wire [31:0] function_numerator,
    input wire [47:0] function_epsilon,
    input wire [15:0] function_elements,
    input wire table_write,
    input wire [7:0] table_index,
    input wire [15:0] table_entry,
    input wire parameters_valid,                 // acc_read_data are gains and offsets
    output wire parameters_taken,
    output wire [DIM-1:0] summable,
    output wire [DIM-1:0] finished,
`endif
`ifdef BACO_NORMALIZATIONS
    input wire item_resets,                      // results of accumulator rows: statistics begin anew
    input wire item_row_end,                     // last item of its row
    input wire [2:0] item_norm,                  // normaliser command: statistics, which are no results
    input wire [2:0] activation,                 // of accumulator elements: 2 layer norm, 3 I-GELU, 4 softmax
    input wire norm_slot,                        // of statistics
    input wire [31:0] norm_qb,                   // constants, which do not change while there is something in here
    input wire [31:0] norm_qc,
    input wire [31:0] norm_qln2,
    input wire [31:0] norm_qln2_inv,
`endif
`ifdef BACO_REQUANTIZATION
    input wire by_column,                        // accumulator elements have the scales of their columns, not `scale`
    input wire [DIM*32-1:0] column_scales,       // float32 bits; all of these do not change while there is something in here
    input wire [7:0] out_zero,                   // added to what was scaled and rounded
    input wire [7:0] out_low,                    // limits of the sum
    input wire [7:0] out_high,
`endif
    input wire relu,                             // of accumulator elements, taken with the item
    input wire [31:0] scale,                     // of accumulator elements, float32 bits, taken with the item
    input wire [DIM*`ELEMENT_BITS-1:0] sp_read_data,         // valid in the cycle after the read only
    input wire [DIM*32-1:0] acc_read_data,       // likewise
    output wire slice_valid,                     // the oldest slice
    input wire slice_ready,                      // it is taken in this cycle
    output wire [ADDR_BITS-1:0] slice_addr,      // address of its first byte
    output wire [6:0] slice_bytes,               // bytes that count, 1..SLICE
    output wire slice_spad,                      // as item_spad
    output wire [(4*DIM < DMA_BITS/8 ? 4*DIM : DMA_BITS/8)*8-1:0] slice_data,
    output wire starved,                         // a row waits since the queue behind is full
    output wire busy                             // rows or slices are in here
);
  localparam BUS = DMA_BITS / 8;
  localparam SLICE = 4 * DIM < BUS ? 4 * DIM : BUS;     // bytes in a slice of raw elements
  localparam GROUPS = DIM / LANES;                      // slices in an int8 row
  localparam INDEX_BITS = GROUPS > 1 ? $clog2(GROUPS) : 1;
  localparam CARRIED = ADDR_BITS + 7 + 1;
`ifdef BACO_REQUANTIZATION
  localparam LIMITING = 1;                              // cycles
`else
  localparam LIMITING = 0;
`endif
`ifdef BACO_ROW_FUNCTIONS
  localparam DEPTH = 14 + LIMITING;                     // one more than a slice's cycles from credit to credit
  localparam FUNCTION = 2 + 2 + 7 + 8 + 1 + 1;
  localparam META = FUNCTION + CARRIED;
`else
  localparam DEPTH = 8 + LIMITING;                      // one more than a slice's cycles from credit to credit
  localparam META = CARRIED;
`endif
`ifdef BACO_WIDE_ELEMENTS
  localparam [9:0] LANES_10 = {LANES[8:0], 1'b0};       // bytes
`else
  localparam [9:0] LANES_10 = LANES[9:0];
`endif
  localparam [9:0] SLICE_10 = SLICE[9:0];
  localparam [ADDR_BITS-1:0] LANES_ADDR = {{(ADDR_BITS-10){1'b0}}, LANES_10};
  localparam [ADDR_BITS-1:0] SLICE_ADDR = {{(ADDR_BITS-10){1'b0}}, SLICE_10};

  // the row being cut
  reg arrived;                                   // its data are on a read port
  reg held;                                      // what is left of it is in `hold`
  reg [DIM*32-1:0] hold;
  reg [ADDR_BITS-1:0] src_addr;
  reg [9:0] src_bytes;
  reg [INDEX_BITS-1:0] src_index;
  reg src_acc, src_full, src_spad, src_zero, src_first, src_emit, src_relu;
  reg [31:0] src_scale;
`ifdef SYNTHESIS
  localparam SKIP = 0;
`else
  localparam SKIP = 1;                           // simulators skip what nothing will look at
`endif
`ifdef BACO_ACC_SCALE
  localparam TAG = 3 + INDEX_BITS + META;
  reg [31:0] scale_scale;                        // to the scaling unit
  reg [LANES*32-1:0] scale_data;
  reg scale_relu;
  reg [TAG-1:0] tag_0;                           // what belongs to the vector; tag_1.. follow it through the unit
  wire src_short = !src_acc || src_full;
  wire scaling;                                  // a slice is in the scaling unit that a short one would overtake
`else
  wire src_short = 1'b1;
  wire scaling = 1'b0;
`endif
`ifdef BACO_NORMALIZATIONS
  reg src_resets, src_row_end, src_slot;
  reg [2:0] src_norm, src_activation;
  wire src_normal = src_acc && !src_full && (src_norm != 3'd0 || src_activation > 3'd1);  // goes through the normaliser
  wire norm_busy, norm_valid;
  wire [LANES*32-1:0] norm_data;
  wire [31:0] norm_scale;
`else
  wire norm_busy = 1'b0;
`ifdef BACO_ACC_SCALE
  wire src_normal = 1'b0;
  wire norm_valid = 1'b0;
`endif
`endif
  reg [3:0] credits;
  wire src_valid = arrived || held;
  wire credit = !src_emit || credits != 4'd0;
  wire cut = src_valid && credit && !norm_busy && !(src_short && scaling);
  wire [9:0] cut_size = src_full ? SLICE_10 : LANES_10;
  wire cut_last = src_bytes <= cut_size;
  wire [9:0] cut_bytes = cut_last ? src_bytes : cut_size;
`ifdef BACO_ROW_FUNCTIONS
  localparam [7:0] LANES_8 = LANES[7:0];
  reg [1:0] src_function, src_pass;
  reg [6:0] src_row;
  reg [7:0] src_count;
  reg src_end;
  wire [7:0] cut_count = src_count < LANES_8 ? src_count : LANES_8;
  wire [META-1:0] cut_meta = {src_function, src_pass, src_row, cut_count, src_end && cut_last,
                              cut_last && src_function == 2'd3 && src_pass == 2'd2, src_spad, cut_bytes[6:0], src_addr};
`else
  wire [META-1:0] cut_meta = {src_spad, cut_bytes[6:0], src_addr};
`endif
  assign room = !src_valid || (cut && cut_last);
  // What stays in here is a slice of the short way, which nothing holds up.
  wire flows = !norm_busy && !scaling && (!src_valid || src_short) && credits > 4'd1;
  assign room_next = item_late ? flows && item_bytes <= LANES_10
                               : !src_valid || (cut && (cut_last || (flows && src_bytes <= cut_size << 1)));
  assign starved = src_valid && !credit;

  // unscaled slices, one register
  reg short_valid;
  reg [SLICE*8-1:0] short_data;
  reg short_zero, short_first, short_emit;
  reg [INDEX_BITS-1:0] short_index;
  reg [META-1:0] short_meta;

  reg [DIM*32-1:0] row;
`ifndef BACO_ACC_SCALE
  reg [31:0] element;
  integer i;
`endif
`ifdef BACO_FP8
  wire [LANES*32-1:0] sums = held ? hold[LANES*32-1:0] : acc_read_data[LANES*32-1:0];
  wire [LANES*`ELEMENT_BITS-1:0] narrow;
`ifdef BACO_FP8_SCALE
  wire [7:0] power = src_scale[30:23];
`else
  wire [7:0] power = 8'd127;
`endif
  genvar column;
  generate
    for (column = 0; column < LANES; column = column + 1) begin : result
      `NARROW narrowed (.relu(src_relu), .power(power), .x(sums[column*32 +: 32]), .code(narrow[column*`ELEMENT_BITS +: `ELEMENT_BITS]));
    end
  endgenerate
`endif

  // verilator lint_off BLKSEQ
  // (`row` and, where there is one, `element` are names within this block)
  always @(posedge clock) begin
    arrived <= item_taken;
    held <= src_valid && !(cut && cut_last);
    short_valid <= cut && src_short;
    if (src_valid || SKIP == 0) begin
      row = held ? hold : acc_read_data;
      if (!held && !src_acc)
        row[DIM*`ELEMENT_BITS-1:0] = sp_read_data;
      if ((cut && src_short) || SKIP == 0) begin
        short_data <= row[SLICE*8-1:0];
`ifndef BACO_ACC_SCALE
        if (src_acc && !src_full)
`ifdef BACO_FP8
          short_data[LANES*`ELEMENT_BITS-1:0] <= narrow;
`else
          for (i = 0; i < LANES; i = i + 1) begin
            element = row[i*32 +: 32];
            if (src_relu && element[31])
              short_data[i*`ELEMENT_BITS +: `ELEMENT_BITS] <= `ELEMENT_BITS'd0;
            else if (element[31:`ELEMENT_TOP] != {`ELEMENT_BEYOND{element[31]}})
              short_data[i*`ELEMENT_BITS +: `ELEMENT_BITS] <= {element[31], {`ELEMENT_TOP{!element[31]}}};
            else
              short_data[i*`ELEMENT_BITS +: `ELEMENT_BITS] <= element[`ELEMENT_TOP:0];
          end
`endif
`endif
        short_zero <= src_zero;
        short_first <= src_first;
        short_emit <= src_emit;
        short_index <= src_index;
        short_meta <= cut_meta;
      end
`ifdef BACO_ACC_SCALE
      if ((cut && !src_short) || SKIP == 0) begin
        scale_scale <= src_scale;
        scale_relu <= src_relu;
        scale_data <= held ? hold[LANES*32-1:0] : acc_read_data[LANES*32-1:0];
        tag_0 <= {src_zero, src_first, src_emit, src_index, cut_meta};
      end
`endif
      // keep what is left
      if (!cut)
        hold <= row;
      else if (!cut_last || SKIP == 0)
        hold <= src_full ? row >> (SLICE*8) : src_acc ? row >> (LANES*32) : row >> (LANES*`ELEMENT_BITS);
      if (cut) begin
        src_addr <= src_addr + (src_full ? SLICE_ADDR : LANES_ADDR);
        src_bytes <= src_bytes - cut_size;
        src_index <= src_index + {{(INDEX_BITS-1){1'b0}}, 1'b1};
`ifdef BACO_ROW_FUNCTIONS
        src_count <= src_count - cut_count;
`endif
      end
    end
    if (item_taken) begin
      src_addr <= item_addr;
      src_bytes <= item_bytes;
      src_index <= {INDEX_BITS{1'b0}};
      src_acc <= item_acc;
      src_full <= item_full;
      src_spad <= item_spad;
      src_zero <= item_zero;
      src_first <= item_first;
      src_emit <= item_emit;
`ifdef BACO_NORMALIZATIONS
      src_relu <= relu && item_norm == 3'd0;
`else
      src_relu <= relu;
`endif
      src_scale <= scale;
`ifdef BACO_NORMALIZATIONS
      src_resets <= item_resets;
      src_row_end <= item_row_end;
      src_norm <= item_norm;
      src_activation <= activation;
      src_slot <= norm_slot;
`endif
`ifdef BACO_ROW_FUNCTIONS
      src_function <= item_function;
      src_pass <= item_pass;
      src_row <= item_index;
      src_count <= item_count;
      src_end <= item_end;
`endif
    end
    if (reset) begin
      arrived <= 1'b0;
      held <= 1'b0;
      short_valid <= 1'b0;
    end
  end
  // verilator lint_on BLKSEQ

`ifdef BACO_ACC_SCALE
  reg scale_valid, tag_1_valid, tag_2_valid;
  reg [TAG-1:0] tag_1, tag_2, tag_3;
  wire scaled_valid;
  wire [LANES*`ELEMENT_BITS-1:0] scaled_data;
  wire scale_now = scale_valid || norm_valid;
`ifdef BACO_REQUANTIZATION
  // With nine bits of it, what is beyond is still beyond the limits once the zero point, of eight bits, was added.
  reg [LANES*32-1:0] lane_scales;
  wire [INDEX_BITS-1:0] index_0 = tag_0[META +: INDEX_BITS];
  wire rounded_valid;
  wire [LANES*9-1:0] rounded_data;
  reg limited_valid;
  reg [LANES*`ELEMENT_BITS-1:0] limited_data;
  reg [TAG-1:0] tag_4;
  reg signed [9:0] moved;
  integer k;
  assign scaling = scale_now || tag_1_valid || tag_2_valid || rounded_valid;
  assign scaled_valid = limited_valid;
  assign scaled_data = limited_data;

  // verilator lint_off BLKSEQ
  // (`moved` is a name within the second block)
  always @* begin
    lane_scales = {LANES{scale_scale}};
    if (by_column)
      for (k = 0; k < GROUPS; k = k + 1)
        if (GROUPS == 1 || index_0 == k[INDEX_BITS-1:0])
          lane_scales = column_scales[k*LANES*32 +: LANES*32];
  end
  always @(posedge clock) begin
    limited_valid <= rounded_valid && !reset;
    if (rounded_valid || SKIP == 0) begin
      for (k = 0; k < LANES; k = k + 1) begin
        moved = $signed({rounded_data[k*9+8], rounded_data[k*9 +: 9]}) + $signed({{2{out_zero[7]}}, out_zero});
        if (moved < $signed({{2{out_low[7]}}, out_low}))
          moved = $signed({{2{out_low[7]}}, out_low});
        if (moved > $signed({{2{out_high[7]}}, out_high}))
          moved = $signed({{2{out_high[7]}}, out_high});
        limited_data[k*8 +: 8] <= moved[7:0];
      end
      tag_4 <= tag_3;
    end
  end
  // verilator lint_on BLKSEQ

  baco_scale #(.LANES(LANES), .SCALES(LANES), .IN_BITS(32), .OUT_BITS(9)) u_scale (
      .clock(clock),
      .in_valid(scale_valid),
      .in_scale(lane_scales),
      .in_data(scale_data),
      .in_relu(scale_relu),
      .out_valid(rounded_valid),
      .out_data(rounded_data)
  );
`else
  assign scaling = scale_now || tag_1_valid || tag_2_valid;

  baco_scale #(.LANES(LANES), .IN_BITS(32), .OUT_BITS(`ELEMENT_BITS)) u_scale (
      .clock(clock),
      .in_valid(scale_now),
`ifdef BACO_NORMALIZATIONS
      .in_scale(norm_valid ? norm_scale : scale_scale),
      .in_data(norm_valid ? norm_data : scale_data),
      .in_relu(scale_relu && !norm_valid),
`else
      .in_scale(scale_scale),
      .in_data(scale_data),
      .in_relu(scale_relu),
`endif
      .out_valid(scaled_valid),
      .out_data(scaled_data)
  );
`endif

  always @(posedge clock) begin
    scale_valid <= cut && !src_short && !src_normal && !reset;
    tag_1_valid <= scale_now && !reset;
    tag_2_valid <= tag_1_valid && !reset;
    if (scale_now || SKIP == 0) tag_1 <= tag_0;
    if (tag_1_valid || SKIP == 0) tag_2 <= tag_1;
    if (tag_2_valid || SKIP == 0) tag_3 <= tag_2;
  end

`ifdef BACO_NORMALIZATIONS
  // what the normaliser takes is in `scale_data` in the cycle after it was cut
  reg norm_go, norm_last, norm_for;
  reg [2:0] norm_command, norm_activation;
  reg [7:0] norm_count;
  wire norm_working;
  always @(posedge clock) begin
    norm_go <= cut && src_normal && !reset;
    if (cut) begin
      norm_last <= src_row_end && cut_last;
      norm_for <= src_slot;
      norm_command <= src_norm;
      norm_activation <= src_activation;
      norm_count <= cut_bytes[7:0];
    end
  end
  assign norm_busy = norm_go || norm_working;
  baco_normalizer #(.LANES(LANES)) u_normalizer (
      .clock(clock),
      .reset(reset),
      .qb(norm_qb),
      .qc(norm_qc),
      .qln2(norm_qln2),
      .qln2_inv(norm_qln2_inv),
      .in_reset(cut && src_resets && src_norm == 3'd0),
      .in_reset_slot(src_slot),
      .in_valid(norm_go),
      .in_slot(norm_for),
      .in_command(norm_command),
      .in_activation(norm_activation),
      .in_last(norm_last),
      .in_count(norm_count),
      .in_data(scale_data),
      .in_scale(scale_scale),
      .busy(norm_working),
      .out_valid(norm_valid),
      .out_data(norm_data),
      .out_scale(norm_scale)
  );
`endif

  wire done_valid = short_valid || scaled_valid;
  wire [LANES*`ELEMENT_BITS-1:0] done_data = scaled_valid ? scaled_data : short_data[LANES*`ELEMENT_BITS-1:0];
  wire done_zero, done_first, done_emit;
  wire [INDEX_BITS-1:0] done_index;
  wire [META-1:0] done_meta;
  assign {done_zero, done_first, done_emit, done_index, done_meta} =
`ifdef BACO_REQUANTIZATION
      scaled_valid ? tag_4 : {short_zero, short_first, short_emit, short_index, short_meta};
`else
      scaled_valid ? tag_3 : {short_zero, short_first, short_emit, short_index, short_meta};
`endif
`else
  wire done_valid = short_valid;
  wire [LANES*`ELEMENT_BITS-1:0] done_data = short_data[LANES*`ELEMENT_BITS-1:0];
  wire done_zero = short_zero;
  wire done_first = short_first;
  wire done_emit = short_emit;
  wire [INDEX_BITS-1:0] done_index = short_index;
  wire [META-1:0] done_meta = short_meta;
`endif

`ifdef BACO_ROW_FUNCTIONS
  localparam AROUND = 3 + INDEX_BITS + CARRIED;
  wire result_valid, result_zero, result_first, result_emit;
  wire [INDEX_BITS-1:0] result_index;
  wire [CARRIED-1:0] result_meta;
  wire [SLICE*8-1:0] result_bytes;
  wire functions_busy;
  reg [SLICE*8-1:0] done_bytes;
  always @* begin
    done_bytes = short_data;
    done_bytes[LANES*`ELEMENT_BITS-1:0] = done_data;
  end
  baco_functions #(.DIM(DIM), .LANES(LANES), .SLICE(SLICE), .META(AROUND)) u_functions (
      .clock(clock),
      .reset(reset),
      .clear(function_start),
      .softmax(function_softmax),
      .centre(function_centre),
      .product(function_product),
      .shift(function_shift),
      .numerator(function_numerator),
      .epsilon(function_epsilon),
      .elements(function_elements),
      .table_write(table_write),
      .table_index(table_index),
      .table_entry(table_entry),
      .parameters_valid(parameters_valid),
      .parameters(acc_read_data),
      .parameters_taken(parameters_taken),
      .in_valid(done_valid),
      .in_function(done_meta[CARRIED+19 +: 2]),
      .in_pass(done_meta[CARRIED+17 +: 2]),
      .in_row(done_meta[CARRIED+10 +: 7]),
      .in_count(done_meta[CARRIED+2 +: 8]),
      .in_end(done_meta[CARRIED+1]),
      .in_pop(done_meta[CARRIED]),
      .in_index(done_index),
      .in_data(done_bytes),
      .in_meta({done_zero, done_first, done_emit, done_index, done_meta[CARRIED-1:0]}),
      .out_valid(result_valid),
      .out_data(result_bytes),
      .out_meta({result_zero, result_first, result_emit, result_index, result_meta}),
      .summable(summable),
      .finished(finished),
      .busy(functions_busy)
  );
  wire [LANES*`ELEMENT_BITS-1:0] result_data = result_bytes[LANES*`ELEMENT_BITS-1:0];
`else
  wire result_valid = done_valid;
  wire result_zero = done_zero;
  wire result_first = done_first;
  wire result_emit = done_emit;
  wire [INDEX_BITS-1:0] result_index = done_index;
  wire [META-1:0] result_meta = done_meta;
  wire [LANES*`ELEMENT_BITS-1:0] result_data = done_data;
  wire [SLICE*8-1:0] result_bytes = short_data;
  wire functions_busy = 1'b0;
`endif

  // pooling, and the register in front of the queue
  reg put_valid;
  reg [SLICE*8-1:0] put_data;
  reg [CARRIED-1:0] put_meta;
`ifdef BACO_MAX_POOL
  // verilator lint_off BLKSEQ
  // (`best`, `lane` and `other` are names within this block)
  reg [LANES*`ELEMENT_BITS-1:0] best_so_far [0:GROUPS-1];
  reg [LANES*`ELEMENT_BITS-1:0] best;
  reg [`ELEMENT_TOP:0] lane;
  integer j;
`ifdef BACO_FP8
  reg [`ELEMENT_TOP:0] other;
`endif
  always @(posedge clock) begin
    put_valid <= result_valid && result_emit && !reset;
    if (result_valid) begin
      put_data <= result_bytes;
      put_meta <= result_meta;
      if (result_first && result_emit && !result_zero)
        put_data[LANES*`ELEMENT_BITS-1:0] <= result_data;
      else begin
        best = best_so_far[result_index];
        for (j = 0; j < LANES; j = j + 1) begin
          lane = result_zero ? `ELEMENT_BITS'd0 : result_data[j*`ELEMENT_BITS +: `ELEMENT_BITS];
`ifdef BACO_FP8
          // a code is a sign and a size
          other = best[j*`ELEMENT_BITS +: `ELEMENT_BITS];
          if (result_first || $signed({lane[`ELEMENT_TOP], lane[`ELEMENT_TOP-1:0] ^ {`ELEMENT_TOP{lane[`ELEMENT_TOP]}}}) > $signed({other[`ELEMENT_TOP], other[`ELEMENT_TOP-1:0] ^ {`ELEMENT_TOP{other[`ELEMENT_TOP]}}}))
`else
          if (result_first || $signed(lane) > $signed(best[j*`ELEMENT_BITS +: `ELEMENT_BITS]))
`endif
            best[j*`ELEMENT_BITS +: `ELEMENT_BITS] = lane;
        end
        best_so_far[result_index] <= best;
        put_data[LANES*`ELEMENT_BITS-1:0] <= best;
      end
    end
  end
  // verilator lint_on BLKSEQ
`else
  always @(posedge clock) begin
    put_valid <= result_valid && !reset;
    if (result_valid) begin
      put_data <= result_bytes;
      put_data[LANES*`ELEMENT_BITS-1:0] <= result_data;
      put_meta <= result_meta;
    end
  end
  wire _unused_pool = &{1'b0, result_zero, result_first, result_emit, result_index};
`endif

  wire queue_ready;
  baco_fifo #(.WIDTH(CARRIED + SLICE*8), .DEPTH(DEPTH)) u_slices (
      .clock(clock),
      .reset(reset),
      .in_valid(put_valid),
      .in_ready(queue_ready),
      .in_data({put_meta, put_data}),
      .out_valid(slice_valid),
      .out_ready(slice_ready),
      .out_data({slice_spad, slice_bytes, slice_addr, slice_data})
  );

  wire spend = cut && src_emit;
  wire earn = slice_valid && slice_ready;
  always @(posedge clock) begin
    if (reset)
      credits <= DEPTH[3:0];
    else if (spend && !earn)
      credits <= credits - 4'd1;
    else if (earn && !spend)
      credits <= credits + 4'd1;
  end
  assign busy = src_valid || norm_busy || short_valid || scaling || done_valid || functions_busy || put_valid || slice_valid;
  wire _unused = &{1'b0, queue_ready, cut_bytes[9:7], src_relu, src_scale};
endmodule
