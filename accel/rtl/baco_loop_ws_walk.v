// Walks over a matrix of DIM x DIM blocks and names the piece that one load or store moves.
//
// Memory holds the matrix row by row. A piece is one row of up to `step` blocks. Pieces come in the order
//   for each group of rows: for each `step` columns: for each row of the group
// which covers all orders that LOOP_WS needs: column by column (`whole`: one group of all rows), row by row
// (groups of one row) and groups of as many rows as execute takes columns (transposed B).
// Addresses advance by addition only; the memory offset wraps at 32 bits, as Gemmini's does.
// Sizes and strides are read while walking and must not change before `active` falls.
module baco_loop_ws_walk #(
    parameter DIM = 16,
    parameter ROW_BITS = 15    // width of a local row index
) (
    input wire clock,
    input wire reset,
    input wire start,                      // go to the first piece; there must be one
    input wire next,                       // the present piece has gone out
    input wire [ROW_BITS-1:0] base,        // local row of block (0, 0), read with `start`
    input wire [15:0] rows,                // blocks in a column
    input wire [15:0] cols,                // blocks in a row
    input wire [6:0] step,                 // blocks in a piece
    input wire whole,                      // one group of all rows
    input wire [6:0] group,                // otherwise: rows in a group
    input wire [31:0] row_bytes,           // memory bytes from a row of blocks to the next
    input wire [31:0] step_bytes,          // memory bytes from a piece to the next one of the same row
    input wire [$clog2(DIM)-1:0] row_pad,      // elements that the last row of blocks lacks
    input wire [$clog2(DIM)-1:0] col_pad,      // elements that the last column of blocks lacks
    output reg active,                     // the outputs below name a piece
    output wire last,                      // it is the last one
    output reg [15:0] row,                 // its row
    output reg [15:0] col,                 // its first column
    output wire [15:0] col_end,            // the column behind it
    output reg [15:0] first_row,           // first row of its group
    output reg [31:0] offset,              // memory bytes from the start of the matrix
    output reg [ROW_BITS-1:0] place,       // local row
    output wire [15:0] size_rows,          // elements of a column
    output wire [15:0] size_cols           // elements of a row
);
  localparam LOG_DIM = $clog2(DIM);
  localparam [31:0] DIM_WORD = DIM;

  // Start of the present column of pieces within the group, and of the next group.
  reg [31:0] offset_col;
  reg [31:0] offset_group;
  reg [ROW_BITS-1:0] place_col;
  reg [ROW_BITS-1:0] place_group;

  wire [15:0] left = cols - col;
  wire last_step = left <= {9'b0, step};
  wire last_row = row == rows - 16'd1;
  wire group_end = last_row || (!whole && row - first_row == {9'b0, group} - 16'd1);
  wire [15:0] blocks = last_step ? left : {9'b0, step};

  assign last = last_row && last_step;
  assign col_end = col + blocks;
  assign size_rows = DIM_WORD[15:0] - (last_row ? {{16-LOG_DIM{1'b0}}, row_pad} : 16'd0);
  assign size_cols = (blocks << LOG_DIM) - (last_step ? {{16-LOG_DIM{1'b0}}, col_pad} : 16'd0);

  // The place of a block is (row * cols + col) * DIM.
  wire [ROW_BITS+15:0] cols_wide = {{ROW_BITS{1'b0}}, cols} << LOG_DIM;
  wire [ROW_BITS+15:0] step_wide = {{ROW_BITS+9{1'b0}}, step} << LOG_DIM;
  wire _unused = &{1'b0, cols_wide[ROW_BITS+15:ROW_BITS], step_wide[ROW_BITS+15:ROW_BITS]};
  wire [31:0] offset_down = offset + row_bytes;
  wire [31:0] offset_right = offset_col + step_bytes;
  wire [ROW_BITS-1:0] place_down = place + cols_wide[ROW_BITS-1:0];
  wire [ROW_BITS-1:0] place_right = place_col + step_wide[ROW_BITS-1:0];

  always @(posedge clock) begin
    if (reset) active <= 1'b0;
    else if (start) active <= 1'b1;
    else if (next && last) active <= 1'b0;

    if (start) begin
      row <= 16'd0;
      col <= 16'd0;
      first_row <= 16'd0;
      offset <= 32'd0;
      offset_col <= 32'd0;
      place <= base;
      place_col <= base;
    end else if (next) begin
      if (group_end && col == 16'd0) begin
        offset_group <= offset_down;
        place_group <= place_down;
      end
      if (!group_end) begin
        row <= row + 16'd1;
        offset <= offset_down;
        place <= place_down;
      end else if (!last_step) begin
        row <= first_row;
        col <= col + {9'b0, step};
        offset <= offset_right;
        offset_col <= offset_right;
        place <= place_right;
        place_col <= place_right;
      end else begin
        row <= row + 16'd1;
        first_row <= row + 16'd1;
        col <= 16'd0;
        offset <= col == 16'd0 ? offset_down : offset_group;
        offset_col <= col == 16'd0 ? offset_down : offset_group;
        place <= col == 16'd0 ? place_down : place_group;
        place_col <= col == 16'd0 ? place_down : place_group;
      end
    end
  end
endmodule
