// Quotients and square roots of binary32 and binary64 numbers, correctly rounded (IEEE 754-2019, tininess after rounding), bit by
// bit: STEPS bits a cycle.
module baco_divide_root #(
    parameter STEPS = 3                  // 2 or more
) (
    input wire clock,
    input wire reset,
    input wire kill,                     // what is under way is dropped
    input wire start,                    // only while ready
    input wire root,                     // of a; else a / b
    input wire wide,                   // binary64; else binary32, in the low half
    input wire [2:0] rounding,           // RISC-V's frm: nearest even, to zero, down, up, nearest away from zero
    input wire [63:0] a,
    input wire [63:0] b,
    output wire ready,
    output reg done,                     // in this cycle the result is there
    output reg [63:0] result,
    output reg [4:0] flags               // invalid, division by zero, overflow, underflow, inexact
);
  localparam [2:0] DOWN = 3'd2, UP = 3'd3, NEAREST = 3'd0, AWAY = 3'd4;
  // steps: at least two bits behind those of a mantissa
  localparam [31:0] DOUBLE_CYCLES = (55 + STEPS - 1) / STEPS, SINGLE_CYCLES = (26 + STEPS - 1) / STEPS;
  localparam DOUBLE_BITS = DOUBLE_CYCLES * STEPS, SINGLE_BITS = SINGLE_CYCLES * STEPS;
  localparam BITS = DOUBLE_BITS;
  localparam [12:0] DOUBLE_BIAS = 13'd1023, SINGLE_BIAS = 13'd127;

  // ---------------------------------------------------------------- operands: sign, exponent without bias, 1.52 bits
  function [5:0] zeros(input [52:0] value);  // in front
    integer i;
    begin
      zeros = 6'd53;
      for (i = 0; i < 53; i = i + 1) if (value[i]) zeros = 6'd52 - i[5:0];
    end
  endfunction

  wire [10:0] exponent_a = wide ? a[62:52] : {3'd0, a[30:23]};
  wire [10:0] exponent_b = wide ? b[62:52] : {3'd0, b[30:23]};
  wire [51:0] fraction_a = wide ? a[51:0] : {a[22:0], 29'd0};
  wire [51:0] fraction_b = wide ? b[51:0] : {b[22:0], 29'd0};
  wire sign_a = wide ? a[63] : a[31];
  wire sign_b = wide ? b[63] : b[31];
  wire [10:0] all_ones = wide ? 11'h7ff : 11'h0ff;
  wire low_a = exponent_a == 11'd0, low_b = exponent_b == 11'd0;
  wire high_a = exponent_a == all_ones, high_b = exponent_b == all_ones;
  wire empty_a = fraction_a == 52'd0, empty_b = fraction_b == 52'd0;
  wire zero_a = low_a && empty_a, zero_b = low_b && empty_b;
  wire infinite_a = high_a && empty_a, infinite_b = high_b && empty_b;
  wire nan_a = high_a && !empty_a, nan_b = high_b && !empty_b;
  wire signals = (nan_a && !fraction_a[51]) || (!root && nan_b && !fraction_b[51]);
  wire [52:0] raw_a = {!low_a, fraction_a}, raw_b = {!low_b, fraction_b};
  wire [5:0] shift_a = zeros(raw_a), shift_b = zeros(raw_b);
  wire [52:0] mantissa_a = raw_a << shift_a, mantissa_b = raw_b << shift_b;
  wire [12:0] bias = wide ? DOUBLE_BIAS : SINGLE_BIAS;
  wire [12:0] true_a = {2'd0, exponent_a} + {12'd0, low_a} - bias - {7'd0, shift_a};
  wire [12:0] true_b = {2'd0, exponent_b} + {12'd0, low_b} - bias - {7'd0, shift_b};
  wire smaller = mantissa_a < mantissa_b;  // then the quotient is below 1

  // ---------------------------------------------------------------- results that are known at once
  wire sign = root ? sign_a : sign_a ^ sign_b;
  wire invalid = root ? (sign_a && !zero_a && !nan_a) : (zero_a && zero_b) || (infinite_a && infinite_b);
  wire is_nan = nan_a || (!root && nan_b) || invalid;
  wire is_infinite = root ? infinite_a : infinite_a || zero_b;
  wire is_zero = root ? zero_a : zero_a || infinite_b;
  wire known = is_nan || is_infinite || is_zero;
  wire by_zero = !root && zero_b && !is_nan && !infinite_a;

  // ---------------------------------------------------------------- bits of the result
  localparam [1:0] IDLE = 2'd0, COUNTS = 2'd1, ROUNDS = 2'd2, TELLS = 2'd3;
  reg [1:0] state;
  reg [5:0] left;                        // cycles of steps
  reg is_root, is_double, is_negative, knows, has_nan, has_infinite;
  reg [2:0] mode;
  reg [4:0] known_flags;
  reg [12:0] exponent;                   // of the result, without bias
  reg [57:0] remainder;
  reg [53:0] divisor;                    // or what of the radicand has not been looked at
  reg [BITS-1:0] bits;

  // one bit: of a quotient, with the remainder doubled behind it; of a root, two bits of the radicand further
  reg [57:0] step_remainder, trial;
  reg [53:0] step_divisor;
  reg [BITS-1:0] step_bits;
  reg fits;
  integer step;
  always @* begin
    step_remainder = remainder;
    step_divisor = divisor;
    step_bits = bits;
    trial = 58'd0;
    fits = 1'b0;
    for (step = 0; step < STEPS; step = step + 1) begin
      if (is_root) begin
        step_remainder = {step_remainder[55:0], step_divisor[53:52]};
        step_divisor = {step_divisor[51:0], 2'd0};
        trial = {step_bits[55:0], 2'd1};
      end else trial = {4'd0, step_divisor};
      fits = step_remainder >= trial;
      if (fits) step_remainder = step_remainder - trial;
      if (!is_root) step_remainder = step_remainder << 1;
      step_bits = {step_bits[BITS-2:0], fits};
    end
  end

  // ---------------------------------------------------------------- rounding
  wire [BITS-1:0] aligned = is_double ? bits : bits << (DOUBLE_BITS - SINGLE_BITS);  // the leading one in front
  wire rest = remainder != 58'd0;
  // 24 or 53 bits, what is behind them as one or two bits
  wire [12:0] least = is_double ? 13'd1 - DOUBLE_BIAS : 13'd1 - SINGLE_BIAS;
  wire [12:0] below = least - exponent;
  wire tiny = $signed(exponent) < $signed(least);
  wire [5:0] lowered = !tiny ? 6'd0 : below > 13'd60 ? 6'd60 : below[5:0];
  wire [BITS+59:0] lowered_bits = {aligned, 60'd0} >> lowered;
  // of a normal number, for tininess, and of the number
  wire [BITS+60:0] exact = {aligned, 60'd0, rest}, sum_of = {lowered_bits, rest};
  localparam TOP = BITS + 60;
  function [55:0] rounded(input [BITS+60:0] value, input two_words, input [2:0] how, input negative);
    // {inexact, carry, mantissa}
    reg [53:0] mantissa;
    reg half, sticky, more;
    begin
      mantissa = two_words ? {1'b0, value[TOP -: 53]} : {30'd0, value[TOP -: 24]};
      half = two_words ? value[TOP-53] : value[TOP-24];
      sticky = two_words ? value[TOP-54:0] != {TOP - 53{1'b0}} : value[TOP-25:0] != {TOP - 24{1'b0}};
      case (how)
        NEAREST: more = half && (sticky || mantissa[0]);
        AWAY: more = half;
        DOWN: more = negative && (half || sticky);
        UP: more = !negative && (half || sticky);
        default: more = 1'b0;
      endcase
      mantissa = mantissa + {53'd0, more};
      rounded = {half || sticky, 1'b0, mantissa};
    end
  endfunction
  wire [55:0] normal = rounded(exact, is_double, mode, is_negative);
  wire [55:0] last = rounded(sum_of, is_double, mode, is_negative);
  wire normal_carry = is_double ? normal[53] : normal[24];
  wire carry = is_double ? last[53] : last[24];
  wire leading = is_double ? last[52] : last[23];
  wire inexact = last[55];
  wire stays_tiny = tiny && !(normal_carry && below == 13'd1);
  // a mantissa that became 2 is 1, one higher; a tiny one that became 1 has the least exponent
  wire [12:0] biased = (tiny ? {12'd0, leading || carry} : exponent + (is_double ? DOUBLE_BIAS : SINGLE_BIAS) + {12'd0, carry});
  wire overflow = !tiny && biased >= (is_double ? 13'd2047 : 13'd255);
  wire to_largest = mode == 3'd1 || (mode == DOWN && !is_negative) || (mode == UP && is_negative);
  wire [51:0] fraction = carry ? 52'd0 : is_double ? last[51:0] : {29'd0, last[22:0]};
  wire infinite = knows ? has_infinite : overflow && !to_largest;
  wire largest = !knows && overflow && to_largest;
  wire [10:0] field = has_nan || infinite ? 11'h7ff : largest ? 11'h7fe : knows ? 11'd0 : biased[10:0];
  wire [7:0] small_field = has_nan || infinite ? 8'hff : largest ? 8'hfe : knows ? 8'd0 : biased[7:0];
  wire [51:0] last_fraction = has_nan ? {1'b1, 51'd0} : infinite ? 52'd0 : largest ? {52{1'b1}} : knows ? 52'd0 : fraction;
  wire last_sign = is_negative && !has_nan;

  assign ready = state == IDLE;
  always @(posedge clock) begin
    done <= 1'b0;
    if (reset || kill) state <= IDLE;
    else
      case (state)
        IDLE: if (start) state <= known ? ROUNDS : COUNTS;
        COUNTS: if (left == 6'd1) state <= ROUNDS;
        ROUNDS: begin
          state <= TELLS;
          done <= 1'b1;
        end
        default: state <= IDLE;
      endcase
    if (start && ready) begin
      is_root <= root;
      is_double <= wide;
      is_negative <= sign;
      mode <= rounding;
      knows <= known;
      has_nan <= is_nan;
      has_infinite <= is_infinite && !is_nan;
      known_flags <= {signals || invalid, by_zero, 3'd0};
      exponent <= root ? {true_a[12], true_a[12:1]} : true_a - true_b - {12'd0, smaller};
      bits <= {BITS{1'b0}};
      left <= wide ? DOUBLE_CYCLES[5:0] : SINGLE_CYCLES[5:0];
      // a radicand from 1 to 4: its bits in front come first, two at a time
      remainder <= root ? 58'd0 : smaller ? {4'd0, mantissa_a, 1'b0} : {5'd0, mantissa_a};
      divisor <= root ? (true_a[0] ? {mantissa_a, 1'b0} : {1'b0, mantissa_a}) : {1'b0, mantissa_b};
    end else if (state == COUNTS) begin
      left <= left - 6'd1;
      remainder <= step_remainder;
      divisor <= step_divisor;
      bits <= step_bits;
    end else if (state == ROUNDS) begin
      flags <= knows ? known_flags :
          {2'b00, overflow, stays_tiny && inexact, inexact || overflow};
      result <= is_double ? {last_sign, field, last_fraction} :
          {32'hffff_ffff, last_sign, small_field, has_nan ? {1'b1, 22'd0} : last_fraction[22:0]};
    end
  end
  wire _unused = &{1'b0, normal[55:54], normal[52:25], normal[23:0], last[54]};
endmodule
