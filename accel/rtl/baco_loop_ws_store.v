// The store phase of LOOP_WS: C block by block, as wide as a store moves it, or its rows one by one where they are
// normalised (baco_loop_ws_normalise).
module baco_loop_ws_store #(
    parameter DIM = 16,
    parameter ROW_BITS = 15,   // width of a local row index
    parameter BLOCKS = 4       // of inputs that one store moves side by side
) (
    input wire clock,
    input wire reset,
    input wire start,                      // go to the first command
    input wire next,                       // the present command has gone out
    input wire [ROW_BITS-1:0] base,        // local row of block (0, 0), read with `start`
    input wire [15:0] rows,                // blocks in a column
    input wire [15:0] cols,                // blocks in a row
    input wire [$clog2(DIM)-1:0] row_pad,  // elements that the last row of blocks lacks
    input wire [$clog2(DIM)-1:0] col_pad,  // elements that the last column of blocks lacks
    input wire [31:0] stride,              // elements in memory from a row to the next
    input wire [63:0] address,             // of C in memory
    input wire [31:0] spad_address,        // scratchpad address of C less its accumulator row
    input wire full,                       // 4-byte elements
    input wire spad,                       // to the scratchpad
`ifdef BACO_NORMALIZATIONS
    input wire layer_norm,                 // rows are normalised
    input wire softmax,
    input wire start_normalises,           // with `start`: so does the loop that begins
`endif
    output wire active,                    // from the start until the last command has gone out
    output wire valid,                     // the outputs below name a command
    output wire last,                      // it is the last one
    output wire normalises,                // results are rows that are normalised: the next three say nothing
    output wire [15:0] row,                // of blocks
    output wire [15:0] col,                // first column of blocks
    output wire [15:0] col_last,           // the last one
    output wire [6:0] funct,
    output wire [63:0] rs1,
    output wire [63:0] rs2
);
  localparam LOG_DIM = $clog2(DIM);
  localparam [31:0] BLOCKS_WORD = BLOCKS;
  localparam [31:0] PIECE_BYTES = BLOCKS * `ROW_BYTES;
  localparam [31:0] BLOCK_BYTES_ACC = DIM * 4;
  localparam [31:0] BLOCK_BYTES = `ROW_BYTES;
  localparam [6:0] MVOUT = 7'd3;
  localparam [6:0] MVOUT_SPAD = 7'd23;

`ifdef BACO_NORMALIZATIONS
  wire start_normal = start_normalises;
`else
  wire start_normal = 1'b0;
`endif
  wire walks, walk_valid, walk_last;
  wire [15:0] first_row, size_rows, size_cols;
  wire [31:0] offset;
  wire [ROW_BITS-1:0] place;
  wire [63:0] piece_rs1 = spad ? {32'd1, spad_address + {{32-ROW_BITS{1'b0}}, place}} : address + {32'd0, offset};
  wire [63:0] piece_rs2 = {size_rows, size_cols, 1'b1, 1'b0, full, {29-ROW_BITS{1'b0}}, place};
  wire [6:0] piece_funct = spad ? MVOUT_SPAD : MVOUT;
  baco_loop_ws_walk #(.DIM(DIM), .ROW_BITS(ROW_BITS)) u_walk (
      .clock(clock), .reset(reset), .start(start && !start_normal), .next(next), .base(base), .rows(rows), .cols(cols),
      .step(full || spad ? 7'd1 : BLOCKS_WORD[6:0]), .whole(1'b1), .group(7'd1),
      .row_bytes(full ? stride << (LOG_DIM + 2) : stride << `LOG_ROW_BYTES),
      .step_bytes(full ? BLOCK_BYTES_ACC : spad ? BLOCK_BYTES : PIECE_BYTES),
      .row_pad(row_pad), .col_pad(col_pad), .active(walks), .valid(walk_valid), .last(walk_last), .row(row), .col(col),
      .col_last(col_last), .first_row(first_row), .offset(offset), .place(place), .size_rows(size_rows), .size_cols(size_cols));

`ifdef BACO_NORMALIZATIONS
  localparam [6:0] CONFIG = 7'd0;
  assign normalises = layer_norm || softmax;
  wire norm_active, norm_last, norm_configures, norm_slot;
  wire [2:0] norm_command;
  wire [31:0] norm_offset;
  wire [ROW_BITS-1:0] norm_place;
  wire [15:0] norm_cols;
  baco_loop_ws_normalise #(.DIM(DIM), .ROW_BITS(ROW_BITS)) u_normalise (
      .clock(clock), .reset(reset), .start(start && start_normal), .next(next), .softmax(softmax), .base(base),
      .rows(rows), .cols(cols), .step(BLOCKS_WORD[6:0]), .stride(stride), .step_bytes(PIECE_BYTES),
      .row_pad(row_pad), .col_pad(col_pad), .active(norm_active), .last(norm_last), .configures(norm_configures),
      .slot(norm_slot), .command(norm_command), .offset(norm_offset), .place(norm_place), .size_cols(norm_cols));
  wire [28:0] norm_local = {{29-ROW_BITS{1'b0}}, norm_place};
  wire [63:0] slot_rs1 = {46'd0, 1'b1, 8'd0, norm_slot, 8'd3};  // CONFIG_NORM of the slot alone
  assign active = walks || norm_active;
  assign valid = walk_valid || norm_active;
  assign last = norm_active ? norm_last : walk_last;
  assign funct = !norm_active ? piece_funct : norm_configures ? CONFIG : MVOUT;
  assign rs1 = !norm_active ? piece_rs1 : norm_configures ? slot_rs1 : address + {32'd0, norm_offset};
  assign rs2 = !norm_active ? piece_rs2
             : norm_configures ? 64'd0 : {16'd1, norm_cols, 3'b100, norm_local | {norm_command, 26'd0}};
`else
  assign normalises = 1'b0;
  assign active = walks;
  assign valid = walk_valid;
  assign last = walk_last;
  assign funct = piece_funct;
  assign rs1 = piece_rs1;
  assign rs2 = piece_rs2;
`endif
  wire _unused = &{1'b0, first_row};
endmodule
