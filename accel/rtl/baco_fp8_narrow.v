// A float32 number in 8 bits: the nearest, ties to the even code; what is beyond the largest number, infinities too, becomes that;
// NaN stays NaN. With `relu` what has its sign set, but NaN, becomes +0. Combinational.
module baco_fp8_narrow (
    input wire relu,
    input wire [31:0] x,
    output wire [7:0] code
);
`ifdef BACO_FP8_E5M2
  localparam F = 2;                                   // bits of a fraction
  localparam [7:0] LEAST = 8'd113;                    // exponent of the least normal number, as float32 has it
  localparam [6:0] LARGEST = 7'h7b, NAN = 7'h7e;
`else
  localparam F = 3;
  localparam [7:0] LEAST = 8'd121;
  localparam [6:0] LARGEST = 7'h7e, NAN = 7'h7f;
`endif
  localparam [7:0] MOST = F + 2;                      // places down from which nothing is left
  localparam W = 24 + F + 2;
  wire undefined = x[30:23] == 8'hff && x[22:0] != 23'd0;
  wire normal = x[30:23] >= LEAST;
  wire [7:0] below = LEAST - x[30:23];
  wire [7:0] down = normal ? 8'd0 : below < MOST ? below : MOST;
  wire [W-1:0] word = {x[30:23] != 8'd0, x[22:0], {(F+2){1'b0}}} >> down;
  wire [F:0] kept = word[W-1 -: F+1];
  wire round = word[W-F-2] & (kept[0] | (|word[W-F-3:0]));
  // the leading bit and a carry count as ones of the exponent
  wire [11:0] size = {normal ? {1'b0, x[30:23] - LEAST} : 9'd0, 3'd0} >> (3 - F);
  wire [11:0] rounded = size + {{(11-F){1'b0}}, kept} + {11'd0, round};
  assign code = undefined ? {1'b0, NAN}
      : relu && x[31] ? 8'd0
      : {x[31], rounded > {5'd0, LARGEST} ? LARGEST : rounded[6:0]};
endmodule
