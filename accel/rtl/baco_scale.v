// Multiplies a vector of integers by one float32, or each by its own, and rounds back to integers, bit for bit as software does it:
// integer -> float32 (round to nearest, ties to even), float32 product (likewise), -> integer (likewise, saturating).
//
// The three roundings are separate on purpose: fusing them would differ from the software in the last bit. No
// float32 ever has to be packed, though: the product's significand is rounded to 24 bits and then shifted into
// the integer. Subnormal scales need no arithmetic at all: the largest product, 2**(IN_BITS-1) * 2**-126, rounds to 0.
// An infinite scale saturates by sign; NaN, and zero times infinity, give the largest integer.
//
// A scale of exactly 1.0 only saturates. That is the same value as the arithmetic's wherever the input fits a
// float32 significand or the output is narrower than one (larger inputs saturate in either case). Simulators save most
// of the work by it (SKIP); where SYNTHESIS is defined, as synthesis tools do, there is no such way, and no register of
// elements has a clock enable: what they hold when nothing valid is there is nobody's business.
//
// Three pipeline stages, a vector a cycle, no stall.
module baco_scale #(
    parameter LANES = 16,      // elements in a vector
    parameter SCALES = 1,      // 1, or LANES: every element has its own
    parameter IN_BITS = 32,    // width of a signed input element, 2..32
    parameter OUT_BITS = 8     // width of a signed output element, 2..32
) (
    input wire clock,
    input wire in_valid,
    input wire [SCALES*32-1:0] in_scale,        // bits of a float32 each, that of element 0 lowest
    input wire [LANES*IN_BITS-1:0] in_data,     // signed elements, element 0 lowest
    input wire in_relu,                         // negative elements count as zeros
    output reg out_valid,                       // in_valid, three cycles later
    output reg [LANES*OUT_BITS-1:0] out_data    // signed elements, element 0 lowest
);
`ifdef SYNTHESIS
  localparam SKIP = 0;
`ifdef WORD_LEVEL
  localparam ROWS = 0;                                // units are counted: a product is one
`else
  localparam ROWS = 1;
`endif
`else
  localparam SKIP = 1;
  localparam ROWS = 0;
`endif
  localparam ONE_IS_SATURATION = SKIP != 0 && (IN_BITS <= 24 || OUT_BITS <= 24);
  localparam [31:0] ONE = 32'h3f800000;
  localparam UNSET = IN_BITS < 24 ? 24 - IN_BITS : 0;  // lowest bits of an input's significand that are never set
  localparam SIG = 24 - UNSET;
  localparam PAST = OUT_BITS < 23 ? 23 - OUT_BITS : 0;  // lowest bits of a product that no shift brings into the integer
  localparam KEPT = 24 - PAST;
  localparam WORD = OUT_BITS + KEPT;           // fixed-point word: OUT_BITS integer bits, KEPT fraction bits
  localparam SHIFT_BITS = $clog2(OUT_BITS);
  // thresholds on the biased exponent (126 + weight of the product's leading bit + 1)
  localparam [9:0] HALF = 10'd126;             // leading bit 1/2: below it everything rounds to zero
  localparam [9:0] BEYOND = HALF + OUT_BITS[9:0];

  reg valid_1, valid_2;
  reg [SCALES*32-1:0] scale_1;
  reg [SCALES-1:0] one_1, one_2;               // the scale is 1.0: `significand` and `product` hold the result
  reg [SCALES-1:0] negative_2, nan_2, infinite_2;  // of the scale
  reg [SCALES*8-1:0] exponent_2;               // of the scale

  // verilator lint_off BLKSEQ
  // (arrays are updated in place, last stage first, so that simulators keep the loops; nothing else reads them)
  (* mem2reg *) reg [23:0] significand [0:LANES-1];          // leading bit set, or 0
  (* mem2reg *) reg [4:0] weight_1 [0:LANES-1];              // power of two of the significand's leading bit
  (* mem2reg *) reg sign_1 [0:LANES-1];
  (* mem2reg *) reg [47:0] product [0:LANES-1];
  (* mem2reg *) reg [4:0] weight_2 [0:LANES-1];
  (* mem2reg *) reg sign_2 [0:LANES-1];

  // A product of unsigned significands. For gates (ROWS) it is written as a row for every two bits of the scale's, which
  // selects 0, 1 or 2 times the other, or minus that (Booth): a fifth less area than what synthesis makes of `*`, and the
  // digits are the same for all lanes. `~minus` on top of a row and the last summand stand for the rows' signs.
  function [47:0] product_of;
    input [SIG-1:0] m;
    input [23:0] n;
    integer k;
    reg [26:0] digits;
    reg one, two, minus;
    reg [SIG:0] row;
    if (ROWS != 0) begin
      digits = {2'b00, n, 1'b0};
      product_of = 48'd0;
      for (k = 0; k < 13; k = k + 1) begin
        one = digits[2*k+1] ^ digits[2*k];
        two = digits[2*k+2] != digits[2*k+1] && digits[2*k+1] == digits[2*k];
        minus = digits[2*k+2] && !(digits[2*k+1] && digits[2*k]);
        row = (({(SIG+1){one}} & {1'b0, m}) | ({(SIG+1){two}} & {m, 1'b0})) ^ {(SIG+1){minus}};
        product_of = product_of + ({{(46-SIG){1'b0}}, !minus, row} << (2*k)) + ({47'd0, minus} << (2*k));
      end
      product_of = product_of - (48'h0000_0155_5555 << (SIG + 1));
    end else
      product_of = {{(48-SIG){1'b0}}, m} * {24'd0, n};
  endfunction

  integer i;
  integer s;                                   // of the element's scale
  // temporaries
  reg sign;
  reg [31:0] extended;
  reg signed [31:0] value;
  reg [31:0] magnitude;
  reg [4:0] weight;
  reg [24:0] rounded;
  reg [24:0] past;
  reg [9:0] exponent;
  reg [47:0] leading;
  reg up;
  reg rest;
  reg [KEPT:0] upper;
  reg [WORD-1:0] fixed;
  reg [OUT_BITS-1:0] whole;
  reg [OUT_BITS-1:0] result;

  // stage 3: round the product to 24 bits, then to an integer
  always @(posedge clock) begin
    out_valid <= valid_2;
    if (valid_2 || SKIP == 0) begin
      for (i = 0; i < LANES; i = i + 1) begin
        s = SCALES == 1 ? 0 : i;
        sign = sign_2[i] ^ negative_2[s];
        if (one_2[s] && SKIP != 0)
          result = product[i][OUT_BITS-1:0];
        else begin
          exponent = {2'd0, exponent_2[s*8 +: 8]} + {5'd0, weight_2[i]} + {9'd0, product[i][47]};
          leading = product[i][47] ? product[i] : product[i] << 1;
          up = leading[23] & (leading[24] | (|leading[22:0]));
          // Of the 24 bits, the lowest PAST only carry into those above, and are then zero or something.
          past = {1'b0, leading[47:24] & ~({24{1'b1}} << PAST)} + {24'd0, up};
          rest = |(past[23:0] & ~({24{1'b1}} << PAST));
          upper = {1'b0, leading[47:24+PAST]} + {{KEPT{1'b0}}, past[PAST]};
          fixed = {{(WORD-KEPT-1){1'b0}}, upper} << (exponent[SHIFT_BITS-1:0] - HALF[SHIFT_BITS-1:0]);
          whole = fixed[WORD-1:KEPT]
                  + {{(OUT_BITS-1){1'b0}}, fixed[KEPT-1] & (fixed[KEPT] | (|fixed[KEPT-2:0]) | rest)};
          if (product[i] == 48'd0 || exponent < HALF)
            whole = {OUT_BITS{1'b0}};
          if (product[i] != 48'd0 && (infinite_2[s] || exponent >= BEYOND))
            whole = {1'b1, {(OUT_BITS-1){1'b0}}};
          if (nan_2[s] || (infinite_2[s] && product[i] == 48'd0))
            result = {1'b0, {(OUT_BITS-1){1'b1}}};
          else if (sign)
            result = -whole;
          else
            result = whole[OUT_BITS-1] ? {1'b0, {(OUT_BITS-1){1'b1}}} : whole;
        end
        out_data[i*OUT_BITS +: OUT_BITS] <= result;
      end
    end

    // stage 2: multiply the significands
    valid_2 <= valid_1;
    if (valid_1 || SKIP == 0) begin
      one_2 <= one_1;
      for (s = 0; s < SCALES; s = s + 1) begin
        negative_2[s] <= scale_1[s*32+31];
        exponent_2[s*8 +: 8] <= scale_1[s*32+23 +: 8];
        nan_2[s] <= scale_1[s*32+23 +: 8] == 8'hff && scale_1[s*32 +: 23] != 23'd0;
        infinite_2[s] <= scale_1[s*32+23 +: 8] == 8'hff;
      end
      for (i = 0; i < LANES; i = i + 1) begin
        s = SCALES == 1 ? 0 : i;
        sign_2[i] = sign_1[i];
        weight_2[i] = weight_1[i];
        if (one_1[s] && SKIP != 0)
          product[i] = {{24{significand[i][23]}}, significand[i]};
        else
          product[i] = product_of(significand[i][23:UNSET], {1'b1, scale_1[s*32 +: 23]}) << UNSET;
      end
    end

    // stage 1: sign and magnitude; the magnitude's leading 24 bits, rounded
    valid_1 <= in_valid;
    if (in_valid || SKIP == 0) begin
      scale_1 <= in_scale;
      for (s = 0; s < SCALES; s = s + 1)
        one_1[s] <= ONE_IS_SATURATION != 0 && in_scale[s*32 +: 32] == ONE;
      for (i = 0; i < LANES; i = i + 1) begin
        s = SCALES == 1 ? 0 : i;
        sign = in_data[i*IN_BITS + IN_BITS-1];
        extended = {{(32-IN_BITS){sign}}, in_data[i*IN_BITS +: IN_BITS]};
        if (ONE_IS_SATURATION != 0 && in_scale[s*32 +: 32] == ONE) begin
          value = in_relu && sign ? 32'sd0 : $signed(extended);
          if (OUT_BITS < IN_BITS) begin
            if (value > $signed({{(33-OUT_BITS){1'b0}}, {(OUT_BITS-1){1'b1}}}))
              value = $signed({{(33-OUT_BITS){1'b0}}, {(OUT_BITS-1){1'b1}}});
            else if (value < $signed({{(33-OUT_BITS){1'b1}}, {(OUT_BITS-1){1'b0}}}))
              value = $signed({{(33-OUT_BITS){1'b1}}, {(OUT_BITS-1){1'b0}}});
          end
          significand[i] = value[23:0];
          sign_1[i] = 1'b0;
          weight_1[i] = 5'd0;
        end
        else begin
          // the input's bits at the top, so that those that are not there are zero
          magnitude = !sign ? extended << (32-IN_BITS) : in_relu ? 32'd0 : -(extended << (32-IN_BITS));
          weight = IN_BITS[4:0] - 5'd1;
          if (IN_BITS > 16 && magnitude[31:16] == 16'd0) begin magnitude = magnitude << 16; weight = weight - 5'd16; end
          if (IN_BITS > 8 && magnitude[31:24] == 8'd0) begin magnitude = magnitude << 8; weight = weight - 5'd8; end
          if (IN_BITS > 4 && magnitude[31:28] == 4'd0) begin magnitude = magnitude << 4; weight = weight - 5'd4; end
          if (magnitude[31:30] == 2'd0) begin magnitude = magnitude << 2; weight = weight - 5'd2; end
          // rounded beside the last shift
          weight = weight - {4'd0, !magnitude[31]};
          rounded = magnitude[31]
                    ? {1'b0, magnitude[31:8]} + {24'd0, IN_BITS > 24 && magnitude[7] & (magnitude[8] | (|magnitude[6:0]))}
                    : {1'b0, magnitude[30:7]} + {24'd0, IN_BITS > 25 && magnitude[6] & (magnitude[7] | (|magnitude[5:0]))};
          // a carry out of the significand leaves a power of two (2**31 is the largest magnitude, so none from there)
          significand[i] = rounded[24] ? 24'h800000 : rounded[23:0];
          weight_1[i] = weight + {4'd0, rounded[24]};
          sign_1[i] = sign;
        end
      end
    end
  end
  // verilator lint_on BLKSEQ
endmodule
