// The execute unit: PRELOAD, COMPUTE and config_ex in, results out.
//
// Commands become operations of two streams that run side by side through the array (baco_mesh): the multiply stream
// (a COMPUTE) and the exchange stream (the stationary operand of a PRELOAD moving into the shadow registers and,
// output-stationary, the last result moving out). Each takes its operands from a fetch unit of its own, which runs
// ahead. A COMPUTE_PRELOADED flips the registers with its first wave, once the exchange for it is complete; the next
// exchange may begin with the same wave. So neither new weights nor short operands leave a bubble.
module baco_execute #(
    parameter DIM = 16,
    parameter TILE_ROWS = 1,
    parameter PSUM_BITS = 32,
    parameter SP_AW = 14,
    parameter ACC_AW = 10,
    parameter AW = 14,                            // the larger of the two
    parameter EX_QUEUE = 8,
    parameter ID_BITS = 6
) (
    input wire clock,
    input wire reset,
    input wire cmd_valid,
    output wire cmd_ready,
    input wire [ID_BITS-1:0] cmd_id,
    input wire [6:0] cmd_funct,
    input wire [63:0] cmd_rs1,
    input wire [63:0] cmd_rs2,
    output wire done_valid,                       // config_ex, or a COMPUTE whose last wave has gone
    output wire [ID_BITS-1:0] done_id,
    output wire written_valid,                    // a PRELOAD whose result is in local memory
    output wire [ID_BITS-1:0] written_id,
    output wire dropped_valid,                    // a PRELOAD without a result, when its COMPUTE starts
    output wire [ID_BITS-1:0] dropped_id,
    output wire [2:0] read_valid,                 // operands: 0 stationary, 1 multiplicand, 2 multiplier or bias
    input wire [2:0] read_ready,
    output wire [3*SP_AW-1:0] read_row,
    input wire [3*DIM*`ELEMENT_BITS-1:0] read_data,           // two cycles after the request was taken
    output reg sp_write_valid,                    // never refused
    output reg [SP_AW-1:0] sp_write_row,
    output reg [DIM*`ELEMENT_BITS-1:0] sp_write_data,
    output reg acc_write_valid,                   // never refused
    output reg [ACC_AW-1:0] acc_write_row,
    output reg acc_write_accumulate,
    output reg [DIM*32-1:0] acc_write_data,
    output reg [DIM-1:0] write_mask,              // of whichever write it is
    output wire busy,                             // more than a lone PRELOAD is here
    output wire multiplying,                      // a wave with a multiplicand enters the array
    output wire [15:0] events                     // [0] active [1] flush [2] control queue blocked [3] stationary operand late
                                                  // [4] flip waits [5..7] operand a, b, d late [8..10] a, b, d garbage
);
  localparam CW = $clog2(DIM + 1);
  localparam G = DIM / TILE_ROWS;
  localparam LATENCY = 2 * G;                     // of the array
  localparam AT = 2 + 2 * AW;                     // of what follows C's address and stride
  localparam INFO = AT + CW + CW + ID_BITS + 1 + 5;
  localparam [31:0] DIM_VALUE = DIM;
  localparam [CW-1:0] FULL = DIM_VALUE[CW-1:0];
`ifdef SYNTHESIS
  localparam SKIP = 0;
`else
  localparam SKIP = 1;                            // simulators skip what nothing will look at
`endif

  // ---------------------------------------------------------------- operations
  wire idle;
  wire drained;
  wire os;
  wire relu;
  wire [4:0] shift;
  wire transpose_a, transpose_b, transpose_x;
  wire op_valid, op_ready, op_flip, op_c, op_a, op_b, op_x;
  wire [31:0] op_c_local;
  wire [15:0] op_c_stride, a_stride;
  wire [CW-1:0] op_c_rows, op_c_cols, op_waves, a_rows, a_total, a_lanes, b_rows, b_total, b_lanes, x_rows, x_lanes;
  wire [ID_BITS-1:0] op_preload_id, op_compute_id, config_id;
  wire [SP_AW-1:0] a_base, b_base, x_base;
  wire config_done;
  wire waiting;
  wire m_pop;                                     // the last wave of a COMPUTE goes

  baco_execute_decode #(.DIM(DIM), .SP_AW(SP_AW), .AW(AW), .EX_QUEUE(EX_QUEUE), .ID_BITS(ID_BITS), .CW(CW)) decode (
      .clock(clock), .reset(reset), .cmd_valid(cmd_valid), .cmd_ready(cmd_ready), .cmd_id(cmd_id),
      .cmd_funct(cmd_funct), .cmd_rs1(cmd_rs1), .cmd_rs2(cmd_rs2), .config_done(config_done), .config_id(config_id),
      .done_taken(m_pop), .idle(idle), .drained(drained), .os(os), .relu(relu), .shift(shift), .transpose_a(transpose_a),
      .transpose_b(transpose_b), .transpose_x(transpose_x), .op_valid(op_valid), .op_ready(op_ready),
      .op_flip(op_flip), .op_c(op_c), .op_c_local(op_c_local), .op_c_stride(op_c_stride), .op_c_rows(op_c_rows),
      .op_c_cols(op_c_cols), .op_preload_id(op_preload_id), .op_compute_id(op_compute_id), .op_waves(op_waves),
      .op_a(op_a), .a_base(a_base), .a_stride(a_stride), .a_rows(a_rows), .a_total(a_total), .a_lanes(a_lanes),
      .op_b(op_b), .b_base(b_base), .b_rows(b_rows), .b_total(b_total), .b_lanes(b_lanes),
      .op_x(op_x), .x_base(x_base), .x_rows(x_rows), .x_lanes(x_lanes), .waiting(waiting));

  wire [AW-1:0] c_stride;                         // rows wrap
  generate
    if (AW > 16) begin : wide_stride
      assign c_stride = {{(AW-16){1'b0}}, op_c_stride};
    end else begin : narrow_stride
      assign c_stride = op_c_stride[AW-1:0];
    end
  endgenerate

  localparam M_WIDTH = INFO + 1 + 1 + 1 + 1 + CW + ID_BITS;
  wire m_room, a_room, b_room, x_room, xf_room;
  wire take = op_valid && op_ready;
  assign op_ready = m_room && a_room && b_room && x_room && xf_room;

  wire m_valid;
  wire [M_WIDTH-1:0] m_op;
  wire [INFO-1:0] m_info;                         // {shift, relu, preload id, C cols, C rows, C stride, C local's flags and row}
  wire m_flip, m_a, m_b, m_c;
  wire [CW-1:0] m_waves;
  wire [ID_BITS-1:0] m_id;
  assign {m_id, m_waves, m_flip, m_a, m_b, m_c, m_info} = m_op;
  baco_fifo #(.WIDTH(M_WIDTH), .DEPTH(4)) m_ops (
      .clock(clock), .reset(reset), .in_valid(take), .in_ready(m_room),
      .in_data({op_compute_id, op_waves, op_flip, op_a, op_b, op_c,
                shift, relu, op_preload_id, op_c_cols, op_c_rows, c_stride, op_c_local[31:30], op_c_local[AW-1:0]}),
      .out_valid(m_valid), .out_ready(m_pop), .out_data(m_op));

  wire x_valid, x_pop, x_real;
  baco_fifo #(.WIDTH(1), .DEPTH(4)) x_ops (
      .clock(clock), .reset(reset), .in_valid(take && op_flip), .in_ready(x_room), .in_data(op_x),
      .out_valid(x_valid), .out_ready(x_pop), .out_data(x_real));

  // ---------------------------------------------------------------- operands
  localparam F_WIDTH = SP_AW + 16 + 3 * CW;
  wire fa_valid, fa_pop, fb_valid, fb_pop, fx_valid, fx_pop;
  wire [F_WIDTH-1:0] fa_op, fb_op, fx_op;
  baco_fifo #(.WIDTH(F_WIDTH), .DEPTH(4)) a_ops (
      .clock(clock), .reset(reset), .in_valid(take && op_a), .in_ready(a_room),
      .in_data({a_base, a_stride, a_rows, a_total, a_lanes}),
      .out_valid(fa_valid), .out_ready(fa_pop), .out_data(fa_op));
  baco_fifo #(.WIDTH(F_WIDTH), .DEPTH(4)) b_ops (
      .clock(clock), .reset(reset), .in_valid(take && op_b), .in_ready(b_room),
      .in_data({b_base, 16'd1, b_rows, b_total, b_lanes}),
      .out_valid(fb_valid), .out_ready(fb_pop), .out_data(fb_op));
  baco_fifo #(.WIDTH(F_WIDTH), .DEPTH(4)) xf_ops (
      .clock(clock), .reset(reset), .in_valid(take && op_flip && op_x), .in_ready(xf_room),
      .in_data({x_base, 16'd1, x_rows, FULL, x_lanes}),
      .out_valid(fx_valid), .out_ready(fx_pop), .out_data(fx_op));

  wire [2:0] raw_valid;
  wire [2:0] raw_ready;
  wire [3*DIM*`ELEMENT_BITS-1:0] raw_row;
  baco_fetch #(.DIM(DIM), .SP_AW(SP_AW), .CW(CW)) fetch_a (
      .clock(clock), .reset(reset), .op_valid(fa_valid), .op_ready(fa_pop),
      .op_base(fa_op[3*CW+16 +: SP_AW]), .op_stride(fa_op[3*CW +: 16]), .op_rows(fa_op[2*CW +: CW]),
      .op_total(fa_op[CW +: CW]), .op_lanes(fa_op[0 +: CW]),
      .read_valid(read_valid[1]), .read_ready(read_ready[1]), .read_row(read_row[SP_AW +: SP_AW]),
      .read_data(read_data[DIM*`ELEMENT_BITS +: DIM*`ELEMENT_BITS]),
      .row_valid(raw_valid[0]), .row_ready(raw_ready[0]), .row_data(raw_row[DIM*`ELEMENT_BITS-1:0]));
  baco_fetch #(.DIM(DIM), .SP_AW(SP_AW), .CW(CW)) fetch_b (
      .clock(clock), .reset(reset), .op_valid(fb_valid), .op_ready(fb_pop),
      .op_base(fb_op[3*CW+16 +: SP_AW]), .op_stride(fb_op[3*CW +: 16]), .op_rows(fb_op[2*CW +: CW]),
      .op_total(fb_op[CW +: CW]), .op_lanes(fb_op[0 +: CW]),
      .read_valid(read_valid[2]), .read_ready(read_ready[2]), .read_row(read_row[2*SP_AW +: SP_AW]),
      .read_data(read_data[2*DIM*`ELEMENT_BITS +: DIM*`ELEMENT_BITS]),
      .row_valid(raw_valid[1]), .row_ready(raw_ready[1]), .row_data(raw_row[DIM*`ELEMENT_BITS +: DIM*`ELEMENT_BITS]));
  baco_fetch #(.DIM(DIM), .SP_AW(SP_AW), .CW(CW)) fetch_x (
      .clock(clock), .reset(reset), .op_valid(fx_valid), .op_ready(fx_pop),
      .op_base(fx_op[3*CW+16 +: SP_AW]), .op_stride(fx_op[3*CW +: 16]), .op_rows(fx_op[2*CW +: CW]),
      .op_total(fx_op[CW +: CW]), .op_lanes(fx_op[0 +: CW]),
      .read_valid(read_valid[0]), .read_ready(read_ready[0]), .read_row(read_row[SP_AW-1:0]),
      .read_data(read_data[DIM*`ELEMENT_BITS-1:0]),
      .row_valid(raw_valid[2]), .row_ready(raw_ready[2]), .row_data(raw_row[2*DIM*`ELEMENT_BITS +: DIM*`ELEMENT_BITS]));

  // one transposer, for the one operand that the dataflow and the configuration ask for
  wire t_in_ready, t_out_valid, t_empty;
  wire [DIM*`ELEMENT_BITS-1:0] t_out;
  wire [2:0] transposed = {transpose_x, transpose_b, transpose_a};
  wire [2:0] row_valid;
  wire [2:0] row_pop;
  baco_transposer #(.DIM(DIM)) transposer (
      .clock(clock), .reset(reset), .in_valid((raw_valid & transposed) != 0), .in_ready(t_in_ready),
      .in_row(transpose_a ? raw_row[DIM*`ELEMENT_BITS-1:0] : transpose_b ? raw_row[DIM*`ELEMENT_BITS +: DIM*`ELEMENT_BITS] : raw_row[2*DIM*`ELEMENT_BITS +: DIM*`ELEMENT_BITS]),
      .out_valid(t_out_valid), .out_ready((row_pop & transposed) != 0), .out_row(t_out), .empty(t_empty));
  assign row_valid = (raw_valid & ~transposed) | (transposed & {3{t_out_valid}});
  assign raw_ready = (row_pop & ~transposed) | (transposed & {3{t_in_ready}});

  // ---------------------------------------------------------------- waves
  reg [CW-1:0] m_index;
  reg [CW-1:0] x_index;
  reg shadow_full;                                // the shadow registers hold what the next flip wants
  reg flushing;                                   // the exchange under way only moves a result out
  reg active_c;                                   // output-stationary: the active registers hold a result to be kept
  reg [INFO-1:0] active_info;
  reg shadow_c;                                   // ... the shadow registers do
  reg [INFO-1:0] shadow_info;
  reg [1:0] quiet;                                // cycles without a wave, saturating

  wire m_first = m_index == 0;
  wire m_last = m_index + 1'b1 == m_waves;
  wire m_operands = (!m_a || row_valid[0]) && (!m_b || row_valid[1]);
  wire m_go = m_valid && m_operands && !flushing && (!m_first || !m_flip || shadow_full);
  wire m_flips = m_go && m_first && m_flip;
  // A result leaves with the next exchange; when none comes, it is flushed out.
  wire flush_starts = os && !flushing && !m_valid && !x_valid && x_index == 0 && (active_c || shadow_c) && quiet[1];
  wire flush_flips = flush_starts && !shadow_c;
  wire flips = m_flips || flush_flips;
  wire x_starts_now = !shadow_full || flips;
  wire x_go = flushing || flush_starts
      || (x_valid && (!x_real || row_valid[2]) && (x_index != 0 || x_starts_now));
  wire x_last = x_index == FULL - 1'b1;
  assign m_pop = m_go && m_last;
  assign x_pop = x_go && x_last && !flushing;
  assign row_pop[0] = m_go && m_a;
  assign row_pop[1] = m_go && m_b;
  assign row_pop[2] = x_go && x_real && !flushing && !flush_starts;
  wire wave = m_go || x_go;

  assign done_valid = m_pop || config_done;
  assign done_id = m_pop ? m_id : config_id;
  assign dropped_valid = m_go && m_first && !m_c;
  assign dropped_id = m_info[AT + 2*CW +: ID_BITS];

  // what leaves the array with this wave
  wire x_c = flips ? active_c : shadow_c;
  wire [INFO-1:0] x_info = flips ? active_info : shadow_info;
  wire [INFO-1:0] tag_info = os ? x_info : m_info;
  wire [CW-1:0] tag_index = os ? x_index : m_index;
  wire [CW-1:0] tag_rows = tag_info[AT +: CW];
  wire tag_valid = (os ? x_go && x_c : m_go && m_c) && tag_index < tag_rows;
  reg [AW-1:0] tag_row_next;                      // of a result, but the first
  wire [AW-1:0] tag_row = tag_index == 0 ? tag_info[AW-1:0] : tag_row_next;
  wire tag_last = tag_index + 1'b1 == tag_rows;

  localparam TAG = 1 + 5 + 1 + ID_BITS + CW + 2 + AW;
  reg [LATENCY:0] flight;                         // waves with a result on their way, newest in bit 0
  reg [(LATENCY+1)*TAG-1:0] tags;                 // of each
  wire [TAG-1:0] tag = tags[LATENCY*TAG +: TAG];
  wire [TAG-1:0] tag_in = {tag_last, tag_info[INFO-1 -: 6], tag_info[AT+2*CW +: ID_BITS], tag_info[AT+CW +: CW],
                           tag_info[AW +: 2], tag_row};

  reg [DIM*`ELEMENT_BITS-1:0] in_a;
  reg [DIM*`ELEMENT_BITS-1:0] in_b;
  reg [DIM*`ELEMENT_BITS-1:0] in_d;
  reg in_flip;
  reg in_x;
  reg [$clog2(DIM)-1:0] in_xrow;
  reg [$clog2(LATENCY+2)-1:0] remaining;          // cycles until the last wave has left
  localparam [31:0] STAY_VALUE = LATENCY + 1;
  wire [DIM*`ELEMENT_BITS-1:0] row_a = transpose_a ? t_out : raw_row[DIM*`ELEMENT_BITS-1:0];
  wire [DIM*`ELEMENT_BITS-1:0] row_b = transpose_b ? t_out : raw_row[DIM*`ELEMENT_BITS +: DIM*`ELEMENT_BITS];
  wire [DIM*`ELEMENT_BITS-1:0] row_x = transpose_x ? t_out : raw_row[2*DIM*`ELEMENT_BITS +: DIM*`ELEMENT_BITS];
  reg entered;                                    // a wave entered in the cycle before

  always @(posedge clock) begin
    entered <= wave;
    flight <= {flight[LATENCY-1:0], tag_valid};
    if (tag_valid || flight != {(LATENCY+1){1'b0}} || SKIP == 0) tags <= {tags[LATENCY*TAG-1:0], tag_in};
    if (wave || entered) begin
      in_a <= m_go && m_a ? row_a : {DIM*`ELEMENT_BITS{1'b0}};
      in_flip <= flips;
      in_x <= x_go;
      in_xrow <= x_index[$clog2(DIM)-1:0];
    end
    if (wave) begin
      // weight-stationary: weights and bias; output-stationary: multiplier and new contents
      if (os) begin
        in_b <= m_go && m_b ? row_b : {DIM*`ELEMENT_BITS{1'b0}};
        in_d <= row_pop[2] ? row_x : {DIM*`ELEMENT_BITS{1'b0}};
      end else begin
        in_b <= row_pop[2] ? row_x : {DIM*`ELEMENT_BITS{1'b0}};
        in_d <= m_go && m_b ? row_b : {DIM*`ELEMENT_BITS{1'b0}};
      end
    end
    if (wave) remaining <= STAY_VALUE[$clog2(LATENCY+2)-1:0];
    else if (remaining != 0) remaining <= remaining - 1'b1;
    quiet <= wave ? 2'd0 : (&quiet) ? quiet : quiet + 1'b1;

    if (m_go) m_index <= m_last ? {CW{1'b0}} : m_index + 1'b1;
    if (x_go) x_index <= x_last ? {CW{1'b0}} : x_index + 1'b1;
    if (flush_starts) flushing <= 1'b1;
    if (x_go && x_last) flushing <= 1'b0;
    if (x_pop) shadow_full <= 1'b1;
    else if (flips) shadow_full <= 1'b0;
    if (tag_valid) tag_row_next <= tag_row + tag_info[AW+2 +: AW];

    if (m_pop && m_c && os) begin
      active_c <= 1'b1;
      active_info <= m_info;
    end else if (flips) active_c <= 1'b0;
    if (flips) begin
      shadow_c <= active_c;
      shadow_info <= active_info;
    end else if (x_go && x_last) shadow_c <= 1'b0;

    if (reset) begin
      entered <= 1'b0;
      flight <= {(LATENCY+1){1'b0}};
      remaining <= {$clog2(LATENCY+2){1'b0}};
      quiet <= 2'd0;
      m_index <= {CW{1'b0}};
      x_index <= {CW{1'b0}};
      flushing <= 1'b0;
      shadow_full <= 1'b0;
      active_c <= 1'b0;
      shadow_c <= 1'b0;
      in_flip <= 1'b0;
      in_x <= 1'b0;
    end
  end

  wire [DIM*PSUM_BITS-1:0] out;
  baco_mesh #(.DIM(DIM), .TILE_ROWS(TILE_ROWS), .PSUM_BITS(PSUM_BITS)) mesh (
      .clock(clock), .advance(remaining != 0), .os(os), .in_a(in_a), .in_b(in_b), .in_d(in_d),
      .in_flip(in_flip), .in_x(in_x), .in_xrow(in_xrow), .out(out));

  // ---------------------------------------------------------------- results
  wire tag_is_last, tag_relu, tag_acc, tag_accumulate;
  wire [4:0] tag_shift;
  wire [ID_BITS-1:0] tag_id;
  wire [CW-1:0] tag_cols;
  wire [AW-1:0] out_row;
  assign {tag_is_last, tag_shift, tag_relu, tag_id, tag_cols, tag_acc, tag_accumulate, out_row} = tag;
  reg last_written;
  reg [ID_BITS-1:0] last_id;
  assign written_valid = last_written;
  assign written_id = last_id;

  wire [DIM*PSUM_BITS-1:0] value;
`ifdef BACO_OS
  baco_shift_round #(.LANES(DIM), .BITS(PSUM_BITS)) rounding (
      .enable(flight[LATENCY]), .shift(tag_shift), .in(out), .out(value));
`else
  assign value = out;
  wire _unused_shift = &{1'b0, tag_shift};
`endif

`ifdef BACO_FP8
`ifdef BACO_WRITE_SCRATCHPAD
  wire [DIM*`ELEMENT_BITS-1:0] narrow;
  genvar lane;
  generate
    for (lane = 0; lane < DIM; lane = lane + 1) begin : result
      `NARROW narrowed (.relu(tag_relu), .power(8'd127), .x(value[lane*32 +: 32]), .code(narrow[lane*`ELEMENT_BITS +: `ELEMENT_BITS]));
    end
  endgenerate
`endif
`endif
  integer i;
  always @(posedge clock) begin
    sp_write_valid <= flight[LATENCY] && !tag_acc;
    acc_write_valid <= flight[LATENCY] && tag_acc;
    last_written <= flight[LATENCY] && tag_is_last;
    if (flight[LATENCY] || SKIP == 0) begin
      last_id <= tag_id;
      for (i = 0; i < DIM; i = i + 1) write_mask[i] <= i[CW-1:0] < tag_cols;
      acc_write_accumulate <= tag_accumulate;
      if (tag_acc || SKIP == 0) begin
        acc_write_row <= out_row[ACC_AW-1:0];
        for (i = 0; i < DIM; i = i + 1)
          acc_write_data[i*32 +: 32] <= {{(33-PSUM_BITS){value[i*PSUM_BITS+PSUM_BITS-1]}}, value[i*PSUM_BITS +: PSUM_BITS-1]};
      end
`ifdef BACO_WRITE_SCRATCHPAD
      if (!tag_acc || SKIP == 0) begin
        sp_write_row <= out_row[SP_AW-1:0];
`ifdef BACO_FP8
        sp_write_data <= narrow;
`else
        for (i = 0; i < DIM; i = i + 1)
          // saturate, and clear what is negative
          sp_write_data[i*`ELEMENT_BITS +: `ELEMENT_BITS] <= value[i*PSUM_BITS+PSUM_BITS-1]
              ? (tag_relu ? `ELEMENT_BITS'd0 : (&value[i*PSUM_BITS+`ELEMENT_TOP +: PSUM_BITS-`ELEMENT_TOP]) ? value[i*PSUM_BITS +: `ELEMENT_BITS] : `ELEMENT_LEAST)
              : ((|value[i*PSUM_BITS+`ELEMENT_TOP +: PSUM_BITS-`ELEMENT_TOP]) ? `ELEMENT_MOST : value[i*PSUM_BITS +: `ELEMENT_BITS]);
`endif
      end
`endif
    end
`ifndef BACO_WRITE_SCRATCHPAD
    sp_write_row <= {SP_AW{1'b0}};
    sp_write_data <= {DIM*`ELEMENT_BITS{1'b0}};
`endif
    if (reset) begin
      sp_write_valid <= 1'b0;
      acc_write_valid <= 1'b0;
      last_written <= 1'b0;
    end
  end

  // ---------------------------------------------------------------- state seen from outside
  wire streams_idle = !m_valid && !x_valid && !fa_valid && !fb_valid && !fx_valid && raw_valid == 0 && t_empty
      && m_first && x_index == 0 && !flushing;
  assign idle = streams_idle;
  // the dataflow may change while the last row is on its way out of the array
  wire [31:0] remaining_wide = {{(32-$clog2(LATENCY+2)){1'b0}}, remaining};
  assign drained = streams_idle && remaining_wide <= 32'd2 && !active_c && !shadow_c;
  assign busy = !streams_idle || remaining != 0 || active_c || shadow_c || last_written;
  assign multiplying = m_go && m_a;
  assign events = {5'd0, m_valid && m_first && !m_b, x_valid && !x_real, m_valid && m_first && !m_a,
                   m_valid && m_b && !row_valid[1], x_valid && x_real && !row_valid[2], m_valid && m_a && !row_valid[0],
                   m_valid && m_operands && m_first && m_flip && !shadow_full, x_valid && x_real && !row_valid[2] && x_index == 0,
                   op_valid && !op_ready, flushing, wave};
  wire _unused = &{1'b0, waiting, op_c_local, op_c_stride, out_row, tag_relu};
endmodule
