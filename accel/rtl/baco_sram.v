// One memory bank: a synchronous read port and a masked write port. A read in the cycle of a write to the same row
// returns the old contents.
module baco_sram #(
    parameter ROWS = 1024,
    parameter LANES = 16,
    parameter LANE_BITS = 8
) (
    input wire clock,
    input wire read_enable,
    input wire [$clog2(ROWS)-1:0] read_row,
    output reg [LANES*LANE_BITS-1:0] read_data,   // in the cycle after read_enable, held until the next read
    input wire write_enable,
    input wire [$clog2(ROWS)-1:0] write_row,
    input wire [LANES-1:0] write_mask,            // lanes that are written
    input wire [LANES*LANE_BITS-1:0] write_data
);
  reg [LANES*LANE_BITS-1:0] memory [0:ROWS-1];
  integer i;

`ifdef VERILATOR
  // nothing else reads the memory: rows are written where they are, behind the read
  // verilator lint_off BLKSEQ
  always @(posedge clock) begin
    if (read_enable) read_data <= memory[read_row];
    if (write_enable)
      if (&write_mask) memory[write_row] = write_data;
      else
        for (i = 0; i < LANES; i = i + 1)
          if (write_mask[i]) memory[write_row][i*LANE_BITS +: LANE_BITS] = write_data[i*LANE_BITS +: LANE_BITS];
  end
  // verilator lint_on BLKSEQ
`else
  always @(posedge clock) begin
    if (read_enable) read_data <= memory[read_row];
    if (write_enable)
      for (i = 0; i < LANES; i = i + 1)
        if (write_mask[i]) memory[write_row][i*LANE_BITS +: LANE_BITS] <= write_data[i*LANE_BITS +: LANE_BITS];
  end
`endif
endmodule
