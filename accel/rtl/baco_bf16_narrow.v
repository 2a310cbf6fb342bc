// A float32 number times a power of two as bfloat16: the nearest, ties to the even code; what is beyond the largest number, infinities
// too, becomes that; NaN stays NaN; subnormal numbers are numbers. With `relu` what has its sign set, but NaN, becomes +0. Combinational.
module baco_bf16_narrow (
    input wire relu,
    input wire [7:0] power,                             // exponent of the factor, as float32 has it: 127 for one
    input wire [31:0] x,
    output wire [15:0] code
);
  localparam [14:0] LARGEST = 15'h7f7f, NAN = 15'h7fc0;
  localparam signed [10:0] MOST = 11'sd9;               // places down from which nothing is left
  wire undefined = x[30:23] == 8'hff && x[22:0] != 23'd0;

  reg [31:0] left;                                      // the leading bit on top, if there is one
  reg [4:0] zeros;
  always @* begin
    left = {x[30:23] != 8'd0, x[22:0], 8'd0};
    zeros = 5'd0;
    if (left[31:16] == 16'd0) begin left = left << 16; zeros = zeros + 5'd16; end
    if (left[31:24] == 8'd0) begin left = left << 8; zeros = zeros + 5'd8; end
    if (left[31:28] == 4'd0) begin left = left << 4; zeros = zeros + 5'd4; end
    if (left[31:30] == 2'd0) begin left = left << 2; zeros = zeros + 5'd2; end
    if (!left[31]) begin left = left << 1; zeros = zeros + 5'd1; end
  end
  wire signed [10:0] own = x[30:23] == 8'd0 ? 11'sd1 : $signed({3'd0, x[30:23]});
  wire signed [10:0] exponent = own - $signed({6'd0, zeros}) + $signed({3'd0, power}) - 11'sd127;
  wire normal = exponent > 11'sd0;
  wire signed [10:0] below = 11'sd1 - exponent;
  wire [10:0] down = normal ? 11'd0 : below < MOST ? below : MOST;
  wire [32:0] word = {left[31:8], 9'd0} >> down;
  wire [7:0] kept = word[32:25];
  wire round = word[24] & (kept[0] | (|word[23:0]));
  // the leading bit and a carry count as ones of the exponent
  wire [17:0] size = {normal ? exponent - 11'sd1 : 11'd0, 7'd0};
  wire [17:0] rounded = size + {10'd0, kept} + {17'd0, round};
  assign code = undefined ? {1'b0, NAN}
      : relu && x[31] ? 16'd0
      : {x[31], x[30:23] == 8'hff || (left[31] && rounded > {3'd0, LARGEST}) ? LARGEST : left[31] ? rounded[14:0] : 15'd0};
  wire _unused = &{1'b0, left[7:0]};
endmodule
