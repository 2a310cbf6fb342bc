// The accumulator: rows of DIM 32-bit elements in banks that interleave: by the low bits of the row, turned on by one from
// each block of DIM rows to the next. While results accumulate into consecutive rows each bank is busy only every
// ACC_BANKS cycles, so stores read at full rate next to it, from the same tile or another one, be it row by row or, where
// a row of the matrix has several blocks of columns, DIM rows apart.
//
// Writer 0 (results) is never refused; writer 1 (loads) waits for its bank. One reader (stores).
module baco_accumulator #(
    parameter DIM = 16,
    parameter ACC_ROWS = 1024,
    parameter ACC_BANKS = 2,
    parameter ACC_AW = 10                      // bits of a row number, $clog2(ACC_ROWS)
) (
    input wire clock,
    input wire reset,
    input wire result_valid,
    input wire [ACC_AW-1:0] result_row,
    input wire result_accumulate,
    input wire [DIM-1:0] result_mask,
    input wire [DIM*32-1:0] result_data,
    input wire load_valid,
    output wire load_ready,
    input wire [ACC_AW-1:0] load_row,
    input wire load_accumulate,
    input wire [DIM-1:0] load_mask,
    input wire [DIM*32-1:0] load_data,
    input wire read_valid,
    output wire read_ready,
    input wire [ACC_AW-1:0] read_row,
    output wire [DIM*32-1:0] read_data         // in the cycle after the request was taken
);
  localparam BANK_BITS = $clog2(ACC_BANKS);
  localparam BANK_ROWS = (ACC_ROWS + ACC_BANKS - 1) / ACC_BANKS;
  localparam ROW_BITS = $clog2(BANK_ROWS);
  localparam LOG_DIM = $clog2(DIM);

  wire [ACC_BANKS-1:0] load_granted;
  wire [ACC_BANKS-1:0] read_granted;
  wire [ACC_BANKS*DIM*32-1:0] bank_data;
  assign load_ready = load_granted != 0;
  assign read_ready = read_granted != 0;

  // the bank of a row (with one bank: nothing that is used)
  wire [ACC_AW+LOG_DIM+BANK_BITS:0] result_wide = {{(LOG_DIM+BANK_BITS+1){1'b0}}, result_row};
  wire [ACC_AW+LOG_DIM+BANK_BITS:0] load_wide = {{(LOG_DIM+BANK_BITS+1){1'b0}}, load_row};
  wire [ACC_AW+LOG_DIM+BANK_BITS:0] read_wide = {{(LOG_DIM+BANK_BITS+1){1'b0}}, read_row};
  wire [BANK_BITS:0] result_bank = result_wide[BANK_BITS:0] ^ result_wide[LOG_DIM +: BANK_BITS+1];
  wire [BANK_BITS:0] load_bank = load_wide[BANK_BITS:0] ^ load_wide[LOG_DIM +: BANK_BITS+1];
  wire [BANK_BITS:0] read_bank = read_wide[BANK_BITS:0] ^ read_wide[LOG_DIM +: BANK_BITS+1];

  genvar b;
  generate
    for (b = 0; b < ACC_BANKS; b = b + 1) begin : bank
      wire result_here;
      wire load_here;
      wire read_here;
      wire free;
      if (ACC_BANKS == 1) begin : only
        assign result_here = result_valid;
        assign load_here = load_valid;
        assign read_here = read_valid;
      end else begin : one_of
        assign result_here = result_valid && result_bank[BANK_BITS-1:0] == b;
        assign load_here = load_valid && load_bank[BANK_BITS-1:0] == b;
        assign read_here = read_valid && read_bank[BANK_BITS-1:0] == b;
      end
      assign load_granted[b] = load_here && !result_here;
      assign read_granted[b] = read_here && free;
      baco_accumulator_bank #(.DIM(DIM), .ROWS(BANK_ROWS)) memory (
          .clock(clock), .reset(reset),
          .write_valid(result_here || load_here),
          .write_row(result_here ? result_row[BANK_BITS +: ROW_BITS] : load_row[BANK_BITS +: ROW_BITS]),
          .write_accumulate(result_here ? result_accumulate : load_accumulate),
          .write_mask(result_here ? result_mask : load_mask),
          .write_data(result_here ? result_data : load_data),
          .read_valid(read_here), .read_ready(free), .read_row(read_row[BANK_BITS +: ROW_BITS]),
          .read_data(bank_data[b*DIM*32 +: DIM*32]));
    end
    if (ACC_BANKS == 1) begin : direct
      assign read_data = bank_data;
    end else begin : select
      reg [BANK_BITS-1:0] from;
      always @(posedge clock) if (read_valid) from <= read_bank[BANK_BITS-1:0];
      assign read_data = bank_data[from*DIM*32 +: DIM*32];
    end
  endgenerate
  wire _unused = &{1'b0, result_wide, load_wide, read_wide, result_bank, load_bank, read_bank};
endmodule
