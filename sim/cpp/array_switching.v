// Counts what switches in the systolic array, for energy (baco.accel.synthesis.activity). Bound to baco_mesh by the
// simulator's build: the accelerator's own Verilog does not know of it.
//
// Operands are counted at the borders. Products and sums are computed here a second time, wave by wave as baco_mesh describes
// them, of the first COLUMNS columns of elements, which stand for all: each sees the same operands from the west.
module baco_array_switching #(
    parameter DIM = 16,
    parameter PSUM_BITS = 32
) (
    input wire clock,
    input wire advance,
    input wire os,
    input wire [DIM*8-1:0] in_a,
    input wire [DIM*8-1:0] in_b,
    input wire [DIM*8-1:0] in_d,
    input wire in_flip,
    input wire in_x,
    input wire [$clog2(DIM)-1:0] in_xrow
);
  // Bits that changed since the last cycle in which the array advanced: of the ports, of all products and of all sums.
  import "DPI-C" function void baco_array_switched(input int os, input int a, input int b, input int d, input int products,
                                                   input int sums);
  localparam COLUMNS = DIM < 4 ? DIM : 1;

  reg [DIM*8-1:0] last_a, last_b, last_d;
  reg signed [PSUM_BITS-1:0] active [0:DIM*COLUMNS-1];
  reg signed [PSUM_BITS-1:0] shadow [0:DIM*COLUMNS-1];
  reg [15:0] last_product [0:DIM*COLUMNS-1];
  reg [PSUM_BITS-1:0] last_sum [0:DIM*COLUMNS-1];

  // Loops stay loops, on numbers that no cycle leaves to the next one: compilers turn them into vector instructions.
  always @(posedge clock) begin : wave
    automatic integer j, k, products, sums;
    automatic reg signed [7:0] b, d;
    automatic reg signed [PSUM_BITS-1:0] swap;
    automatic reg signed [7:0] a [0:DIM-1];
    automatic reg signed [7:0] multiplier [0:DIM-1];
    automatic reg signed [15:0] product [0:DIM-1];
    automatic reg signed [PSUM_BITS-1:0] sum [0:DIM-1];
    if (advance) begin
      products = 0;
      sums = 0;
      for (k = 0; k < DIM; k = k + 1) a[k] = in_a[k*8 +: 8];
      for (j = 0; j < COLUMNS; j = j + 1) begin
        b = in_b[j*8 +: 8];
        d = in_d[j*8 +: 8];
        if (in_flip) begin
          // verilator unroll_disable
          for (k = 0; k < DIM; k = k + 1) begin
            swap = active[j*DIM+k];
            active[j*DIM+k] = shadow[j*DIM+k];
            shadow[j*DIM+k] = swap;
          end
        end
        // verilator unroll_disable
        for (k = 0; k < DIM; k = k + 1) multiplier[k] = os ? b : active[j*DIM+k][7:0];
        // verilator unroll_disable
        for (k = 0; k < DIM; k = k + 1) product[k] = a[k] * multiplier[k];
        if (os) begin
          // verilator unroll_disable
          for (k = 0; k < DIM; k = k + 1) begin
            active[j*DIM+k] = active[j*DIM+k] + product[k];
            sum[k] = active[j*DIM+k];
          end
        end else begin
          sum[0] = d + product[0];
          for (k = 1; k < DIM; k = k + 1) sum[k] = sum[k-1] + product[k];
        end
        if (in_x) shadow[j*DIM+in_xrow] = os ? d : b;
        // verilator unroll_disable
        for (k = 0; k < DIM; k = k + 1) begin
          products = products + $countones(product[k] ^ last_product[j*DIM+k]);
          last_product[j*DIM+k] = product[k];
        end
        // verilator unroll_disable
        for (k = 0; k < DIM; k = k + 1) begin
          sums = sums + $countones(sum[k] ^ last_sum[j*DIM+k]);
          last_sum[j*DIM+k] = sum[k];
        end
      end
      baco_array_switched(os, $countones(in_a ^ last_a), $countones(in_b ^ last_b), $countones(in_d ^ last_d),
                          products * (DIM / COLUMNS), sums * (DIM / COLUMNS));
      last_a = in_a;
      last_b = in_b;
      last_d = in_d;
    end
  end
endmodule

bind baco_mesh baco_array_switching #(.DIM(DIM), .PSUM_BITS(PSUM_BITS)) switching (
    .clock(clock), .advance(advance), .os(os), .in_a(in_a), .in_b(in_b), .in_d(in_d),
    .in_flip(in_flip), .in_x(in_x), .in_xrow(in_xrow));
