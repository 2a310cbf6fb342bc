// Fetches one operand of the array: rows from the scratchpad, zeros where the operand has none.
//
// An operation is `total` rows of which the first `rows` are read (from `base`, `stride` apart, lanes from `lanes`
// on cleared) and the rest are zeros. Rows come out in order; up to seven are fetched ahead, across operations, so
// that neither the read latency nor a bank conflict stalls the array. A row that arrives while none waits need not wait either.
module baco_fetch #(
    parameter DIM = 16,
    parameter SP_AW = 14,
    parameter CW = 5                           // bits of a count 0..DIM
) (
    input wire clock,
    input wire reset,
    input wire op_valid,
    output wire op_ready,                      // with the last row of the operation
    input wire [SP_AW-1:0] op_base,
    input wire [15:0] op_stride,
    input wire [CW-1:0] op_rows,
    input wire [CW-1:0] op_total,              // at least 1
    input wire [CW-1:0] op_lanes,
    output wire read_valid,
    input wire read_ready,
    output wire [SP_AW-1:0] read_row,
    input wire [DIM*`ELEMENT_BITS-1:0] read_data,          // two cycles after the request was taken
    output wire row_valid,
    input wire row_ready,
    output wire [DIM*`ELEMENT_BITS-1:0] row_data
);
  reg [CW-1:0] index;                          // rows of the operation already under way
  reg [SP_AW-1:0] address;                     // of row `index`, unless index is 0
  reg [2:0] credits;                           // places for rows that are not yet under way
  reg requested;                               // a row was asked for in the cycle before
  reg zero_requested;                          // ... and it is all zeros
  reg [CW-1:0] lanes_requested;
  reg arrives;                                 // a row arrives in this cycle
  reg zero;
  reg [CW-1:0] lanes;
  reg [DIM*`ELEMENT_BITS-1:0] cleaned;
  integer i;

  wire [SP_AW-1:0] op_stride_cut;
  generate
    if (SP_AW > 16) begin : wide
      assign op_stride_cut = {{(SP_AW-16){1'b0}}, op_stride};
    end else begin : narrow
      assign op_stride_cut = op_stride[SP_AW-1:0];
      wire _unused = &{1'b0, op_stride};  // rows wrap
    end
  endgenerate

  wire real_row = index < op_rows;
  wire [SP_AW-1:0] row = index == 0 ? op_base : address;
  wire room = credits != 0;
  wire starts = op_valid && room && (!real_row || read_ready);
  wire last = index + 1'b1 == op_total;
  assign read_valid = op_valid && room && real_row;
  assign read_row = row;
  assign op_ready = starts && last;

  wire _unused_ready;
  wire waits;                                  // a row does
  wire [DIM*`ELEMENT_BITS-1:0] waiting;
  baco_fifo #(.WIDTH(DIM*`ELEMENT_BITS), .DEPTH(7)) rows (
      .clock(clock), .reset(reset), .in_valid(arrives && (waits || !row_ready)), .in_ready(_unused_ready), .in_data(cleaned),
      .out_valid(waits), .out_ready(row_ready), .out_data(waiting));
  assign row_valid = waits || arrives;
  assign row_data = waits ? waiting : cleaned;

  always @* begin
    cleaned = {DIM*`ELEMENT_BITS{1'b0}};
    i = 0;
    if (arrives && !zero)
      for (i = 0; i < DIM; i = i + 1)
        if (i[CW-1:0] < lanes) cleaned[i*`ELEMENT_BITS +: `ELEMENT_BITS] = read_data[i*`ELEMENT_BITS +: `ELEMENT_BITS];
  end

  always @(posedge clock) begin
    requested <= starts && !reset;
    arrives <= requested && !reset;
    zero <= zero_requested;
    lanes <= lanes_requested;
    if (starts) begin
      zero_requested <= !real_row;
      lanes_requested <= op_lanes;
      index <= last ? {CW{1'b0}} : index + 1'b1;
      address <= row + op_stride_cut;
    end
    if (starts != (row_valid && row_ready)) credits <= starts ? credits - 1'b1 : credits + 1'b1;
    if (reset) begin
      index <= {CW{1'b0}};
      credits <= 3'd7;
    end
  end
endmodule
