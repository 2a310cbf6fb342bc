// The order in which a store whose rows are softmaxed or normalised reads local rows: one item a cycle, each a block of
// DIM columns of one of its rows.
//
// All rows are gone through in passes, rows one after the other, blocks innermost: a softmax finds the largest elements,
// then the sums of exponentials, then its results; a normalisation its statistics, then its results. What leaves are
// the results of the last pass. Before each block of them a normalisation reads the accumulator row with the gains and
// offsets of its columns. A row's second look waits until what the first found is known. A product is a normalisation's
// last pass alone; the accumulator rows that it reads lie as the source's do.
module baco_function_walk #(
    parameter DIM = 16,        // elements in a local row
    parameter ROW_BITS = 14,   // local row index
    parameter ADDR_BITS = 40   // memory address
) (
    input wire clock,
    input wire reset,
    input wire start,                            // load a store; only while idle or with the last item taken
    input wire start_softmax,                    // else a normalisation
    input wire start_product,                    // ... without statistics, by elements of accumulator rows
    input wire start_causal,                     // the first row has `start_valid` elements, each further one one more
    input wire [16:0] start_valid,
    input wire start_acc,                        // source: accumulator, else scratchpad
    input wire start_spad,                       // destination: scratchpad, else memory
    input wire [ROW_BITS-1:0] start_row,         // first local row
    input wire [7:0] start_apart,                // rows from one block of a row to the next
    input wire [ROW_BITS-1:0] start_parameters,  // accumulator row of the first columns' gains and offsets
    input wire [ADDR_BITS-1:0] start_addr,       // first byte's address
    input wire [ADDR_BITS-1:0] start_stride,     // bytes between rows
    input wire [7:0] start_rows,                 // not 0, at most DIM
    input wire [15:0] start_cols,                // elements of a row, not 0
    input wire [DIM-1:0] summable,               // rows whose largest element is known
    input wire [DIM-1:0] finished,               // rows whose statistics are
    output reg active,
    output wire offer,                           // an item may be taken
    input wire item_taken,                       // it is taken in this cycle
    output wire item_parameter,                  // gains and offsets, else elements
    output wire [ROW_BITS-1:0] item_row,         // local row
    output reg [ADDR_BITS-1:0] item_addr,        // address of its first byte
    output wire [7:0] item_cols,                 // elements of the block
    output wire [7:0] item_count,                // ... that take part
    output wire item_acc,                        // source, gains and offsets included
    output wire item_spad,                       // as start_spad
    output reg [1:0] item_pass,                  // 0 largest elements or statistics, 1 sums, 2 results
    output reg [6:0] item_index,                 // row of the store
    output wire item_end,                        // last block of its row
    output wire item_last                        // last of the store
);
  localparam INDEX_BITS = $clog2(DIM);
  localparam [16:0] BLOCK = DIM[16:0];
  localparam [15:0] BLOCK_COLS = DIM[15:0];
  localparam [ADDR_BITS-1:0] BLOCK_BYTES = {{(ADDR_BITS-8){1'b0}}, DIM[7:0]};
  localparam [31:0] APART_VALUE = DIM * DIM;      // in the scratchpad, too, blocks lie DIM rows apart
  localparam [ADDR_BITS-1:0] BLOCK_APART = {{(ADDR_BITS-32){1'b0}}, APART_VALUE};
  localparam [ROW_BITS-1:0] ONE_ROW = {{(ROW_BITS-1){1'b0}}, 1'b1};
  localparam [16:0] EVERYTHING = 17'h10000;
  localparam [1:0] RESULTS = 2'd2;

  // the store
  reg softmax, causal, product, acc, spad;
  reg [ROW_BITS-1:0] first_row, parameters;
  reg [ADDR_BITS-1:0] first_addr, stride;
  reg [7:0] rows, apart;
  wire [ROW_BITS+7:0] wide_apart = {{ROW_BITS{1'b0}}, apart};
  reg [15:0] cols;
  reg [16:0] first_valid;
  // where the walk is
  reg parameters_read;                           // of this block
  reg [ROW_BITS-1:0] row, start_of_row, parameter_row;
  reg [ADDR_BITS-1:0] line_addr;
  reg [7:0] rows_left;
  reg [15:0] cols_left;
  reg [16:0] valid, valid_left;                  // elements of the row that take part; from this block on

  wire last_block = cols_left <= BLOCK_COLS;
  wire last_row = rows_left == 8'd1;
  wire known = product || item_pass == 2'd0 || (item_pass == RESULTS ? finished[item_index[INDEX_BITS-1:0]]
                                                          : summable[item_index[INDEX_BITS-1:0]]);
  wire [16:0] next_valid = causal ? valid + 17'd1 : valid;
  wire [7:0] valid_here = valid_left >= BLOCK ? DIM[7:0] : valid_left[7:0];
  assign offer = active && known;
  assign item_parameter = !softmax && item_pass == RESULTS && !parameters_read;
  assign item_row = !item_parameter ? row : product ? parameters + row : parameter_row;
  assign item_acc = item_parameter || acc;
  assign item_spad = spad;
  assign item_cols = last_block ? cols_left[7:0] : DIM[7:0];
  assign item_count = valid_here < item_cols ? valid_here : item_cols;
  assign item_end = last_block;
  assign item_last = !item_parameter && item_pass == RESULTS && last_block && last_row;

  always @(posedge clock) begin
    if (item_taken) begin
      parameters_read <= item_parameter;
      if (item_last)
        active <= 1'b0;
      if (!item_parameter) begin
        if (!last_block) begin
          row <= row + wide_apart[ROW_BITS-1:0];
          item_addr <= item_addr + (spad ? BLOCK_APART : BLOCK_BYTES);
          cols_left <= cols_left - BLOCK_COLS;
          valid_left <= valid_left >= BLOCK ? valid_left - BLOCK : 17'd0;
          parameter_row <= parameter_row + ONE_ROW;
        end
        else begin
          cols_left <= cols;
          parameter_row <= parameters;
          if (!last_row) begin
            row <= start_of_row + ONE_ROW;
            start_of_row <= start_of_row + ONE_ROW;
            item_addr <= line_addr + stride;
            line_addr <= line_addr + stride;
            rows_left <= rows_left - 8'd1;
            item_index <= item_index + 7'd1;
            valid <= next_valid;
            valid_left <= next_valid;
          end
          else begin
            item_pass <= softmax && item_pass == 2'd0 ? 2'd1 : RESULTS;
            row <= first_row;
            start_of_row <= first_row;
            item_addr <= first_addr;
            line_addr <= first_addr;
            rows_left <= rows;
            item_index <= 7'd0;
            valid <= first_valid;
            valid_left <= first_valid;
          end
        end
      end
    end
    if (start) begin
      active <= 1'b1;
      softmax <= start_softmax;
      causal <= start_causal;
      product <= start_product;
      acc <= start_acc;
      spad <= start_spad;
      first_row <= start_row;
      parameters <= start_parameters;
      first_addr <= start_addr;
      stride <= start_stride;
      rows <= start_rows;
      apart <= start_apart;
      cols <= start_cols;
      first_valid <= start_causal ? start_valid : EVERYTHING;
      parameters_read <= 1'b0;
      row <= start_row;
      start_of_row <= start_row;
      parameter_row <= start_parameters;
      item_addr <= start_addr;
      line_addr <= start_addr;
      rows_left <= start_rows;
      cols_left <= start_cols;
      valid <= start_causal ? start_valid : EVERYTHING;
      valid_left <= start_causal ? start_valid : EVERYTHING;
      item_pass <= start_product ? RESULTS : 2'd0;
      item_index <= 7'd0;
    end
    if (reset)
      active <= 1'b0;
  end
  wire _unused = &{1'b0, item_index, wide_apart};
endmodule
