// The scratchpad: rows of DIM bytes in banks. Four banks and more form two groups: quarters of the address space belong
// to the groups in turn, so that the multiplicands and the weights that the unrollers lay at the two ends of a half do
// not meet, whatever the stride. Inside a group (and everywhere with fewer banks, or when the rows are no power of two)
// banks interleave by the low bits of the row, so that two streams of consecutive rows that meet in one bank part after
// a single lost cycle.
//
// Four readers and three writers; a bank serves one of each a cycle, the lowest number first. Reader: 0 exchange
// (stationary operand: whoever yields here loses no cycle, since a product waits for its weights), 1 multiplicand, 2
// multiplier or bias, 3 store. What a bank reads is in a register before readers get it, since a memory takes most of a cycle.
// Writer: 0 results (must never be refused, so it
// has no ready), 1 load, 2 store (MVOUT_SPAD). Ports of the same kind are packed, number 0 in the low bits.
module baco_scratchpad #(
    parameter DIM = 16,
    parameter SP_ROWS = 16384,
    parameter SP_BANKS = 4,
    parameter SP_AW = 14                       // bits of a row number, $clog2(SP_ROWS)
) (
    input wire clock,
    input wire [3:0] read_valid,
    output wire [3:0] read_ready,
    input wire [4*SP_AW-1:0] read_row,
    output wire [4*DIM*`ELEMENT_BITS-1:0] read_data,       // two cycles after the request was taken
    input wire [2:0] write_valid,
    output wire [2:0] write_ready,
    input wire [3*SP_AW-1:0] write_row,
    input wire [3*DIM-1:0] write_mask,
    input wire [3*DIM*`ELEMENT_BITS-1:0] write_data
);
  localparam BANK_BITS = $clog2(SP_BANKS);
  localparam BB = SP_BANKS > 1 ? BANK_BITS : 1;
  localparam BANK_ROWS = (SP_ROWS + SP_BANKS - 1) / SP_BANKS;
  localparam ROW_BITS = $clog2(BANK_ROWS);
  localparam GROUPS = SP_BANKS >= 4 && (SP_ROWS & (SP_ROWS - 1)) == 0 && BANK_ROWS >= 4;

  wire [7*SP_AW-1:0] rows = {write_row, read_row};  // ports 0 to 3 read, 4 to 6 write
  wire [7*BB-1:0] bank_of;
  wire [7*ROW_BITS-1:0] row_of;                // row within the bank
  genvar b, r;
  generate
    for (r = 0; r < 7; r = r + 1) begin : place
      wire [SP_AW-1:0] row = rows[r*SP_AW +: SP_AW];
      if (SP_BANKS == 1) begin : single
        assign bank_of[r] = 1'b0;
        assign row_of[r*ROW_BITS +: ROW_BITS] = row;
      end else if (GROUPS) begin : grouped
        assign bank_of[r*BB +: BB] = {row[SP_AW-2], row[BB-2:0]};
        assign row_of[r*ROW_BITS +: ROW_BITS] = {row[SP_AW-1], row[SP_AW-3:BB-1]};
      end else begin : interleaved
        assign bank_of[r*BB +: BB] = row[BB-1:0];
        assign row_of[r*ROW_BITS +: ROW_BITS] = row[BB +: ROW_BITS];
      end
    end
  endgenerate

  wire [4*SP_BANKS-1:0] granted_read;          // reader r, bank b at r*SP_BANKS+b
  wire [3*SP_BANKS-1:0] granted_write;
  reg [SP_BANKS*DIM*`ELEMENT_BITS-1:0] bank_data;

  generate
    for (b = 0; b < SP_BANKS; b = b + 1) begin : bank
      wire [3:0] want;
      wire [2:0] offer;
      for (r = 0; r < 4; r = r + 1) begin : reader
        assign want[r] = read_valid[r] && bank_of[r*BB +: BB] == b;
        assign granted_read[r*SP_BANKS+b] = want[r] && (want & ((4'd1 << r) - 4'd1)) == 0;
      end
      for (r = 0; r < 3; r = r + 1) begin : writer
        assign offer[r] = write_valid[r] && bank_of[(4+r)*BB +: BB] == b;
        assign granted_write[r*SP_BANKS+b] = offer[r] && (offer & ((3'd1 << r) - 3'd1)) == 0;
      end
      reg [ROW_BITS-1:0] row_read;
      reg [ROW_BITS-1:0] row_write;
      reg [DIM-1:0] mask;
      reg [DIM*`ELEMENT_BITS-1:0] data;
      wire [DIM*`ELEMENT_BITS-1:0] memory_data;
      always @* begin
        row_read = want[0] ? row_of[0 +: ROW_BITS] : want[1] ? row_of[ROW_BITS +: ROW_BITS]
                 : want[2] ? row_of[2*ROW_BITS +: ROW_BITS] : row_of[3*ROW_BITS +: ROW_BITS];
        row_write = offer[0] ? row_of[4*ROW_BITS +: ROW_BITS] : offer[1] ? row_of[5*ROW_BITS +: ROW_BITS]
                  : row_of[6*ROW_BITS +: ROW_BITS];
        mask = offer[0] ? write_mask[DIM-1:0] : offer[1] ? write_mask[2*DIM-1:DIM] : write_mask[3*DIM-1:2*DIM];
        data = offer[0] ? write_data[DIM*`ELEMENT_BITS-1:0] : offer[1] ? write_data[2*DIM*`ELEMENT_BITS-1:DIM*`ELEMENT_BITS] : write_data[3*DIM*`ELEMENT_BITS-1:2*DIM*`ELEMENT_BITS];
      end
      baco_sram #(.ROWS(BANK_ROWS), .LANES(DIM), .LANE_BITS(`ELEMENT_BITS)) sram (
          .clock(clock), .read_enable(want != 0), .read_row(row_read),
          .read_data(memory_data),
          .write_enable(offer != 0), .write_row(row_write), .write_mask(mask), .write_data(data));
      always @(posedge clock) bank_data[b*DIM*`ELEMENT_BITS +: DIM*`ELEMENT_BITS] <= memory_data;
    end
    for (r = 0; r < 4; r = r + 1) begin : answer
      assign read_ready[r] = granted_read[r*SP_BANKS +: SP_BANKS] != 0;
      if (SP_BANKS == 1) begin : direct
        assign read_data[r*DIM*`ELEMENT_BITS +: DIM*`ELEMENT_BITS] = bank_data;
      end else begin : select
        reg [BB-1:0] asked, from;
        always @(posedge clock) begin
          asked <= bank_of[r*BB +: BB];
          from <= asked;
        end
        assign read_data[r*DIM*`ELEMENT_BITS +: DIM*`ELEMENT_BITS] = bank_data[from*DIM*`ELEMENT_BITS +: DIM*`ELEMENT_BITS];
      end
    end
    for (r = 0; r < 3; r = r + 1) begin : taken
      assign write_ready[r] = granted_write[r*SP_BANKS +: SP_BANKS] != 0;
    end
  endgenerate
endmodule
