// The stores of a LOOP_WS whose results are a layer norm or a softmax of its rows: for every two rows of C, one
// statistics slot each, two passes of normaliser commands and one of results, each after a CONFIG_NORM of the slot.
//
// A piece is a row of up to `step` blocks; the commands of a row's last piece end its statistics, those before go on.
module baco_loop_ws_normalise #(
    parameter DIM = 16,
    parameter ROW_BITS = 15    // width of a local row index
) (
    input wire clock,
    input wire reset,
    input wire start,                      // go to the first command
    input wire next,                       // the present command has gone out
    input wire softmax,                    // else layer norm
    input wire [ROW_BITS-1:0] base,        // local row of block (0, 0), read with `start`
    input wire [15:0] rows,                // blocks in a column
    input wire [15:0] cols,                // blocks in a row
    input wire [6:0] step,                 // blocks in a piece
    input wire [31:0] stride,              // memory bytes from a row of elements to the next
    input wire [31:0] step_bytes,          // memory bytes from a piece to the next one of the same row
    input wire [$clog2(DIM)-1:0] row_pad,  // elements that the last row of blocks lacks
    input wire [$clog2(DIM)-1:0] col_pad,  // elements that the last column of blocks lacks
    output reg active,                     // the outputs below name a command
    output wire last,                      // it is the last one
    output reg configures,                 // CONFIG_NORM, else MVOUT
    output reg slot,
    output wire [2:0] command,             // normaliser command
    output wire [31:0] offset,             // memory bytes from the start of the matrix
    output wire [ROW_BITS-1:0] place,      // local row
    output wire [15:0] size_cols           // elements
);
  localparam LOG_DIM = $clog2(DIM);
  localparam [31:0] DIM_WORD = DIM;
  localparam [LOG_DIM:0] ALL_ROWS = DIM_WORD[LOG_DIM:0];
  localparam [ROW_BITS-1:0] ONE_ROW = {{(ROW_BITS-1){1'b0}}, 1'b1};

  reg [15:0] row;                          // of blocks
  reg [LOG_DIM:0] first;                   // of the two rows of elements
  reg [1:0] pass;
  reg [15:0] col;
  reg [31:0] pair_offset;                  // of the first of the two rows
  reg [31:0] col_offset;
  reg [ROW_BITS-1:0] block_place;          // of the row of blocks
  reg [ROW_BITS-1:0] pair_place;
  reg [ROW_BITS-1:0] col_place;

  wire [15:0] left = cols - col;
  wire last_step = left <= {9'b0, step};
  wire [15:0] blocks = last_step ? left : {9'b0, step};
  wire last_row = row == rows - 16'd1;
  wire [LOG_DIM:0] rows_here = ALL_ROWS - (last_row ? {1'b0, row_pad} : {(LOG_DIM+1){1'b0}});
  wire [LOG_DIM:0] rows_left = rows_here - first;
  wire two = rows_left > {{LOG_DIM{1'b0}}, 1'b1};
  wire more = rows_left > {{(LOG_DIM-1){1'b0}}, 2'd2};
  wire last_slot = slot || !two;
  assign last = last_row && last_step && last_slot && !more && !configures && pass == 2'd2;
  assign command = pass == 2'd2 ? 3'd0
                 : softmax ? (pass == 2'd0 ? 3'd5 : last_step ? 3'd7 : 3'd6)
                 : {1'b0, pass[0], 1'b1} + {2'b00, last_step};
  assign offset = pair_offset + (slot ? stride : 32'd0) + col_offset;
  assign place = pair_place + (slot ? ONE_ROW : {ROW_BITS{1'b0}}) + col_place;
  assign size_cols = (blocks << LOG_DIM) - (last_step ? {{16-LOG_DIM{1'b0}}, col_pad} : 16'd0);

  wire [ROW_BITS+15:0] cols_wide = {{ROW_BITS{1'b0}}, cols} << LOG_DIM;
  wire [ROW_BITS+15:0] step_wide = {{ROW_BITS+9{1'b0}}, step} << LOG_DIM;
  wire _unused = &{1'b0, cols_wide[ROW_BITS+15:ROW_BITS], step_wide[ROW_BITS+15:ROW_BITS]};
  wire [ROW_BITS-1:0] block_below = block_place + cols_wide[ROW_BITS-1:0];
  wire [31:0] pair_below = pair_offset + (stride << 1);

  always @(posedge clock) begin
    if (reset) active <= 1'b0;
    else if (start) active <= 1'b1;
    else if (next && last) active <= 1'b0;

    if (start) begin
      row <= 16'd0;
      first <= {(LOG_DIM+1){1'b0}};
      pass <= 2'd0;
      slot <= 1'b0;
      configures <= 1'b1;
      col <= 16'd0;
      pair_offset <= 32'd0;
      col_offset <= 32'd0;
      block_place <= base;
      pair_place <= base;
      col_place <= {ROW_BITS{1'b0}};
    end
    else if (next && configures)
      configures <= 1'b0;
    else if (next && !last_step) begin
      col <= col + {9'b0, step};
      col_offset <= col_offset + step_bytes;
      col_place <= col_place + step_wide[ROW_BITS-1:0];
    end
    else if (next) begin
      configures <= 1'b1;
      col <= 16'd0;
      col_offset <= 32'd0;
      col_place <= {ROW_BITS{1'b0}};
      slot <= !last_slot;
      if (last_slot) begin
        pass <= pass == 2'd2 ? 2'd0 : pass + 2'd1;
        if (pass == 2'd2) begin
          pair_offset <= pair_below;
          if (more) begin
            first <= first + {{(LOG_DIM-1){1'b0}}, 2'd2};
            pair_place <= pair_place + (ONE_ROW << 1);
          end
          else begin
            row <= row + 16'd1;
            first <= {(LOG_DIM+1){1'b0}};
            block_place <= block_below;
            pair_place <= block_below;
          end
        end
      end
    end
  end
endmodule
