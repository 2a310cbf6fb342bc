// The systolic array: DIM x DIM multiply-accumulate elements.
//
// Rows of operands enter as "waves", one a cycle. Inside, element (k, j) sees a wave k/TILE_ROWS + j/TILE_ROWS
// cycles later (registers lie between tiles of TILE_ROWS x TILE_ROWS elements, inside a tile everything is
// combinational); skew and de-skew registers hide that from the outside. Since every element sees the waves in
// the same order, a wave may use whatever an earlier wave left in an element: there are no other hazards.
//
// An element has an active and a shadow register. A wave carries:
//  * flip: each element swaps the two before it does anything else.
//  * multiply, with `in_a` from the west; weight-stationary: `in_d` from the north is the first partial sum,
//    out(j) = d(j) + sum over k of a(k) * active(k, j); output-stationary: `in_b` comes from the north and
//    active(k, j) += a(k) * b(j).
//  * exchange of the shadow registers of one row of elements, `in_xrow`; weight-stationary: shadow(xrow, j) <= b(j);
//    output-stationary: the register takes d(j) and its old content leaves through the south, all in one wave,
//    so that a new bias moves in while the last result moves out.
// `os` may change only while the array is empty, and a cycle before a wave enters.
//
// Behind the last wave, zeros enter from the west with `in_flip` and `in_x` low, and `in_b` and `in_d` stay: 2*DIM/TILE_ROWS
// cycles later nothing changes any more, and `advance` may fall. So it need not be there: where SYNTHESIS is defined, as
// synthesis tools do, no register has a clock enable; simulators skip what changes nothing (SKIP).
module baco_mesh #(
    parameter DIM = 16,        // rows and columns
    parameter TILE_ROWS = 1,   // elements between pipeline registers, in either direction
    parameter PSUM_BITS = 32   // width of partial sums, which wrap
) (
    input wire clock,
    input wire advance,                       // a wave enters or is in flight, or the zeros behind it
    input wire os,                            // output-stationary
    input wire [DIM*`ELEMENT_BITS-1:0] in_a,              // one element a row; zeros when nothing is multiplied
    input wire [DIM*`ELEMENT_BITS-1:0] in_b,              // one element a column
    input wire [DIM*`ELEMENT_BITS-1:0] in_d,              // one element a column, the first of its sum
    input wire in_flip,                       // swap active and shadow registers
    input wire in_x,                          // exchange one row
    input wire [$clog2(DIM)-1:0] in_xrow,     // row that is exchanged
    output reg [DIM*PSUM_BITS-1:0] out        // south end, 2*DIM/TILE_ROWS cycles after the wave entered
);
  localparam T = TILE_ROWS;
  localparam G = DIM / TILE_ROWS;             // tiles in a row or column
`ifdef SYNTHESIS
  localparam SKIP = 0;
`else
  localparam SKIP = 1;
`endif

  // Skew: word s holds the wave that entered s + 1 cycles ago; row or column i takes word i/T - 1.
  // Words are whole rows, and one more than needed, though only a triangle is read: the rest vanishes in synthesis.
  reg [(G+1)*DIM*`ELEMENT_BITS-1:0] skew_a;
  reg [(G+1)*DIM*`ELEMENT_BITS-1:0] skew_b;
  reg [(G+1)*DIM*`ELEMENT_BITS-1:0] skew_d;
  reg [(G+1)*DIM-1:0] skew_x;
  reg [G:0] skew_flip;
  (* mem2reg *) reg [DIM*PSUM_BITS-1:0] skew_out [0:G-1];

  wire [DIM-1:0] x_now;
  wire [DIM*`ELEMENT_BITS-1:0] west_a;
  wire [DIM-1:0] west_flip;
  wire [DIM-1:0] west_x;
  wire [DIM*`ELEMENT_BITS-1:0] north_b;
  wire [DIM*PSUM_BITS-1:0] north_p;
  genvar i;
  generate
    for (i = 0; i < DIM; i = i + 1) begin : edge_element
      wire [`ELEMENT_TOP:0] d;
      assign x_now[i] = in_x && in_xrow == i;
      if (i < T) begin : first
        assign west_a[i*`ELEMENT_BITS +: `ELEMENT_BITS] = in_a[i*`ELEMENT_BITS +: `ELEMENT_BITS];
        assign west_flip[i] = in_flip;
        assign west_x[i] = x_now[i];
        assign north_b[i*`ELEMENT_BITS +: `ELEMENT_BITS] = in_b[i*`ELEMENT_BITS +: `ELEMENT_BITS];
        assign d = in_d[i*`ELEMENT_BITS +: `ELEMENT_BITS];
      end else begin : later
        assign west_a[i*`ELEMENT_BITS +: `ELEMENT_BITS] = skew_a[((i/T-1)*DIM+i)*`ELEMENT_BITS +: `ELEMENT_BITS];
        assign west_flip[i] = skew_flip[i/T-1];
        assign west_x[i] = skew_x[(i/T-1)*DIM+i];
        assign north_b[i*`ELEMENT_BITS +: `ELEMENT_BITS] = skew_b[((i/T-1)*DIM+i)*`ELEMENT_BITS +: `ELEMENT_BITS];
        assign d = skew_d[((i/T-1)*DIM+i)*`ELEMENT_BITS +: `ELEMENT_BITS];
      end
`ifdef BACO_FP8
      `WIDEN as_sum (.code(d), .number(north_p[i*32 +: 32]));
`else
      assign north_p[i*PSUM_BITS +: PSUM_BITS] = {{(PSUM_BITS-`ELEMENT_BITS){d[`ELEMENT_TOP]}}, d};
`endif
    end
    for (i = 0; i < G; i = i + 1) begin : row
      wire [DIM*`ELEMENT_BITS-1:0] b_in;
      wire [DIM*`ELEMENT_BITS-1:0] b_out;
      wire [DIM*PSUM_BITS-1:0] p_in;
      wire [DIM*PSUM_BITS-1:0] p_out;
      if (i == 0) begin : top
        assign b_in = north_b;
        assign p_in = north_p;
      end else begin : inner
        assign b_in = row[i-1].b_out;
        assign p_in = row[i-1].p_out;
      end
`ifdef BACO_FP8
      baco_fp8_mesh_row #(.DIM(DIM), .TILE_ROWS(TILE_ROWS), .SKIP(SKIP)) tiles (
          .clock(clock), .advance(advance),
`else
      baco_mesh_row #(.DIM(DIM), .TILE_ROWS(TILE_ROWS), .PSUM_BITS(PSUM_BITS), .SKIP(SKIP)) tiles (
          .clock(clock), .advance(advance), .os(os),
`endif
          .west_a(west_a[i*T*`ELEMENT_BITS +: T*`ELEMENT_BITS]), .west_flip(west_flip[i*T +: T]), .west_x(west_x[i*T +: T]),
          .north_b(b_in), .north_p(p_in), .south_b(b_out), .south_p(p_out));
    end
  endgenerate

  wire [DIM*PSUM_BITS-1:0] bottom = row[G-1].p_out;
  integer j, s;

  always @(posedge clock) begin
    if (advance || SKIP == 0) begin
      skew_a <= {skew_a[G*DIM*`ELEMENT_BITS-1:0], in_a};
      skew_b <= {skew_b[G*DIM*`ELEMENT_BITS-1:0], in_b};
      skew_d <= {skew_d[G*DIM*`ELEMENT_BITS-1:0], in_d};
      skew_x <= {skew_x[G*DIM-1:0], x_now};
      skew_flip <= {skew_flip[G-1:0], in_flip};
      for (j = 0; j < DIM; j = j + 1)
        out[j*PSUM_BITS +: PSUM_BITS] <= j / T == G - 1 ? bottom[j*PSUM_BITS +: PSUM_BITS]
                                                        : skew_out[G-2-j/T][j*PSUM_BITS +: PSUM_BITS];
      // verilator lint_off BLKSEQ
      // (only read above, so updated in place, last stage first)
      for (s = G - 2; s > 0; s = s - 1) skew_out[s] = skew_out[s-1];
      skew_out[0] = bottom;
      // verilator lint_on BLKSEQ
    end
  end

  wire _unused = &{1'b0, os, row[G-1].b_out, skew_a, skew_b, skew_d, skew_x, skew_flip};
endmodule
