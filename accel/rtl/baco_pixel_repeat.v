// First-layer replication: copy p of a row goes to local row `row - p`, columns p*cols .. p*cols + cols - 1.
//
// Seen from the destination, local row L is the concatenation of copies 0, 1, 2.. of rows L, L+1, L+2..: a window over
// the last `repeats` rows. So the rows pass through one shift register and every destination row is written once, which takes
// rows + repeats - 1 writes instead of rows * repeats. Copies that would leave the memory at row 0, and copies of rows of the
// upper half of the memory that would leave that half, are masked.
// Rows with one copy pass through without delay, behind everything that came before.
module baco_pixel_repeat #(
    parameter DIM = 16,         // elements of a row
    parameter SP_ROWS = 16384,  // rows of the scratchpad
    parameter ROW_BITS = 14,    // bits of a local row index
    parameter COUNT_BITS = 5,   // bits of a number of copies or of their columns, which is at most DIM
    parameter PASS_BITS = 8     // bits handed on unchanged with every row
) (
    input  wire                  clock,
    input  wire                  reset,
    input  wire                  in_valid,     // a row is there
    output wire                  in_ready,     // it is taken
    input  wire                  in_first,     // it is the first of its command
    input  wire                  in_last,      // it is the last of its command
    input  wire                  in_nothing,   // it is not to be written
    input  wire                  in_repeated,  // it belongs to a command with more than one copy; its elements are 1 byte
    input  wire [COUNT_BITS-1:0] in_repeats,   // copies, 2 or more, when repeated
    input  wire [COUNT_BITS-1:0] in_cols,      // columns of a copy, 1 or more, when repeated
    input  wire [ROW_BITS-1:0]   in_row,       // local row
    input  wire [DIM-1:0]        in_mask,      // elements to write
    input  wire [PASS_BITS-1:0]  in_pass,      // handed on
    input  wire [DIM*32-1:0]     in_data,      // elements; only the low DIM bytes of repeated rows
    output wire                  out_valid,    // a row is there
    input  wire                  out_ready,    // it is taken
    output wire                  out_last,     // it is the last of its command
    output wire                  out_nothing,  // it is not to be written
    output wire [ROW_BITS-1:0]   out_row,      // local row
    output wire [DIM-1:0]        out_mask,     // elements to write
    output wire [PASS_BITS-1:0]  out_pass,     // from the input
    output wire [DIM*32-1:0]     out_data,     // elements
    output wire                  busy          // rows are held here
);
  localparam [31:0] HALF_WORD = SP_ROWS / 2;
  localparam [ROW_BITS:0] HALF = HALF_WORD[ROW_BITS:0];

  reg held;                        // the window is a row to be written
  reg held_last;
  reg [DIM*`ELEMENT_BITS-1:0] window;          // destination row, copy 0 lowest
  reg [DIM-1:0] filled;            // its columns that came from a row
  reg [DIM-1:0] upper;             // its columns that came from a row of the upper half
  reg [ROW_BITS:0] row;            // destination; the top bit is set below row 0
  reg [COUNT_BITS-1:0] flush;      // windows that follow the last row, by count; 0 while rows are expected
  reg [COUNT_BITS-1:0] cols;
  reg [PASS_BITS-1:0] pass;

  wire free = !held || out_ready;
  wire flushing = flush != {COUNT_BITS{1'b0}};
  wire take = in_valid && in_repeated && free && !flushing;
  wire through = in_valid && !in_repeated && !held && !flushing;
  assign in_ready = in_repeated ? free && !flushing : !held && !flushing && out_ready;

  wire [COUNT_BITS-1:0] in_top = (in_repeats - 1'b1) * in_cols;  // first column of the last copy
  wire [ROW_BITS:0] in_row_wide = {1'b0, in_row};
  wire in_upper = in_row_wide >= HALF;
  wire row_upper = row >= HALF;  // only used when row is not negative
  wire [ROW_BITS:0] lead = {{(ROW_BITS + 1 - COUNT_BITS) {1'b0}}, in_repeats} - {{ROW_BITS{1'b0}}, 1'b1};
  wire [DIM-1:0] allowed = row_upper ? filled : filled & ~upper;

  assign out_valid = held || through;
  assign out_last = held ? held_last : in_last;
  assign out_nothing = held ? row[ROW_BITS] || allowed == {DIM{1'b0}} : in_nothing;
  assign out_row = held ? row[ROW_BITS-1:0] : in_row;
  assign out_mask = held ? allowed : in_mask;
  assign out_pass = held ? pass : in_pass;
  assign out_data[DIM*`ELEMENT_BITS-1:0] = held ? window : in_data[DIM*`ELEMENT_BITS-1:0];
  assign out_data[DIM*32-1:DIM*`ELEMENT_BITS] = in_data[DIM*32-1:DIM*`ELEMENT_BITS];
  assign busy = held || flushing;

  // The columns of the row that enters, without what lies beyond them.
  function [DIM*`ELEMENT_BITS-1:0] only;
    input [DIM*`ELEMENT_BITS-1:0] data;
    input [DIM-1:0] mask;
    integer i;
    for (i = 0; i < DIM; i = i + 1) only[i*`ELEMENT_BITS+:`ELEMENT_BITS] = mask[i] ? data[i*`ELEMENT_BITS+:`ELEMENT_BITS] : `ELEMENT_BITS'd0;
  endfunction

  always @(posedge clock) begin
    if (reset) begin
      held <= 1'b0;
      flush <= {COUNT_BITS{1'b0}};
    end else if (free) begin
      held <= take || flushing;
      if (take) flush <= in_last ? lead[COUNT_BITS-1:0] : {COUNT_BITS{1'b0}};
      else if (flushing) flush <= flush - 1'b1;
    end
    if (take) begin
      held_last <= 1'b0;
      cols <= in_cols;
      pass <= in_pass;
      row <= in_first ? in_row_wide - lead : row + 1'b1;
      if (in_first) begin
        window <= only(in_data[DIM*`ELEMENT_BITS-1:0], in_mask) << {in_top, `ELEMENT_PLACES};
        filled <= in_mask << in_top;
        upper <= in_upper ? in_mask << in_top : {DIM{1'b0}};
      end else begin
        window <= (window >> {cols, `ELEMENT_PLACES}) | (only(in_data[DIM*`ELEMENT_BITS-1:0], in_mask) << {in_top, `ELEMENT_PLACES});
        filled <= (filled >> cols) | (in_mask << in_top);
        upper <= (upper >> cols) | (in_upper ? in_mask << in_top : {DIM{1'b0}});
      end
    end else if (flushing && free) begin
      held_last <= flush == {{(COUNT_BITS - 1) {1'b0}}, 1'b1};
      row <= row + 1'b1;
      window <= window >> {cols, `ELEMENT_PLACES};
      filled <= filled >> cols;
      upper <= upper >> cols;
    end
  end
endmodule
