// One row of tiles of the systolic array: TILE_ROWS x DIM multiply-accumulate elements (see baco_mesh).
//
// Loops over the columns work on arrays of one number an element and stay loops in Verilator's code, which compilers then turn
// into vector instructions. Registers that only this module reads are updated in place, in the order of the data flow. An
// element has one multiplier and one adder, whose operands the dataflow selects.
module baco_mesh_row #(
    parameter DIM = 16,        // columns
    parameter TILE_ROWS = 1,   // rows, and columns between pipeline registers
    parameter PSUM_BITS = 32,  // width of partial sums, which wrap
    parameter SKIP = 1         // 0: registers have no clock enable, and work is done that changes nothing
) (
    input wire clock,
    input wire advance,                           // a wave, or what follows one, is inside
    input wire os,                                // output-stationary, a cycle before it counts
    input wire [TILE_ROWS*`ELEMENT_BITS-1:0] west_a,          // one multiplicand a row
    input wire [TILE_ROWS-1:0] west_flip,         // swap the row's active and shadow registers
    input wire [TILE_ROWS-1:0] west_x,            // exchange the row's shadow registers
    input wire [DIM*`ELEMENT_BITS-1:0] north_b,               // weights (or, output-stationary, multipliers), one a column
    input wire [DIM*PSUM_BITS-1:0] north_p,       // partial sums, one a column
    output reg [DIM*`ELEMENT_BITS-1:0] south_b,               // north_b a cycle later
    output reg [DIM*PSUM_BITS-1:0] south_p        // partial sums of the next row, a cycle later
);

  localparam T = TILE_ROWS;
  localparam G = DIM / TILE_ROWS;
`ifdef BACO_OS
  localparam REG_BITS = PSUM_BITS;
`else
  localparam REG_BITS = `ELEMENT_BITS;
`endif
`ifdef SYNTHESIS
`ifdef WORD_LEVEL
  localparam ROWS = 0;                            // units are counted: a product is one
`else
  localparam ROWS = 1;
`endif
`else
  localparam ROWS = 0;
`endif

  // verilator lint_off BLKSEQ
  // verilator lint_off UNOPTFLAT
  (* mem2reg *) reg signed [`ELEMENT_TOP:0] a [0:T*G-1];     // of row r at the input of tile column t: r*G + t (0: from the west)
  (* mem2reg *) reg [G-1:0] flip [0:T-1];
  (* mem2reg *) reg [G-1:0] x [0:T-1];
  (* mem2reg *) reg signed [REG_BITS-1:0] active [0:T*DIM-1];
  (* mem2reg *) reg signed [REG_BITS-1:0] shadow [0:T*DIM-1];

  // A signed product. For gates (ROWS) it is written as rows of partial products of which those with one sign bit are
  // inverted (Baugh and Wooley): synthesis makes rows as wide as the sum of `*` between signed numbers, a third more area.
  function [`PRODUCT_TOP:0] product;
    input [`ELEMENT_TOP:0] m;
    input [`ELEMENT_TOP:0] n;
    integer k;
    if (ROWS != 0) begin
      product = `PRODUCT_SIGNS;
      for (k = 0; k < `ELEMENT_TOP; k = k + 1)
        product = product + ({`ELEMENT_BITS'd0, ~(m[`ELEMENT_TOP] & n[k]), m[`ELEMENT_NEXT:0] & {`ELEMENT_TOP{n[k]}}} << k);
      product = product + {1'b0, m[`ELEMENT_TOP] & n[`ELEMENT_TOP], ~(m[`ELEMENT_NEXT:0] & {`ELEMENT_TOP{n[`ELEMENT_TOP]}}), `ELEMENT_TOP'd0};
    end else
      product = $signed(m) * $signed(n);
  endfunction

`ifdef BACO_WS
`ifdef BACO_OS
  reg os_here;                                    // each row has its own: all of its elements look at it
  always @(posedge clock) os_here <= os;
`else
  wire os_here = os;
`endif
`else
  wire os_here = os;
`endif

  // what no cycle leaves to the next one
  integer r, j;
  reg signed [REG_BITS-1:0] swap;
  (* mem2reg *) reg signed [`ELEMENT_TOP:0] b [0:DIM-1];
  (* mem2reg *) reg signed [PSUM_BITS-1:0] p [0:DIM-1];  // partial sums between the rows of a tile
  (* mem2reg *) reg signed [`ELEMENT_TOP:0] by [0:DIM-1];           // what each element multiplies by
  (* mem2reg *) reg signed [PSUM_BITS-1:0] sum [0:DIM-1];
  always @(posedge clock) begin
    if (advance || SKIP == 0) begin
      for (j = 0; j < DIM; j = j + 1) begin
        b[j] = north_b[j*`ELEMENT_BITS +: `ELEMENT_BITS];
        p[j] = north_p[j*PSUM_BITS +: PSUM_BITS];
      end
      for (r = 0; r < T; r = r + 1) begin
        a[r*G] = west_a[r*`ELEMENT_BITS +: `ELEMENT_BITS];
        flip[r][0] = west_flip[r];
        x[r][0] = west_x[r];
        // verilator unroll_disable
        for (j = 0; j < DIM; j = j + 1)
          if (flip[r][j/T]) begin
            swap = active[r*DIM+j];
            active[r*DIM+j] = shadow[r*DIM+j];
            shadow[r*DIM+j] = swap;
          end
`ifdef BACO_WS
        // verilator unroll_disable
        for (j = 0; j < DIM; j = j + 1) begin
          by[j] = active[r*DIM+j][`ELEMENT_TOP:0];
          sum[j] = p[j];
        end
`endif
`ifdef BACO_OS
`ifdef BACO_WS
        if (os_here)
`endif
        begin
          // verilator unroll_disable
          for (j = 0; j < DIM; j = j + 1) begin
            by[j] = b[j];
            sum[j] = active[r*DIM+j];
          end
        end
`endif
        // verilator lint_off WIDTH
        // (sums may be wider or narrower than a product)
        // verilator unroll_disable
        for (j = 0; j < DIM; j = j + 1)
`ifdef SYNTHESIS
          sum[j] = sum[j] + $signed(product(a[r*G+j/T], by[j]));
`else
          sum[j] = sum[j] + a[r*G+j/T] * by[j];
`endif
`ifdef BACO_OS
        if (os_here) begin
          // verilator unroll_disable
          for (j = 0; j < DIM; j = j + 1) begin
            active[r*DIM+j] = sum[j];
            if (x[r][j/T]) begin
              swap = shadow[r*DIM+j];
              shadow[r*DIM+j] = p[j];
              p[j] = swap;
            end
          end
        end
`endif
`ifdef BACO_WS
        if (!os_here) begin
          // verilator unroll_disable
          for (j = 0; j < DIM; j = j + 1) begin
            p[j] = sum[j];
            if (x[r][j/T]) shadow[r*DIM+j] = b[j];
          end
        end
`endif
        // verilator lint_on WIDTH
        // verilator unroll_disable
        for (j = G - 1; j > 0; j = j - 1) a[r*G+j] = a[r*G+j-1];
        flip[r] = flip[r] << 1;
        x[r] = x[r] << 1;
      end
      for (j = 0; j < DIM; j = j + 1) south_p[j*PSUM_BITS +: PSUM_BITS] <= p[j];
      south_b <= north_b;
    end
  end
  // verilator lint_on UNOPTFLAT
  // verilator lint_on BLKSEQ
endmodule
