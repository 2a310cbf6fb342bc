// Walks over a matrix of DIM x DIM blocks and names the piece that one load or store moves.
//
// Memory holds the matrix row by row. A piece is one row of up to `step` blocks. Pieces come in the order
//   for each group of rows: for each `step` columns: for each row of the group
// which covers all orders that LOOP_WS needs: column by column (`whole`: one group of all rows), row by row
// (groups of one row) and groups of as many rows as execute takes columns (transposed B).
// Addresses advance by addition only; the memory offset wraps at 32 bits, as Gemmini's does.
// Sizes and strides are read while walking and must not change before `active` falls.
//
// The outputs are registers: what comes after the piece that they name is worked out beside it.
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
    output wire active,                    // from the start until the last piece has gone out
    output reg valid,                      // the outputs below name a piece
    output reg last,                       // it is the last one
    output reg [15:0] row,                 // its row
    output reg [15:0] col,                 // its first column
    output reg [15:0] col_last,            // its last one
    output reg [15:0] first_row,           // first row of its group
    output reg [31:0] offset,              // memory bytes from the start of the matrix
    output reg [ROW_BITS-1:0] place,       // local row
    output reg [15:0] size_rows,           // elements of a column
    output reg [15:0] size_cols            // elements of a row
);
  localparam LOG_DIM = $clog2(DIM);
  localparam [31:0] DIM_WORD = DIM;

  // The piece behind the one that the outputs name.
  reg walking;
  reg [15:0] row_at;
  reg [15:0] col_at;
  reg [15:0] first_row_at;
  reg [31:0] offset_at;
  reg [ROW_BITS-1:0] place_at;
  wire advance = walking && (!valid || next);
  assign active = walking || valid;

  // Start of its column of pieces within the group, and of the next group.
  reg [31:0] offset_col;
  reg [31:0] offset_group;
  reg [ROW_BITS-1:0] place_col;
  reg [ROW_BITS-1:0] place_group;

  wire [15:0] left = cols - col_at;
  wire last_step = left <= {9'b0, step};
  wire last_row = row_at == rows - 16'd1;
  wire group_end = last_row || (!whole && row_at - first_row_at == {9'b0, group} - 16'd1);
  wire last_piece = last_row && last_step;
  wire first_col = col_at == 16'd0;

  // The place of a block is (row * cols + col) * DIM.
  wire [ROW_BITS+15:0] cols_wide = {{ROW_BITS{1'b0}}, cols} << LOG_DIM;
  wire [ROW_BITS+15:0] step_wide = {{ROW_BITS+9{1'b0}}, step} << LOG_DIM;
  wire _unused = &{1'b0, cols_wide[ROW_BITS+15:ROW_BITS], step_wide[ROW_BITS+15:ROW_BITS]};
  wire [31:0] offset_down = offset_at + row_bytes;
  wire [31:0] offset_right = offset_col + step_bytes;
  wire [ROW_BITS-1:0] place_down = place_at + cols_wide[ROW_BITS-1:0];
  wire [ROW_BITS-1:0] place_right = place_col + step_wide[ROW_BITS-1:0];

  always @(posedge clock) begin
    if (start) walking <= 1'b1;
    else if (advance && last_piece) walking <= 1'b0;
    if (advance) valid <= 1'b1;
    else if (next) valid <= 1'b0;
    if (reset) begin
      walking <= 1'b0;
      valid <= 1'b0;
    end

    if (advance) begin
      last <= last_piece;
      row <= row_at;
      col <= col_at;
      col_last <= last_step ? cols - 16'd1 : col_at + {9'b0, step} - 16'd1;
      first_row <= first_row_at;
      offset <= offset_at;
      place <= place_at;
      size_rows <= last_row ? DIM_WORD[15:0] - {{16-LOG_DIM{1'b0}}, row_pad} : DIM_WORD[15:0];
      size_cols <= last_step ? (left << LOG_DIM) - {{16-LOG_DIM{1'b0}}, col_pad} : {9'b0, step} << LOG_DIM;
    end

    if (start) begin
      row_at <= 16'd0;
      col_at <= 16'd0;
      first_row_at <= 16'd0;
      offset_at <= 32'd0;
      offset_col <= 32'd0;
      place_at <= base;
      place_col <= base;
    end else if (advance) begin
      if (group_end && first_col) begin
        offset_group <= offset_down;
        place_group <= place_down;
      end
      if (!group_end) begin
        row_at <= row_at + 16'd1;
        offset_at <= offset_down;
        place_at <= place_down;
      end else if (!last_step) begin
        row_at <= first_row_at;
        col_at <= col_at + {9'b0, step};
        offset_at <= offset_right;
        offset_col <= offset_right;
        place_at <= place_right;
        place_col <= place_right;
      end else begin
        row_at <= row_at + 16'd1;
        first_row_at <= row_at + 16'd1;
        col_at <= 16'd0;
        offset_at <= first_col ? offset_down : offset_group;
        offset_col <= first_col ? offset_down : offset_group;
        place_at <= first_col ? place_down : place_group;
        place_col <= first_col ? place_down : place_group;
      end
    end
  end
endmodule
