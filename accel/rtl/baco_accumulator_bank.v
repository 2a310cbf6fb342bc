// One accumulator bank: read-modify-write in three stages, one row a cycle, also the same row back to back.
//
// Stage 0 takes a request and, if it accumulates, reads the old row; stage 1 has it, the memory taking most of a cycle; stage 2
// adds and writes. What the stages behind a request write to its row is handed to it in stage 1: a memory read before or in the
// cycle of a write returns what was there before.
module baco_accumulator_bank #(
    parameter DIM = 16,
    parameter ROWS = 512
) (
    input wire clock,
    input wire reset,
    input wire write_valid,                    // always taken
    input wire [$clog2(ROWS)-1:0] write_row,
    input wire write_accumulate,               // add to the contents instead of replacing them
    input wire [DIM-1:0] write_mask,
    input wire [DIM*32-1:0] write_data,
    input wire read_valid,
    output wire read_ready,                    // not while the port or the row is in use by a write
    input wire [$clog2(ROWS)-1:0] read_row,
    output wire [DIM*32-1:0] read_data         // in the cycle after the request was taken
);
`ifdef SYNTHESIS
  localparam SKIP = 0;
`else
  localparam SKIP = 1;                         // simulators skip what nothing will look at
`endif
  reg valid1;
  reg [$clog2(ROWS)-1:0] row1;
  reg accumulate1;
  reg [DIM-1:0] mask1;
  reg [DIM*32-1:0] data1;
  reg behind1;                                 // stage 2 has the same row
  reg written1;                                // what stage 2 had before was of it
  reg valid2;
  reg [$clog2(ROWS)-1:0] row2;
  reg accumulate2;
  reg [DIM-1:0] mask2;
  reg [DIM*32-1:0] data2;
  reg [DIM*32-1:0] old2;
  reg [DIM-1:0] mask3;                         // what was written last
  reg [DIM*32-1:0] data3;
  reg [DIM*32-1:0] sum;
  integer i;

  wire reads_old = write_valid && write_accumulate;
  assign read_ready = !reads_old && !(valid1 && row1 == read_row) && !(valid2 && row2 == read_row);

  baco_sram #(.ROWS(ROWS), .LANES(DIM), .LANE_BITS(32)) sram (
      .clock(clock), .read_enable(reads_old || (read_valid && read_ready)),
      .read_row(reads_old ? write_row : read_row), .read_data(read_data),
      .write_enable(valid2), .write_row(row2), .write_mask(mask2), .write_data(sum));

`ifdef BACO_FP8
  wire [DIM*32-1:0] added;
  genvar lane;
  generate
    for (lane = 0; lane < DIM; lane = lane + 1) begin : adder
      baco_float_add plus (.x(data2[lane*32 +: 32]), .y(old2[lane*32 +: 32]), .sum(added[lane*32 +: 32]));
    end
  endgenerate
`endif
  always @* begin
    sum = data2;
    i = 0;
    if (accumulate2 && (valid2 || SKIP == 0))
`ifdef BACO_FP8
      sum = added;
`else
      for (i = 0; i < DIM; i = i + 1)
        sum[i*32 +: 32] = data2[i*32 +: 32] + old2[i*32 +: 32];
`endif
  end

  integer j;
  always @(posedge clock) begin
    valid1 <= write_valid && !reset;
    valid2 <= valid1 && !reset;
    if (write_valid || SKIP == 0) begin
      row1 <= write_row;
      accumulate1 <= write_accumulate;
      mask1 <= write_mask;
      data1 <= write_data;
      behind1 <= valid1 && row1 == write_row;
      written1 <= valid2 && row2 == write_row;
    end
    if (valid1 || SKIP == 0) begin
      row2 <= row1;
      accumulate2 <= accumulate1;
      mask2 <= mask1;
      data2 <= data1;
      if (accumulate1 || SKIP == 0)
        for (j = 0; j < DIM; j = j + 1)
          old2[j*32 +: 32] <= behind1 && mask2[j] ? sum[j*32 +: 32]
              : written1 && mask3[j] ? data3[j*32 +: 32] : read_data[j*32 +: 32];
    end
    if (valid2 || SKIP == 0) begin
      mask3 <= mask2;
      data3 <= sum;
    end
  end
endmodule
