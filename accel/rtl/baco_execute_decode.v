// The front of the execute unit: takes PRELOAD and COMPUTE in pairs, config_ex alone, and hands out operations: one a
// pair for the multiply stream, operand fetches for the three operands, and, for COMPUTE_PRELOADED, one for the
// exchange stream.
//
// PRELOAD names the result of the COMPUTE that follows it, so nothing can start before both are there.
//
// Weights of zeros (weight-stationary, PRELOAD of garbage) are never moved into the array: until real weights are taken
// into use, A counts as zeros instead, which spares an exchange.
`ifdef BACO_FP8
// Not so in floating point, where zero times what the registers hold may be -0 or NaN.
`endif
module baco_execute_decode #(
    parameter DIM = 16,
    parameter SP_AW = 14,                         // bits of a scratchpad row number
    parameter AW = 14,                            // bits of a row number of either memory
    parameter EX_QUEUE = 8,
    parameter ID_BITS = 6,
    parameter CW = 5                              // bits of a count 0..DIM
) (
    input wire clock,
    input wire reset,
    input wire cmd_valid,
    output wire cmd_ready,
    input wire [ID_BITS-1:0] cmd_id,
    input wire [6:0] cmd_funct,
    input wire [63:0] cmd_rs1,
    input wire [63:0] cmd_rs2,
    output wire config_done,                      // a config_ex has been executed
    output wire [ID_BITS-1:0] config_id,
    input wire done_taken,                        // a COMPUTE is reported done in this cycle: config_ex must wait
    input wire idle,                              // no operation is in the queues or streams behind this module
    input wire drained,                           // and no result is left in the array
    output reg os,                                // dataflow
    output reg relu,
    output reg [4:0] shift,                       // output-stationary: rounding shift; else 0
    output reg transpose_a,                       // the multiplicand passes the transposer
    output reg transpose_b,                       // the multiplier (output-stationary)
    output reg transpose_x,                       // the stationary operand (weight-stationary)
    output wire op_valid,                         // all operations of a pair, at once
    input wire op_ready,                          // all queues behind have room
    output wire op_flip,                          // COMPUTE_PRELOADED: there is an exchange operation, too (but see above)
    output wire op_c,                             // there is a result to be kept
    output wire [31:0] op_c_local,
    output wire [15:0] op_c_stride,
    output wire [CW-1:0] op_c_rows,
    output wire [CW-1:0] op_c_cols,
    output wire [ID_BITS-1:0] op_preload_id,
    output wire [ID_BITS-1:0] op_compute_id,
    output wire [CW-1:0] op_waves,                // waves of the multiply stream
    output wire op_a,                             // operand a is neither garbage nor multiplied by weights of zeros
    output wire [SP_AW-1:0] a_base,
    output wire [15:0] a_stride,
    output wire [CW-1:0] a_rows,                  // stored rows that count
    output wire [CW-1:0] a_total,                 // rows to deliver
    output wire [CW-1:0] a_lanes,
    output wire op_b,                             // weight-stationary: there is a bias; output-stationary: always
    output wire [SP_AW-1:0] b_base,
    output wire [CW-1:0] b_rows,
    output wire [CW-1:0] b_total,
    output wire [CW-1:0] b_lanes,
    output wire op_x,                             // the exchanged operand is not garbage
    output wire [SP_AW-1:0] x_base,
    output wire [CW-1:0] x_rows,
    output wire [CW-1:0] x_lanes,
    output wire waiting                           // a PRELOAD without its COMPUTE is all there is
);
  localparam WIDTH = ID_BITS + 7 + 32 + 2 * CW + 32 + CW + 16;
  localparam [31:0] DIM_VALUE = DIM;
  localparam [CW-1:0] FULL = DIM_VALUE[CW-1:0];

  // the first command leaves the queue into a register, so that a pair is visible at once
  wire queue_valid;
  wire queue_ready;
  wire [ID_BITS-1:0] id;
  wire [6:0] funct;
  // of the registers: rows and columns of both as far as they count, strides, and all below
  localparam SPARE = 16 - CW;
  wire [CW-1:0] rows_1, cols_1, cols_2;
  wire [15:0] rows_2;
  wire [31:0] low_1, low_2;
  wire [63:0] rs1 = {{SPARE{1'b0}}, rows_1, {SPARE{1'b0}}, cols_1, low_1};
  wire [63:0] rs2 = {rows_2, {SPARE{1'b0}}, cols_2, low_2};
  baco_fifo #(.WIDTH(WIDTH), .DEPTH(EX_QUEUE)) queue (
      .clock(clock), .reset(reset), .in_valid(cmd_valid), .in_ready(cmd_ready),
      .in_data({cmd_id, cmd_funct, cmd_rs1[48 +: CW], cmd_rs1[32 +: CW], cmd_rs1[31:0],
                cmd_rs2[63:48], cmd_rs2[32 +: CW], cmd_rs2[31:0]}),
      .out_valid(queue_valid), .out_ready(queue_ready), .out_data({id, funct, rows_1, cols_1, low_1, rows_2, cols_2, low_2}));

  reg preloaded;                                  // a PRELOAD waits here
  reg [ID_BITS-1:0] preload_id;
  reg [63:0] preload_rs1;
  reg [63:0] preload_rs2;

  reg config_os;                                  // as commanded
  reg a_transpose;
  reg b_transpose;
  reg [15:0] stride_a;
  reg [15:0] stride_c;

  wire is_config = queue_valid && funct == 7'd0;
  wire is_preload = queue_valid && funct == 7'd6;
  wire is_compute = queue_valid && (funct == 7'd4 || funct == 7'd5);

  wire strides_only = rs1[7];
`ifdef BACO_OS
`ifdef BACO_WS
  wire wanted_os = !rs1[2];
`else
  wire wanted_os = 1'b1;
`endif
`else
  wire wanted_os = 1'b0;
`endif
  wire config_runs = is_config && !preloaded && !done_taken && (strides_only || (idle && (wanted_os == config_os || drained)));
  wire preload_moves = is_preload;
  assign op_valid = is_compute && preloaded;
  assign queue_ready = config_runs || preload_moves || (op_valid && op_ready) || (is_compute && !preloaded);
  assign config_done = config_runs;
  assign config_id = id;
  assign waiting = preloaded && !queue_valid;

  // garbage: accumulator, accumulate, read-full, the garbage bit and all row bits
  wire a_real = !(&{rs1[31:29], rs1[AW:0]});
  wire bd_real = !(&{rs2[31:29], rs2[AW:0]});
  wire x_real = !(&{preload_rs1[31:29], preload_rs1[AW:0]});
  wire c_real = !(&{preload_rs2[31:29], preload_rs2[AW:0]});

  wire [CW-1:0] a_logical_rows = rs1[48 +: CW];
  wire [CW-1:0] a_logical_cols = rs1[32 +: CW];
  wire [CW-1:0] b_logical_rows = rs2[48 +: CW];
  wire [CW-1:0] b_logical_cols = rs2[32 +: CW];
  wire [CW-1:0] x_logical_rows = preload_rs1[48 +: CW];
  wire [CW-1:0] x_logical_cols = preload_rs1[32 +: CW];

  reg zero_weights;                               // weights of zeros are in use
`ifdef BACO_FP8
  wire zeros = 1'b0;
  wire _unused_zeros = &{1'b0, zero_weights};
`else
  wire zeros = !os && (funct == 7'd4 ? !op_x : zero_weights);
`endif
  assign op_flip = funct == 7'd4 && !zeros;
  assign op_c = c_real && op_c_rows != 0 && op_c_cols != 0;
  assign op_c_local = preload_rs2[31:0];
  assign op_c_rows = preload_rs2[48 +: CW];
  assign op_c_cols = preload_rs2[32 +: CW];
  assign op_c_stride = stride_c;
  assign op_preload_id = preload_id;
  assign op_compute_id = id;

  // Waves: weight-stationary, one a result row; output-stationary, one a step of the inner dimension.
  wire [CW-1:0] inner = a_logical_cols < b_logical_rows ? a_logical_cols : b_logical_rows;
  wire [CW-1:0] needed_ws = op_c && op_c_rows > a_logical_rows ? op_c_rows : a_logical_rows;
  wire [CW-1:0] needed = !os ? (a_real ? needed_ws : op_c ? op_c_rows : {{(CW-1){1'b0}}, 1'b1})
                             : a_real && bd_real ? inner : {{(CW-1){1'b0}}, 1'b1};
  // the transposer delivers whole matrices only
  wire transposes = (transpose_a && op_a) || (transpose_b && op_b);
  assign op_waves = transposes ? FULL : needed == 0 ? {{(CW-1){1'b0}}, 1'b1} : needed;

  assign op_a = a_real && a_logical_rows != 0 && a_logical_cols != 0 && !zeros;
  assign a_base = rs1[SP_AW-1:0];
  assign a_stride = stride_a;
  assign a_rows = a_transpose ? a_logical_cols : a_logical_rows;
  assign a_lanes = a_transpose ? a_logical_rows : a_logical_cols;
  assign a_total = transpose_a ? FULL : op_waves;

`ifdef BACO_PRELOAD_D
  wire d_built = 1'b1;
`else
  wire d_built = 1'b0;
`endif
  assign op_b = bd_real && b_logical_rows != 0 && b_logical_cols != 0 && (os || d_built);
  assign b_base = rs2[SP_AW-1:0];
  assign b_rows = os && b_transpose ? b_logical_cols : b_logical_rows;
  assign b_lanes = os && b_transpose ? b_logical_rows : b_logical_cols;
  assign b_total = transpose_b ? FULL : op_waves;

  assign op_x = x_real && x_logical_rows != 0 && x_logical_cols != 0 && (!os || d_built);
  assign x_base = preload_rs1[SP_AW-1:0];
  assign x_rows = !os && b_transpose ? x_logical_cols : x_logical_rows;
  assign x_lanes = !os && b_transpose ? x_logical_rows : x_logical_cols;

  wire _unused = &{1'b0, cmd_rs1, cmd_rs2, rs1, rs2, preload_rs1, preload_rs2};  // bits that commands leave unused

  always @(posedge clock) begin
    if (preload_moves) begin
      preload_id <= id;
      preload_rs1 <= rs1;
      preload_rs2 <= rs2;
      preloaded <= 1'b1;
    end else if (op_valid && op_ready) preloaded <= 1'b0;
    if (op_valid && op_ready) zero_weights <= zeros;
    if (config_runs) begin
      stride_a <= rs1[31:16];
      stride_c <= rs2[63:48];
      if (!strides_only) begin
        config_os <= wanted_os;
        os <= wanted_os;
`ifdef BACO_ACTIVATIONS
        relu <= rs1[4:3] == 2'd1;
`endif
        shift <= wanted_os ? rs2[4:0] : 5'd0;
        a_transpose <= rs1[8];
        b_transpose <= rs1[9];
        transpose_a <= wanted_os ? !rs1[8] : rs1[8];
        transpose_b <= wanted_os && rs1[9];
        transpose_x <= !wanted_os && rs1[9];
      end
    end
    if (reset) begin
      preloaded <= 1'b0;
      zero_weights <= 1'b0;
      config_os <= 1'b0;
      os <= 1'b0;
      relu <= 1'b0;
      shift <= 5'd0;
      a_transpose <= 1'b0;
      b_transpose <= 1'b0;
      transpose_a <= 1'b0;
      transpose_b <= 1'b0;
      transpose_x <= 1'b0;
      stride_a <= 16'd1;
      stride_c <= 16'd1;
    end
  end
endmodule
