// One row of tiles of an array of 8-bit floating point: what baco_mesh_row is to integers, weight-stationary. A product is exact, and
// an element adds it to the float32 sum from above with one rounding: sums are added up from the top row to the bottom one.
module baco_fp8_mesh_row #(
    parameter DIM = 16,        // columns
    parameter TILE_ROWS = 1,   // rows, and columns between pipeline registers
    parameter SKIP = 1         // 0: registers have no clock enable
) (
    input wire clock,
    input wire advance,                           // a wave, or what follows one, is inside
    input wire [TILE_ROWS*`ELEMENT_BITS-1:0] west_a,          // one multiplicand a row
    input wire [TILE_ROWS-1:0] west_flip,         // swap the row's active and shadow registers
    input wire [TILE_ROWS-1:0] west_x,            // the row's shadow registers take north_b
    input wire [DIM*`ELEMENT_BITS-1:0] north_b,               // weights, one a column
    input wire [DIM*32-1:0] north_p,              // partial sums, one a column
    output reg [DIM*`ELEMENT_BITS-1:0] south_b,               // north_b a cycle later
    output reg [DIM*32-1:0] south_p               // partial sums of the next row, a cycle later
);
  localparam T = TILE_ROWS;
  localparam G = DIM / TILE_ROWS;
  wire [DIM*32-1:0] p_out;
  genvar r, j;
  generate
    for (r = 0; r < T; r = r + 1) begin : row
      // of tile columns 0.., in bit or byte 0..: that of the west, and a cycle later in each
      reg [G*`ELEMENT_BITS-1:0] a_held;
      reg [G-1:0] flip_held, x_held;
      wire [(G+1)*`ELEMENT_BITS-1:0] a = {a_held, west_a[r*`ELEMENT_BITS +: `ELEMENT_BITS]};
      wire [G:0] flip = {flip_held, west_flip[r]};
      wire [G:0] x = {x_held, west_x[r]};
      wire [DIM*32-1:0] p;
      wire [DIM*32-1:0] sums;
      if (r == 0) begin : top
        assign p = north_p;
      end else begin : inner
        assign p = row[r-1].sums;
      end
      always @(posedge clock)
        if (advance || SKIP == 0) begin
          a_held <= a[G*`ELEMENT_BITS-1:0];
          flip_held <= flip[G-1:0];
          x_held <= x[G-1:0];
        end
      for (j = 0; j < DIM; j = j + 1) begin : element
        reg [`ELEMENT_TOP:0] active, shadow;
        wire [`ELEMENT_TOP:0] weight = flip[j/T] ? shadow : active;
        wire [31:0] product;
        `PRODUCT times (.x(a[j/T*`ELEMENT_BITS +: `ELEMENT_BITS]), .y(weight), .product(product));
        baco_float_add plus (.x(p[j*32 +: 32]), .y(product), .sum(sums[j*32 +: 32]));
        always @(posedge clock)
          if (advance || SKIP == 0) begin
            active <= weight;
            shadow <= x[j/T] ? north_b[j*`ELEMENT_BITS +: `ELEMENT_BITS] : flip[j/T] ? active : shadow;
          end
      end
      wire _unused = &{1'b0, a[G*`ELEMENT_BITS +: `ELEMENT_BITS], flip[G], x[G]};
    end
  endgenerate
  assign p_out = row[T-1].sums;
  always @(posedge clock)
    if (advance || SKIP == 0) begin
      south_b <= north_b;
      south_p <= p_out;
    end
endmodule
