// Product of two numbers of bfloat16 as float32, as IEEE 754 has it: exact, but rounded to the nearest, ties to even, where it is
// subnormal, and infinite beyond the largest number; every NaN is 32'h7fc00000. Combinational.
module baco_bf16_product (
    input wire [15:0] x,
    input wire [15:0] y,
    output wire [31:0] product
);
  wire sign = x[15] ^ y[15];
  wire x_high = x[14:7] == 8'hff, y_high = y[14:7] == 8'hff;
  // of these, what is not infinite is NaN, and so is infinity times zero
  wire undefined = (x_high && x[6:0] != 7'd0) || (y_high && y[6:0] != 7'd0)
      || (x_high && y[14:0] == 15'd0) || (y_high && x[14:0] == 15'd0);
  wire x_normal = x[14:7] != 8'd0, y_normal = y[14:7] != 8'd0;
  wire [7:0] x_exponent = x_normal ? x[14:7] : 8'd1;
  wire [7:0] y_exponent = y_normal ? y[14:7] : 8'd1;
  wire [15:0] whole = {8'd0, x_normal, x[6:0]} * {8'd0, y_normal, y[6:0]};

  reg [15:0] left;                                    // the leading bit on top, if there is one
  reg [3:0] zeros;
  always @* begin
    left = whole;
    zeros = 4'd0;
    if (left[15:8] == 8'd0) begin left = left << 8; zeros = zeros + 4'd8; end
    if (left[15:12] == 4'd0) begin left = left << 4; zeros = zeros + 4'd4; end
    if (left[15:14] == 2'd0) begin left = left << 2; zeros = zeros + 4'd2; end
    if (!left[15]) begin left = left << 1; zeros = zeros + 4'd1; end
  end
  wire signed [10:0] exponent = $signed({3'd0, x_exponent}) + $signed({3'd0, y_exponent}) - $signed({7'd0, zeros}) - 11'sd126;
  wire normal = exponent > 11'sd0;
  localparam signed [10:0] MOST = 11'sd25;            // places down from which nothing is left
  wire signed [10:0] below = 11'sd1 - exponent;
  wire [10:0] down = normal ? 11'd0 : below < MOST ? below : MOST;
  wire [40:0] word = {left, 25'd0} >> down;           // 24 bits of a significand, and what is lost
  wire [23:0] kept = word[40:17];
  wire round = word[16] & (kept[0] | (|word[15:0]));
  wire [30:0] size = {normal ? exponent[7:0] : 8'd0, kept[22:0]} + {30'd0, round};
  assign product = undefined ? 32'h7fc00000
      : x_high || y_high || exponent > 11'sd254 ? {sign, 8'hff, 23'd0}
      : {sign, left[15] ? size : 31'd0};
  wire _unused = &{1'b0, kept[23]};
endmodule
