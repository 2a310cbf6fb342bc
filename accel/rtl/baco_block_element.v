// An element of a block times the block's power of two, as bfloat16: exact where that is a normal number, else the nearest subnormal
// one, ties to even; beyond the largest number infinite; NaN where the power is 255 or the element is NaN; zeros keep their sign.
// Combinational. Format 1 is E2M1 (in the low bits), 2 E4M3, 3 E5M2, 4 INT8 in sixty-fourths.
module baco_block_element (
    input wire [2:0] format,
    input wire [7:0] code,
    input wire [7:0] power,                             // E8M0: 127 for one
    output wire [15:0] number
);
  localparam [15:0] NAN = 16'h7fc0;
  localparam [2:0] E2M1 = 3'd1, E4M3 = 3'd2, E5M2 = 3'd3;
  reg sign, undefined, infinite;
  reg [4:0] exponent;                                   // as stored; that of INT8 is always 1
  reg [7:0] whole;                                      // the element is that times two to the exponent less an offset
  reg signed [10:0] offset;                             // of a leading bit on top, with what bfloat16 adds to exponents
  always @* begin
    sign = code[7];
    undefined = power == 8'hff;
    infinite = 1'b0;
    case (format)
      E2M1: begin
        sign = code[3];
        exponent = {3'd0, code[2:1]};
        whole = {6'd0, code[2:1] != 2'd0, code[0]};
        offset = 11'sd5;                                // 7 - 1 of its fraction - 1 of its exponents
      end
      E4M3: begin
        if (code[6:0] == 7'h7f) undefined = 1'b1;
        exponent = {1'b0, code[6:3]};
        whole = {4'd0, code[6:3] != 4'd0, code[2:0]};
        offset = -11'sd3;                               // 7 - 3 - 7
      end
      E5M2: begin
        if (code[6:2] == 5'h1f && code[1:0] != 2'd0) undefined = 1'b1;
        infinite = code[6:2] == 5'h1f;
        exponent = code[6:2];
        whole = {5'd0, code[6:2] != 5'd0, code[1:0]};
        offset = -11'sd10;                              // 7 - 2 - 15
      end
      default: begin
        exponent = 5'd1;
        whole = code[7] ? -code : code;
        offset = 11'sd0;                                // 7 - 6 - 1
      end
    endcase
    if (exponent == 5'd0) exponent = 5'd1;
  end

  reg [7:0] left;                                       // the leading bit on top, if there is one
  reg [2:0] zeros;
  always @* begin
    left = whole;
    zeros = 3'd0;
    if (left[7:4] == 4'd0) begin left = left << 4; zeros = zeros + 3'd4; end
    if (left[7:6] == 2'd0) begin left = left << 2; zeros = zeros + 3'd2; end
    if (!left[7]) begin left = left << 1; zeros = zeros + 3'd1; end
  end
  wire signed [10:0] place = $signed({6'd0, exponent}) + offset - $signed({8'd0, zeros}) + $signed({3'd0, power});
  wire normal = place > 11'sd0;
  localparam signed [10:0] MOST = 11'sd9;               // places down from which nothing is left
  wire signed [10:0] below = 11'sd1 - place;
  wire [10:0] down = normal ? 11'd0 : below < MOST ? below : MOST;
  wire [16:0] word = {left, 9'd0} >> down;              // 8 bits of a significand, and what is lost
  wire [7:0] kept = word[16:9];
  wire round = word[8] & (kept[0] | (|word[7:0]));
  wire [14:0] size = {normal ? place[7:0] : 8'd0, kept[6:0]} + {14'd0, round};
  assign number = undefined ? NAN
      : {sign, infinite || (left[7] && place > 11'sd254) ? 15'h7f80 : left[7] ? size : 15'd0};
  wire _unused = &{1'b0, kept[7]};
endmodule
