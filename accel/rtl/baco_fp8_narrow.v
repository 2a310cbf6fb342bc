// A float32 number times a power of two in 8 bits: the nearest, ties to the even code; what is beyond the largest number, infinities
// too, becomes that; NaN stays NaN. A subnormal number counts as zero, whatever the power. With `relu` what has its sign set, but NaN,
// becomes +0. Combinational.
module baco_fp8_narrow (
    input wire relu,
    input wire [7:0] power,                             // exponent of the factor, as float32 has it: 127 for one
    input wire [31:0] x,
    output wire [7:0] code
);
`ifdef BACO_FP8_E5M2
  localparam F = 2;                                   // bits of a fraction
  localparam signed [9:0] LEAST = 10'sd113;            // exponent of the least normal number, as float32 has it
  localparam [6:0] LARGEST = 7'h7b, NAN = 7'h7e;
`else
  localparam F = 3;
  localparam signed [9:0] LEAST = 10'sd121;
  localparam [6:0] LARGEST = 7'h7e, NAN = 7'h7f;
`endif
  localparam signed [9:0] MOST = F + 2;                // places down from which nothing is left
  localparam W = 24 + F + 2;
  wire undefined = x[30:23] == 8'hff && x[22:0] != 23'd0;
  wire some = x[30:23] != 8'd0;
  wire signed [9:0] exponent = $signed({2'b0, x[30:23]}) + $signed({2'b0, power}) - 10'sd127;
  wire normal = some && exponent >= LEAST;
  wire signed [9:0] below = LEAST - exponent;
  wire [9:0] down = normal ? 10'd0 : below < MOST ? below : MOST;
  wire [W-1:0] word = some ? {1'b1, x[22:0], {(F+2){1'b0}}} >> down : {W{1'b0}};
  wire [F:0] kept = word[W-1 -: F+1];
  wire round = word[W-F-2] & (kept[0] | (|word[W-F-3:0]));
  // the leading bit and a carry count as ones of the exponent
  wire [12:0] size = {normal ? exponent - LEAST : 10'd0, 3'd0} >> (3 - F);
  wire [12:0] rounded = size + {{(12-F){1'b0}}, kept} + {12'd0, round};
  assign code = undefined ? {1'b0, NAN}
      : relu && x[31] ? 8'd0
      : {x[31], x[30:23] == 8'hff || rounded > {6'd0, LARGEST} ? LARGEST : rounded[6:0]};
endmodule
