// The scratchpad: rows of DIM bytes in banks that interleave by the low bits of the row, so that two streams of
// consecutive rows that meet in one bank part after a single lost cycle.
//
// Four readers and three writers; a bank serves one of each a cycle, the lowest number first. Reader: 0 multiplicand,
// 1 multiplier or bias, 2 exchange (stationary operand), 3 store. Writer: 0 results (must never be refused, so it
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
    output wire [4*DIM*8-1:0] read_data,       // in the cycle after the request was taken
    input wire [2:0] write_valid,
    output wire [2:0] write_ready,
    input wire [3*SP_AW-1:0] write_row,
    input wire [3*DIM-1:0] write_mask,
    input wire [3*DIM*8-1:0] write_data
);
  localparam BANK_BITS = $clog2(SP_BANKS);
  localparam BANK_ROWS = (SP_ROWS + SP_BANKS - 1) / SP_BANKS;
  localparam ROW_BITS = $clog2(BANK_ROWS);

  wire [4*SP_BANKS-1:0] granted_read;          // reader r, bank b at r*SP_BANKS+b
  wire [3*SP_BANKS-1:0] granted_write;
  wire [SP_BANKS*DIM*8-1:0] bank_data;

  genvar b, r;
  generate
    for (b = 0; b < SP_BANKS; b = b + 1) begin : bank
      wire [3:0] want;
      wire [2:0] offer;
      for (r = 0; r < 4; r = r + 1) begin : reader
        if (SP_BANKS == 1) begin : only
          assign want[r] = read_valid[r];
        end else begin : one_of
          assign want[r] = read_valid[r] && read_row[r*SP_AW +: BANK_BITS] == b;
        end
        assign granted_read[r*SP_BANKS+b] = want[r] && (want & ((4'd1 << r) - 4'd1)) == 0;
      end
      for (r = 0; r < 3; r = r + 1) begin : writer
        if (SP_BANKS == 1) begin : only
          assign offer[r] = write_valid[r];
        end else begin : one_of
          assign offer[r] = write_valid[r] && write_row[r*SP_AW +: BANK_BITS] == b;
        end
        assign granted_write[r*SP_BANKS+b] = offer[r] && (offer & ((3'd1 << r) - 3'd1)) == 0;
      end
      reg [ROW_BITS-1:0] row_read;
      reg [ROW_BITS-1:0] row_write;
      reg [DIM-1:0] mask;
      reg [DIM*8-1:0] data;
      always @* begin
        row_read = want[0] ? read_row[BANK_BITS +: ROW_BITS] : want[1] ? read_row[SP_AW+BANK_BITS +: ROW_BITS]
                 : want[2] ? read_row[2*SP_AW+BANK_BITS +: ROW_BITS] : read_row[3*SP_AW+BANK_BITS +: ROW_BITS];
        row_write = offer[0] ? write_row[BANK_BITS +: ROW_BITS] : offer[1] ? write_row[SP_AW+BANK_BITS +: ROW_BITS]
                  : write_row[2*SP_AW+BANK_BITS +: ROW_BITS];
        mask = offer[0] ? write_mask[DIM-1:0] : offer[1] ? write_mask[2*DIM-1:DIM] : write_mask[3*DIM-1:2*DIM];
        data = offer[0] ? write_data[DIM*8-1:0] : offer[1] ? write_data[2*DIM*8-1:DIM*8] : write_data[3*DIM*8-1:2*DIM*8];
      end
      baco_sram #(.ROWS(BANK_ROWS), .LANES(DIM), .LANE_BITS(8)) sram (
          .clock(clock), .read_enable(want != 0), .read_row(row_read),
          .read_data(bank_data[b*DIM*8 +: DIM*8]),
          .write_enable(offer != 0), .write_row(row_write), .write_mask(mask), .write_data(data));
    end
    for (r = 0; r < 4; r = r + 1) begin : answer
      assign read_ready[r] = granted_read[r*SP_BANKS +: SP_BANKS] != 0;
      if (SP_BANKS == 1) begin : direct
        assign read_data[r*DIM*8 +: DIM*8] = bank_data;
      end else begin : select
        reg [BANK_BITS-1:0] from;
        always @(posedge clock) if (read_valid[r]) from <= read_row[r*SP_AW +: BANK_BITS];
        assign read_data[r*DIM*8 +: DIM*8] = bank_data[from*DIM*8 +: DIM*8];
      end
    end
    for (r = 0; r < 3; r = r + 1) begin : taken
      assign write_ready[r] = granted_write[r*SP_BANKS +: SP_BANKS] != 0;
    end
  endgenerate
endmodule
