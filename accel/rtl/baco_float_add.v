// Sum of two float32 numbers, rounded to the nearest, ties to even, as IEEE 754 has it: subnormal numbers are numbers, what is
// beyond the largest is infinite, and every NaN is 32'h7fc00000. Combinational.
module baco_float_add (
    input wire [31:0] x,
    input wire [31:0] y,
    output wire [31:0] sum
);
  // the larger one, and the other moved below it: 24 bits of significand, and three that decide how to round
  wire swap = y[30:0] > x[30:0];
  wire [31:0] greater = swap ? y : x;
  wire [31:0] lesser = swap ? x : y;
  wire [7:0] exponent = greater[30:23] == 8'd0 ? 8'd1 : greater[30:23];
  wire [7:0] distance = exponent - (lesser[30:23] == 8'd0 ? 8'd1 : lesser[30:23]);
  wire [26:0] upper = {greater[30:23] != 8'd0, greater[22:0], 3'd0};
  wire [26:0] whole = {lesser[30:23] != 8'd0, lesser[22:0], 3'd0};
  wire [4:0] down = distance > 8'd27 ? 5'd27 : distance[4:0];
  wire [26:0] moved = whole >> down;
  wire [26:0] lost = whole & ~({27{1'b1}} << down);
  wire [26:0] lower = {moved[26:1], moved[0] | (|lost)};
  wire minus = greater[31] ^ lesser[31];
  wire [27:0] total = minus ? {1'b0, upper} - {1'b0, lower} : {1'b0, upper} + {1'b0, lower};

  // leading zeros, of which a subnormal number keeps some
  reg [31:0] left;
  reg [4:0] zeros;
  always @* begin
    left = {total[26:0], 5'h1f};
    zeros = 5'd0;
    if (left[31:16] == 16'd0) begin left = left << 16; zeros = zeros + 5'd16; end
    if (left[31:24] == 8'd0) begin left = left << 8; zeros = zeros + 5'd8; end
    if (left[31:28] == 4'd0) begin left = left << 4; zeros = zeros + 5'd4; end
    if (left[31:30] == 2'd0) begin left = left << 2; zeros = zeros + 5'd2; end
    if (!left[31]) zeros = zeros + 5'd1;
  end
  wire [7:0] above = exponent - 8'd1;
  wire [4:0] up = {3'd0, zeros} < above ? zeros : above[4:0];
  wire [26:0] normal = total[27] ? {total[27:2], total[1] | total[0]} : total[26:0] << up;
  wire [7:0] at = total[27] ? exponent + 8'd1 : exponent - {3'd0, up};

  // a carry out of the significand is one of the exponent
  wire round = normal[2] & (normal[3] | normal[1] | normal[0]);
  wire [30:0] size = {normal[26] ? at : 8'd0, normal[25:3]} + {30'd0, round};
  wire undefined = greater[30:23] == 8'hff && (greater[22:0] != 23'd0 || (lesser[30:23] == 8'hff && minus));
  assign sum = undefined ? 32'h7fc00000
      : greater[30:23] == 8'hff || at == 8'hff ? {greater[31], 8'hff, 23'd0}
      : {total == 28'd0 ? greater[31] & lesser[31] : greater[31], size};
  wire _unused = &{1'b0, left[30:0]};
endmodule
