// Product of two numbers of 8 bits as float32, which is exact; every NaN is 32'h7fc00000. Combinational.
`ifdef BACO_FP8_E5M2
// OFP8's E5M2: 5 bits of exponent, 2 of fraction, infinities.
`else
// OFP8's E4M3: 4 bits of exponent, 3 of fraction, no infinities, NaN where all bits but the sign are set.
`endif
module baco_fp8_product (
    input wire [7:0] x,
    input wire [7:0] y,
    output wire [31:0] product
);
`ifdef BACO_FP8_E5M2
  localparam F = 2;                                   // bits of a fraction
  localparam [8:0] OFFSET = 9'd98;                    // 127 + 1 - 2 * 15
  wire x_high = x[6:2] == 5'h1f, y_high = y[6:2] == 5'h1f;
  wire infinite = x_high || y_high;
  // of these, what is not infinite is NaN, and so is infinity times zero
  wire undefined = (x_high && x[1:0] != 2'd0) || (y_high && y[1:0] != 2'd0)
      || (x_high && y[6:0] == 7'd0) || (y_high && x[6:0] == 7'd0);
`else
  localparam F = 3;
  localparam [8:0] OFFSET = 9'd114;                   // 127 + 1 - 2 * 7
  wire infinite = 1'b0;
  wire undefined = x[6:0] == 7'h7f || y[6:0] == 7'h7f;
`endif
  localparam E = 7 - F;
  localparam P = 2 * F + 2;
  wire sign = x[7] ^ y[7];
  wire [E-1:0] x_exponent = x[6:F] == {E{1'b0}} ? {{(E-1){1'b0}}, 1'b1} : x[6:F];
  wire [E-1:0] y_exponent = y[6:F] == {E{1'b0}} ? {{(E-1){1'b0}}, 1'b1} : y[6:F];
  wire [F:0] x_significand = {x[6:F] != {E{1'b0}}, x[F-1:0]};
  wire [F:0] y_significand = {y[6:F] != {E{1'b0}}, y[F-1:0]};
  wire [P-1:0] whole = {{(F+1){1'b0}}, x_significand} * {{(F+1){1'b0}}, y_significand};

  reg [7:0] left;                                     // the leading bit on top, if there is one
  reg [2:0] zeros;
  always @* begin
    left = {whole, {(8-P){1'b0}}};
    zeros = 3'd0;
    if (left[7:4] == 4'd0) begin left = left << 4; zeros = zeros + 3'd4; end
    if (left[7:6] == 2'd0) begin left = left << 2; zeros = zeros + 3'd2; end
    if (!left[7]) begin left = left << 1; zeros = zeros + 3'd1; end
  end
  wire [8:0] exponent = OFFSET + {{(9-E){1'b0}}, x_exponent} + {{(9-E){1'b0}}, y_exponent} - {6'd0, zeros};
  wire [15:0] upper = undefined ? 16'h7fc0        // all below is 0
      : infinite ? {sign, 8'hff, 7'd0}
      : left[7] ? {sign, exponent[7:0], left[6:0]} : {sign, 15'd0};
  assign product = {upper, 16'd0};
  wire _unused = &{1'b0, exponent[8]};
endmodule
