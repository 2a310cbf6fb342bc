// The order in which a store reads local rows: one item a cycle, each the part of a memory row that one local row
// holds.
//
// Ordinary stores go through `rows` rows, the blocks of DIM columns of a row innermost (they lie DIM local rows
// apart) so that a memory row's bytes leave in sequence. Windowed stores (pooling; the 1-D mode is a window of one
// element) visit the pixels of the pooled image and, for each, the elements of its window. All addresses are
// kept incrementally, one register a loop level, so that nothing is multiplied here. Elements that lie in the padding
// are items too, marked `item_zero`: a window must produce a result even where it holds nothing else.
//
// A new store may start in the cycle in which the last item of the one before is taken.
module baco_store_walk #(
    parameter DIM = 16,        // elements in a local row
    parameter ROW_BITS = 14,   // local row index
    parameter COL_BITS = 16,   // columns of a row
    parameter ADDR_BITS = 40   // memory address
) (
    input wire clock,
    input wire reset,
    input wire start,                            // load a store; only while `idle` or with the last item taken
    input wire start_acc,                        // source: accumulator, else scratchpad
    input wire start_full,                       // 4-byte elements
    input wire start_spad,                       // destination: scratchpad, else memory
    input wire start_windowed,                   // walk windows instead of rows
    input wire [ROW_BITS-1:0] start_row,         // first local row
    input wire [ADDR_BITS-1:0] start_addr,       // first byte's address
    input wire [ADDR_BITS-1:0] start_stride,     // bytes between rows, or between pixels of the pooled image
    input wire [7:0] start_rows,                 // not 0
    input wire [COL_BITS-1:0] start_cols,        // elements of a row, not 0
    // geometry of windows, constant while a windowed store is active
    input wire [1:0] window_edge,                // rows and columns of a window, 1..3
    input wire [1:0] window_step,                // distance between windows
    input wire [1:0] pad_top,                    // zero rows above
    input wire [1:0] pad_left,                   // zero columns on the left
    input wire [7:0] image_rows,                 // rows held locally
    input wire [7:0] image_cols,                 // columns held locally, one local row each
    input wire [7:0] pooled_rows,                // not 0
    input wire [7:0] pooled_cols,                // not 0
    input wire [9:0] pad_distance,               // pad_top * image_cols + pad_left
    input wire [9:0] line_distance,              // window_step * image_cols
    input wire [ADDR_BITS-1:0] line_stride,      // bytes between rows of the pooled image
    output reg active,                           // an item is offered
    input wire item_taken,                       // it is taken in this cycle
    output wire [ROW_BITS-1:0] item_row,         // local row
    output wire [ADDR_BITS-1:0] item_addr,       // address of its first byte
    output wire [9:0] item_bytes,                // bytes of the row that are stored
    output reg item_acc,                         // as start_acc
    output reg item_full,                        // as start_full
    output reg item_spad,                        // as start_spad
    output wire item_zero,                       // padding: counts as zeros, nothing is read
    output wire item_first,                      // first of its window
    output wire item_emit,                       // last of its window: the result is stored
`ifdef BACO_NORMALIZATIONS
    output wire item_row_end,                    // last of its row
`endif
    output wire item_last                        // last of the store
);
  localparam [7:0] BLOCK = DIM[7:0];
  localparam [COL_BITS-1:0] BLOCK_COLS = DIM[COL_BITS-1:0];
  localparam [ROW_BITS+7:0] BLOCK_WIDE = {{ROW_BITS{1'b0}}, BLOCK};
  localparam [ROW_BITS-1:0] BLOCK_ROWS = BLOCK_WIDE[ROW_BITS-1:0];
`ifdef BACO_WIDE_ELEMENTS
  localparam [ADDR_BITS-1:0] BLOCK_BYTES = {{(ADDR_BITS-9){1'b0}}, BLOCK, 1'b0};
`else
  localparam [ADDR_BITS-1:0] BLOCK_BYTES = {{(ADDR_BITS-8){1'b0}}, BLOCK};
`endif
  localparam [ADDR_BITS-1:0] BLOCK_BYTES_FULL = {{(ADDR_BITS-10){1'b0}}, BLOCK, 2'b00};
  localparam [31:0] APART_VALUE = DIM * `ROW_BYTES;      // in the scratchpad, too, blocks lie DIM rows apart
  localparam [ADDR_BITS-1:0] BLOCK_APART = {{(ADDR_BITS-32){1'b0}}, APART_VALUE};
  localparam [ROW_BITS-1:0] ONE_ROW = {{(ROW_BITS-1){1'b0}}, 1'b1};

  reg windowed;
  reg [ADDR_BITS-1:0] stride;
  reg [COL_BITS-1:0] cols;
  reg [COL_BITS-1:0] cols_left;                  // of this row
  reg [7:0] lines_left;                          // rows (of the pooled image)
  reg [ROW_BITS-1:0] row;
  reg [ADDR_BITS-1:0] addr;
  reg [ADDR_BITS-1:0] line_addr;
  reg [ROW_BITS-1:0] start_of_row;               // windowed: of the pixel's window
  wire last_block = cols_left <= BLOCK_COLS;
  wire [7:0] block_cols = last_block ? cols_left[7:0] : BLOCK;

  // loops over windows
  reg [1:0] window_row;
  reg [1:0] window_col;
  reg [7:0] pixels_left;
  reg [ROW_BITS-1:0] start_of_window_row;
  reg [ROW_BITS-1:0] start_of_line;
  reg [10:0] image_row;                          // signed: negative in the padding
  reg [10:0] image_col;
  reg [10:0] line_image_row;
  reg [10:0] pixel_image_col;
  wire window_row_last = window_row == window_edge - 2'd1;
  wire window_col_last = window_col == window_edge - 2'd1;
  wire [ROW_BITS+10:0] pad_rows = {{(ROW_BITS+1){1'b0}}, pad_distance};
  wire [ROW_BITS+10:0] line_rows = {{(ROW_BITS+1){1'b0}}, line_distance};
  wire [ROW_BITS+10:0] image_col_rows = {{(ROW_BITS+3){1'b0}}, image_cols};
  wire [ROW_BITS+10:0] step_rows = {{(ROW_BITS+9){1'b0}}, window_step};

  assign item_row = row;
  assign item_addr = addr;
  assign item_bytes = item_full ? {block_cols, 2'b00} : `BYTES(block_cols);
  assign item_zero = windowed && (image_row >= {3'd0, image_rows} || image_col >= {3'd0, image_cols});
  assign item_first = !windowed || (window_row == 2'd0 && window_col == 2'd0);
  assign item_emit = !windowed || (window_row_last && window_col_last);
`ifdef BACO_NORMALIZATIONS
  assign item_row_end = last_block;
`endif
  assign item_last = item_emit && last_block && lines_left == 8'd1 && (!windowed || pixels_left == 8'd1);

  always @(posedge clock) begin
    if (item_taken) begin
      if (item_last)
        active <= 1'b0;
      if (!windowed) begin
        if (!last_block) begin
          row <= row + BLOCK_ROWS;
          addr <= addr + (item_spad ? BLOCK_APART : item_full ? BLOCK_BYTES_FULL : BLOCK_BYTES);
          cols_left <= cols_left - BLOCK_COLS;
        end
        else begin
          row <= start_of_row + ONE_ROW;
          start_of_row <= start_of_row + ONE_ROW;
          addr <= line_addr + stride;
          line_addr <= line_addr + stride;
          cols_left <= cols;
          lines_left <= lines_left - 8'd1;
        end
      end
      else if (!window_col_last) begin
        row <= row + ONE_ROW;
        window_col <= window_col + 2'd1;
        image_col <= image_col + 11'd1;
      end
      else begin
        window_col <= 2'd0;
        if (!window_row_last) begin
          row <= start_of_window_row + image_col_rows[ROW_BITS-1:0];
          start_of_window_row <= start_of_window_row + image_col_rows[ROW_BITS-1:0];
          window_row <= window_row + 2'd1;
          image_row <= image_row + 11'd1;
          image_col <= pixel_image_col;
        end
        else begin
          window_row <= 2'd0;
          if (pixels_left != 8'd1) begin
            row <= start_of_row + step_rows[ROW_BITS-1:0];
            start_of_window_row <= start_of_row + step_rows[ROW_BITS-1:0];
            start_of_row <= start_of_row + step_rows[ROW_BITS-1:0];
            addr <= addr + stride;
            pixels_left <= pixels_left - 8'd1;
            image_row <= line_image_row;
            image_col <= pixel_image_col + {9'd0, window_step};
            pixel_image_col <= pixel_image_col + {9'd0, window_step};
          end
          else begin
            row <= start_of_line + line_rows[ROW_BITS-1:0];
            start_of_window_row <= start_of_line + line_rows[ROW_BITS-1:0];
            start_of_row <= start_of_line + line_rows[ROW_BITS-1:0];
            start_of_line <= start_of_line + line_rows[ROW_BITS-1:0];
            addr <= line_addr + line_stride;
            line_addr <= line_addr + line_stride;
            pixels_left <= pooled_cols;
            lines_left <= lines_left - 8'd1;
            image_row <= line_image_row + {9'd0, window_step};
            line_image_row <= line_image_row + {9'd0, window_step};
            image_col <= -{9'd0, pad_left};
            pixel_image_col <= -{9'd0, pad_left};
          end
        end
      end
    end
    if (start) begin
      active <= 1'b1;
      item_acc <= start_acc;
      item_full <= start_full;
      item_spad <= start_spad;
      windowed <= start_windowed;
      stride <= start_stride;
      cols <= start_cols;
      cols_left <= start_cols;
      lines_left <= start_windowed ? pooled_rows : start_rows;
      pixels_left <= pooled_cols;
      addr <= start_addr;
      line_addr <= start_addr;
      window_row <= 2'd0;
      window_col <= 2'd0;
      image_row <= -{9'd0, pad_top};
      line_image_row <= -{9'd0, pad_top};
      image_col <= -{9'd0, pad_left};
      pixel_image_col <= -{9'd0, pad_left};
      row <= start_windowed ? start_row - pad_rows[ROW_BITS-1:0] : start_row;
      start_of_row <= start_windowed ? start_row - pad_rows[ROW_BITS-1:0] : start_row;
      start_of_window_row <= start_row - pad_rows[ROW_BITS-1:0];
      start_of_line <= start_row - pad_rows[ROW_BITS-1:0];
    end
    if (reset)
      active <= 1'b0;
  end

  wire _unused = &{1'b0, pad_rows[ROW_BITS+10:ROW_BITS], line_rows[ROW_BITS+10:ROW_BITS],
                   image_col_rows[ROW_BITS+10:ROW_BITS], step_rows[ROW_BITS+10:ROW_BITS]};
endmodule
