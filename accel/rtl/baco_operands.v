// What a command touches in local memory, and whether it is legal: two operands, each a range of rows of one memory
// that is read or written. Keeps the copies of the configuration that this takes (strides, transposes, pooling), in
// program order.
//
// Illegal is also what comes out of turn: PRELOAD and COMPUTE alternate, with no config_ex between the two, and an
// output-stationary COMPUTE_ACCUMULATED needs sums that have not left the array as a result.
//
// Ranges are exact for whole commands or larger: block strides, pixel repeats (which reach below the destination),
// transposed operands (whose stored rows are the logical columns) and pooled stores (the whole unpooled tile).
module baco_operands #(
    parameter DIM = 16,
    parameter SP_ROWS = 16384,
    parameter ACC_ROWS = 1024,
    parameter AW = 14,                            // bits of a row number of either memory
    parameter DMA_MAX_BYTES = 64
) (
    input wire clock,
    input wire reset,
    input wire [6:0] funct,
    input wire [63:0] rs1,
    input wire [63:0] rs2,
    input wire accepted,                          // the command is accepted in this cycle
    output reg [1:0] kind,                       // 0 load, 1 execute, 2 store
    output reg [3:0] error,                       // code of the rejection, 0 when the command is legal
    output reg [1:0] valid,                       // operand n touches local memory
    output reg [1:0] acc,                         // ... the accumulator
    output reg [1:0] write,                       // ... and writes it
    output reg [2*27-1:0] start,                  // first row
    output reg [2*27-1:0] past                    // row after the last
);
  localparam LOG_DIM = $clog2(DIM);
  localparam [31:0] DIM_VALUE = DIM;
  localparam [16:0] DIM_ROWS = DIM_VALUE[16:0];
  localparam [31:0] SP_VALUE = SP_ROWS;
  localparam [31:0] ACC_VALUE = ACC_ROWS;
  localparam LINE = DMA_MAX_BYTES > 64 ? DMA_MAX_BYTES : 64;
  localparam [31:0] MOST_VALUE = DIM * 4 > LINE ? DIM * 4 : LINE;  // bytes of a memory row
  localparam [18:0] MOST_BYTES = MOST_VALUE[18:0];

  reg [15:0] stride_a;
  reg [15:0] stride_c;
  reg os;
  reg transpose_a;
  reg transpose_b;
  reg [3*16-1:0] block_stride;
  reg [3*8-1:0] repeats;
  reg [2:0] shrink;
  reg pooling;
  reg gathered;                                   // pooling or 1-D mode: rows come from the tile, not from the command
  reg [15:0] tile_rows;
  reg pending;                                    // a PRELOAD is without its COMPUTE
  reg pending_c;                                  // ... and names a result to be kept
  reg no_sums;                                    // output-stationary: the last COMPUTE gave its sums away, or none came yet

  wire [15:0] cols2 = rs2[47:32];
  wire [15:0] rows2 = rs2[63:48];
  wire [15:0] cols1 = rs1[47:32];
  wire [15:0] rows1 = rs1[63:48];
  wire real1 = !(&{rs1[31:29], rs1[AW:0]});
  wire real2 = !(&{rs2[31:29], rs2[AW:0]});
  wire [25:0] row1 = {{(26-AW){1'b0}}, rs1[AW-1:0]};
  wire [25:0] row2 = {{(26-AW){1'b0}}, rs2[AW-1:0]};
  wire [16:0] blocks = ({1'b0, cols2} + DIM_ROWS - 17'd1) >> LOG_DIM;

  wire [1:0] state = funct == 7'd1 ? 2'd1 : funct == 7'd14 ? 2'd2 : 2'd0;
  wire [15:0] state_stride = state == 2'd2 ? block_stride[47:32] : state == 2'd1 ? block_stride[31:16] : block_stride[15:0];
  wire [7:0] state_repeats = state == 2'd2 ? repeats[23:16] : state == 2'd1 ? repeats[15:8] : repeats[7:0];
  wire state_shrink = shrink[state];
  wire wide = rs2[31] && !state_shrink;           // accType in memory
  wire [18:0] row_bytes = wide ? {1'b0, cols2, 2'b00} : {3'd0, cols2};
  wire [25:0] reach = {18'd0, state_repeats} - 26'd1;
  wire repeated = state_repeats > 8'd1;

  // Written out as functions of small operands: (blocks - 1) * stride and (rows - 1) * stride.
  reg [31:0] length1;
  reg [31:0] length2;
  reg [15:0] stored1;                             // rows of operand 0 as stored
  reg [15:0] stored2;
  reg too_big;
  reg beyond;
  integer n;
  wire load_or_store = funct != 7'd4 && funct != 7'd5 && funct != 7'd6;

  always @* begin
    kind = 2'd0;
    error = 4'd0;
    valid = 2'b00;
    acc = 2'b00;
    write = 2'b00;
    start = {54{1'b0}};
    length1 = 32'd0;
    length2 = 32'd0;
    stored1 = 16'd0;
    stored2 = 16'd0;
    too_big = 1'b0;
    beyond = 1'b0;
    case (funct)
      7'd0: begin
        kind = rs1[1:0] == 2'd0 ? 2'd1 : rs1[1:0] == 2'd1 ? 2'd0 : 2'd2;
        if (rs1[1:0] == 2'd3) error = 4'd2;
        if (rs1[1:0] == 2'd1 && rs1[4:3] == 2'd3) error = 4'd5;
        if (rs1[1:0] == 2'd2 && rs1[3:2] > 2'd1) error = 4'd2;
        if (rs1[1:0] == 2'd0 && !rs1[7]) begin
          if (rs1[4:3] > 2'd1) error = 4'd2;
`ifdef BACO_WS
`ifdef BACO_OS
          if (rs1[2] ? rs1[8] && rs1[9] : rs1[9] && !rs1[8]) error = 4'd3;
`else
          if (rs1[8] && rs1[9]) error = 4'd3;
`endif
`else
          if (rs1[9] && !rs1[8]) error = 4'd3;
`endif
        end
        if (rs1[1:0] == 2'd0 && pending) error = 4'd7;
      end
      7'd1, 7'd2, 7'd14: begin
        kind = 2'd0;
        valid = 2'b01;
        write = 2'b01;
        acc[0] = rs2[31];
        start[26:0] = {1'b0, row2};
        length1 = {16'd0, state_stride} * {15'd0, blocks - 17'd1} + {16'd0, rows2};
        if (rows2 == 16'd0 || cols2 == 16'd0 || rows2 > DIM_ROWS[15:0] || row_bytes > MOST_BYTES) too_big = 1'b1;
`ifdef BACO_FIRST_LAYER
        if (repeated) begin
          if (rs2[31] || {8'd0, state_repeats} * {8'd0, cols2[7:0]} > DIM_ROWS[15:0] || cols2 > DIM_ROWS[15:0]) error = 4'd5;
          // copies reach below the destination
          start[26:0] = row2 > reach ? {1'b0, row2 - reach} : 27'd0;
          length1 = {6'd0, row2 > reach ? reach : row2} + {16'd0, rows2};
        end
`endif
      end
      7'd3, 7'd23: begin
        kind = 2'd2;
        valid = funct == 7'd23 ? 2'b11 : 2'b01;
        write = 2'b10;
        acc = {funct == 7'd23 && rs1[31], rs2[31]};
        start = {{1'b0, row1}, {1'b0, row2}};
        length1 = gathered ? {16'd0, tile_rows} : {{15'd0, blocks - 17'd1} << LOG_DIM} + {16'd0, rows2};
        length2 = {16'd0, rows2 - 16'd1} * rs1[63:32] + 32'd1;
        if (cols2 == 16'd0 || (!gathered && rows2 == 16'd0) || rows2 > DIM_ROWS[15:0]) too_big = 1'b1;
        if ((gathered || rs2[31] && rs2[29] || funct == 7'd23) && cols2 > DIM_ROWS[15:0]) too_big = 1'b1;
        if ({3'd0, cols2} > MOST_BYTES) too_big = 1'b1;
        if (funct == 7'd23 && (rs1[31] || pooling)) error = 4'd5;
        if (rs2[31] && rs2[28:26] != 3'd0) error = 4'd2;
`ifndef BACO_READ_FULL
        if (rs2[31] && rs2[29]) error = 4'd2;
`endif
`ifndef BACO_READ_SMALL
        if (rs2[31] && !rs2[29]) error = 4'd2;
`endif
      end
      7'd4, 7'd5: begin
        kind = 2'd1;
        stored1 = transpose_a ? cols1 : rows1;
        stored2 = os && transpose_b ? cols2 : rows2;
        valid = {real2 && stored2 != 16'd0, real1 && stored1 != 16'd0};
        start = {{1'b0, row2}, {1'b0, row1}};
        length1 = {16'd0, stored1 - 16'd1} * {16'd0, stride_a} + 32'd1;
        length2 = {16'd0, stored2};
        acc = {rs2[31], rs1[31]};
        too_big = (real1 && (rows1 > DIM_ROWS[15:0] || cols1 > DIM_ROWS[15:0]))
            || (real2 && (rows2 > DIM_ROWS[15:0] || cols2 > DIM_ROWS[15:0]));
        if ((real1 && rs1[31]) || (real2 && rs2[31])) error = 4'd5;
        if (os && funct == 7'd5 && no_sums) error = 4'd8;
        if (!pending) error = 4'd7;
      end
      7'd6: begin
        kind = 2'd1;
        stored1 = !os && transpose_b ? cols1 : rows1;
        valid = {real2 && rows2 != 16'd0, real1 && stored1 != 16'd0};
        write = 2'b10;
        start = {{1'b0, row2}, {1'b0, row1}};
        length1 = {16'd0, stored1};
        length2 = {16'd0, rows2 - 16'd1} * {16'd0, stride_c} + 32'd1;
        acc = {rs2[31], rs1[31]};
        too_big = (real1 && (rows1 > DIM_ROWS[15:0] || cols1 > DIM_ROWS[15:0]))
            || (real2 && (rows2 > DIM_ROWS[15:0] || cols2 > DIM_ROWS[15:0]));
        if (real1 && rs1[31]) error = 4'd5;
`ifndef BACO_WRITE_SCRATCHPAD
        if (real2 && !rs2[31]) error = 4'd5;
`endif
        if (pending) error = 4'd7;
      end
      // known, but consumed before they get here or not built
      7'd8, 7'd9, 7'd10, 7'd11, 7'd12, 7'd13, 7'd15, 7'd16, 7'd17, 7'd18, 7'd19, 7'd20, 7'd21, 7'd24, 7'd25: error = 4'd2;
      default: error = 4'd1;
    endcase
    past[26:0] = start[26:0] + length1[26:0];
    past[53:27] = start[53:27] + length2[26:0];
    for (n = 0; n < 2; n = n + 1)
      if (valid[n] && {5'd0, past[n*27 +: 27]} > (acc[n] ? ACC_VALUE : SP_VALUE)) beyond = 1'b1;
    // the bit above the rows belongs to the garbage address only: a loop whose tile leaves the memory sets it
    if ((valid[0] && (load_or_store ? rs2[AW] : rs1[AW])) || (valid[1] && (load_or_store ? rs1[AW] : rs2[AW]))) beyond = 1'b1;
    if (length1[31:26] != 6'd0 || (valid[1] && length2[31:26] != 6'd0)) beyond = 1'b1;
    if (error == 4'd0) error = too_big ? 4'd4 : beyond ? 4'd6 : 4'd0;
  end

  wire legal = accepted && error == 4'd0;
  wire configure = legal && funct == 7'd0;
  always @(posedge clock) begin
    if (configure && rs1[1:0] == 2'd0) begin
      stride_a <= rs1[31:16];
      stride_c <= rs2[63:48];
      if (!rs1[7]) begin
`ifdef BACO_OS
`ifdef BACO_WS
        os <= !rs1[2];
`else
        os <= 1'b1;
`endif
`else
        os <= 1'b0;
`endif
        transpose_a <= rs1[8];
        transpose_b <= rs1[9];
        if (!os) no_sums <= 1'b1;
      end
    end
    if (configure && rs1[1:0] == 2'd1) begin
      block_stride[rs1[4:3]*16 +: 16] <= rs1[31:16];
      repeats[rs1[4:3]*8 +: 8] <= rs1[15:8];
      shrink[rs1[4:3]] <= rs1[2];
    end
    if (configure && rs1[1:0] == 2'd2) begin
`ifdef BACO_MAX_POOL
      pooling <= rs1[5:4] != 2'd0;
      gathered <= rs1[7:4] != 4'd0;
`else
      pooling <= 1'b0;
      gathered <= rs1[7:6] != 2'd0;
`endif
      if (rs1[7:4] != 4'd0) tile_rows <= {8'd0, rs1[55:48]} * {8'd0, rs1[63:56]};
    end
    if (legal && funct == 7'd6) begin
      pending <= 1'b1;
      pending_c <= real2 && rows2 != 16'd0 && cols2 != 16'd0;
    end
    if (legal && (funct == 7'd4 || funct == 7'd5)) begin
      pending <= 1'b0;
      no_sums <= pending_c;
    end
    if (reset) begin
      stride_a <= 16'd1;
      stride_c <= 16'd1;
      os <= 1'b0;
      transpose_a <= 1'b0;
      transpose_b <= 1'b0;
      block_stride <= 48'd0;
      repeats <= 24'd0;
      shrink <= 3'd0;
      pooling <= 1'b0;
      gathered <= 1'b0;
      tile_rows <= 16'd0;
      pending <= 1'b0;
      pending_c <= 1'b0;
      no_sums <= 1'b1;
    end
  end

  wire _unused = &{1'b0, rs1, rs2, length1, length2, repeated, reach, state_repeats};
endmodule
