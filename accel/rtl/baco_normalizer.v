// Gemmini's normaliser commands on slices of accumulator rows: statistics of rows, and their layer norm, I-GELU and
// softmax. Slices come one at a time; what is made of one is known before the next is taken.
//
//   sums, largest elements      taken, added up over the lanes, added to the row's
//   variance, sum of exponentials   multiplied, then likewise; after a row's last slice its mean, or an inverse in float32
//   layer norm                  less the mean; to be scaled by the product of the row's inverse and the store's scale
//   softmax, I-GELU             multiplied; the first times the row's inverse, which gives integers again
//
// Layer norm has one rounding, as in Gemmini's RTL. The exponential and I-GELU are I-BERT's polynomials (Kim et al., 2021),
// softmax's order of roundings that of Gemmini's functional simulator: its RTL makes softmax of another polynomial. A
// conversion of NaN gives the largest integer.
module baco_normalizer #(
    parameter LANES = 16                         // elements in a slice
) (
    input wire clock,
    input wire reset,
    input wire [31:0] qb,                        // constants, which change while nothing is in here
    input wire [31:0] qc,
    input wire [31:0] qln2,
    input wire [31:0] qln2_inv,
    input wire in_reset,                         // a slice of results leaves: the slot's next statistics begin anew
    input wire in_reset_slot,
    input wire in_valid,                         // a slice is to be worked on; only while not `busy`
    input wire in_slot,                          // of statistics
    input wire [2:0] in_command,                 // normaliser command, 0 for results
    input wire [2:0] in_activation,              // of results: 2 layer norm, 3 I-GELU, 4 softmax
    input wire in_last,                          // last slice of its row
    input wire [7:0] in_count,                   // elements that count
    input wire [LANES*32-1:0] in_data,
    input wire [31:0] in_scale,                  // of results, float32 bits; stays until they leave
    output wire busy,                            // with a slice, or with what follows from it
    output reg out_valid,                        // a slice of results, yet to be scaled
    output wire [LANES*32-1:0] out_data,
    output wire [31:0] out_scale                 // ... by this
);
  localparam [2:0] MEAN = 3'd2, VARIANCE = 3'd3, DEVIATION = 3'd4, MAX = 3'd5, SUM_EXP = 3'd6, INVERSE_SUM = 3'd7;
  localparam [2:0] LAYER_NORM = 3'd2, GELU = 3'd3, SOFTMAX = 3'd4;
  localparam [3:0] IDLE = 4'd0, FIRST = 4'd1, MULTIPLY = 4'd2, AFTER = 4'd3, SCALE = 4'd4, SCALING = 4'd5, OUT = 4'd6,
                   REDUCE = 4'd7, COLLECT = 4'd8, DIVIDE = 4'd9, QUOTIENT = 4'd10, ROOT = 4'd11, INVERT = 4'd12,
                   NORMALISE = 4'd13, ROUND = 4'd14;
  // steps of a lane
  localparam [3:0] L_TAKE = 4'd1, L_CENTRE = 4'd2, L_SQUARE = 4'd3, L_DECAY = 4'd4, L_CLIP = 4'd5, L_MULTIPLY = 4'd6,
                   L_KEEP = 4'd7, L_HALVINGS = 4'd8, L_REDUCED = 4'd9, L_POWER = 4'd10, L_SIGN = 4'd11, L_NARROW = 4'd12;
  localparam [31:0] LEAST = 32'h80000000;

  // ---- what is worked on
  reg [3:0] state;
  reg [1:0] products;                            // of the slice, so far
  reg slot, last;
  reg [2:0] command, activation;
  reg [7:0] count;
  assign busy = state != IDLE;

  wire is_result = command == 3'd0;
  wire squares = command == VARIANCE || command == DEVIATION;
  wire exponential = command == SUM_EXP || command == INVERSE_SUM || (is_result && activation == SOFTMAX);
  wire gelu = is_result && activation == GELU;
  wire multiplies = squares || exponential || gelu;

  // ---- statistics by slot
  reg [1:0] fresh;                               // what has been added up belongs to a row before
  reg [31:0] row_sum [0:1];
  reg [31:0] row_count [0:1];
  reg [31:0] running_max [0:1];
  reg [31:0] row_max [0:1];
  reg [31:0] row_mean [0:1];
  reg [31:0] inverse_deviation [0:1];            // float32
  reg [31:0] inverse_sum [0:1];
  wire [31:0] largest_so_far = fresh[slot] ? LEAST : running_max[slot];
  wire [31:0] base = !exponential ? row_mean[slot] : is_result ? row_max[slot] : largest_so_far;

  // ---- lanes
  wire [LANES*32-1:0] x, scaled;
  wire scaled_valid;
  reg [3:0] step;
  always @* begin
    step = 4'd0;
    case (state)
      IDLE: if (in_valid) step = L_TAKE;
      FIRST: step = squares ? L_SQUARE : exponential ? L_DECAY : gelu ? L_CLIP
                  : is_result ? L_CENTRE : 4'd0;
      MULTIPLY: step = L_MULTIPLY;
      AFTER:
        if (squares || (gelu && products == 2'd2)) step = L_KEEP;
        else if (gelu) step = L_SIGN;
        else step = products == 2'd1 ? L_HALVINGS : products == 2'd2 ? L_REDUCED : L_POWER;
      SCALING: if (scaled_valid) step = L_NARROW;
      default: step = 4'd0;
    endcase
  end

  assign out_data = x;
  genvar g;
  generate
    for (g = 0; g < LANES; g = g + 1) begin : lane
      baco_normalizer_lane u_lane (
          .clock(clock),
          .step(step),
          .element(in_data[g*32 +: 32]),
          .base(base),
          .qb(qb),
          .qc(qc),
          .qln2(qln2),
          .qln2_inv(qln2_inv),
          .scaled(scaled[g*32 +: 32]),
          .x(x[g*32 +: 32])
      );
    end
  endgenerate

  baco_scale #(.LANES(LANES), .IN_BITS(32), .OUT_BITS(32)) u_scale (
      .clock(clock),
      .in_valid(state == SCALE),
      .in_scale(inverse_sum[slot]),
      .in_data(x),
      .in_relu(1'b0),
      .out_valid(scaled_valid),
      .out_data(scaled)
  );

  // ---- layer norm's scale: the inverse deviation (0, or from 2**-31 to 1) times that of the store, rounded to float32.
  // Products below the normal numbers are 0: no element times such a scale comes near an integer.
  wire [31:0] deviation = inverse_deviation[slot];
  reg [47:0] scale_product;
  reg [31:0] normal_scale;
  reg normalised;                                // results are layer norms
  wire scale_carry = scale_product[47];
  wire [24:0] scale_rounded = scale_carry
      ? {1'b0, scale_product[47:24]} + {24'd0, scale_product[23] & (scale_product[24] | (|scale_product[22:0]))}
      : {1'b0, scale_product[46:23]} + {24'd0, scale_product[22] & (scale_product[23] | (|scale_product[21:0]))};
  wire [9:0] scale_exponent = {2'd0, deviation[30:23]} + {2'd0, in_scale[30:23]} + {9'd0, scale_carry}
      + {9'd0, scale_rounded[24]};
  wire scale_special = in_scale[30:23] == 8'hff;
  wire scale_none = deviation[30:23] == 8'd0;
  wire scale_tiny = scale_none || in_scale[30:23] == 8'd0 || scale_exponent <= 10'd127;
  wire [9:0] scale_biased = scale_exponent - 10'd127;
  wire _unused_scale = &{1'b0, deviation[31], scale_rounded[23], scale_biased[9:8]};
  assign out_scale = normalised ? normal_scale : in_scale;
  always @(posedge clock) begin
    normalised <= is_result && activation == LAYER_NORM;
    if (state == FIRST) scale_product <= {24'd0, 1'b1, deviation[22:0]} * {24'd0, 1'b1, in_scale[22:0]};
    if (state == OUT)
      normal_scale <= scale_special ? (scale_none ? 32'h7fc00000 : in_scale)
                    : {in_scale[31], scale_tiny ? 31'd0 : {scale_biased[7:0], scale_rounded[22:0]}};
  end

  // ---- over the lanes
  // Four numbers at a time: sums to four parts, which are added up with the row's sum, largest elements to one.
  localparam PARTS = LANES > 16 ? LANES / 4 : 4;
  localparam [1:0] REDUCTIONS = LANES > 64 ? 2'd3 : LANES > 16 ? 2'd2 : 2'd1;
  localparam [1:0] LAST_REDUCTION = REDUCTIONS - 2'd1;
  reg [1:0] reductions;                          // so far, from REDUCE on
  reg [PARTS*32-1:0] parts;                      // what is left of the slice
  wire largest = command == MAX;
  wire of_lanes = largest ? state == FIRST : reductions == 2'd0;  // largest elements begin a cycle earlier
  wire [PARTS*128-1:0] reduced;                  // four for each part
  generate
    for (g = 0; g < PARTS * 4; g = g + 1) begin : input_of
      wire [31:0] lane_value, part_value;
      if (g < LANES) begin : from_lane
        localparam [31:0] LANE = g;
        assign lane_value = count > LANE[7:0] ? x[g*32 +: 32] : largest ? LEAST : 32'd0;
      end else begin : beyond_lanes
        assign lane_value = largest ? LEAST : 32'd0;
      end
      if (g < PARTS) begin : from_part
        assign part_value = parts[g*32 +: 32];
      end else begin : beyond_parts
        assign part_value = largest ? LEAST : 32'd0;
      end
      assign reduced[g*32 +: 32] = of_lanes ? lane_value : part_value;
    end
    for (g = 0; g < PARTS; g = g + 1) begin : part
      wire [31:0] a = reduced[g*128 +: 32];
      wire [31:0] b = reduced[g*128+32 +: 32];
      wire [31:0] c = reduced[g*128+64 +: 32];
      wire [31:0] d = reduced[g*128+96 +: 32];
      wire [31:0] larger_ab = $signed(a) > $signed(b) ? a : b;
      wire [31:0] larger_cd = $signed(c) > $signed(d) ? c : d;
      wire [31:0] larger = $signed(larger_ab) > $signed(larger_cd) ? larger_ab : larger_cd;
      always @(posedge clock)
        if (state == REDUCE || (largest && state == FIRST))
          parts[g*32 +: 32] <= largest ? larger : a + b + c + d;
    end
  endgenerate
  wire [31:0] sum = parts[31:0] + parts[63:32] + parts[95:64] + parts[127:96];

  wire [31:0] new_sum = (fresh[slot] ? 32'd0 : row_sum[slot]) + (largest ? 32'd0 : sum);
  wire counts = command < MAX;
  wire [31:0] new_count = (fresh[slot] ? 32'd0 : row_count[slot]) + (counts ? {24'd0, count} : 32'd0);
  wire [31:0] new_max = largest && $signed(parts[31:0]) > $signed(largest_so_far) ? parts[31:0] : largest_so_far;

  // ---- a row's mean, deviation and inverses: a bit a cycle
  reg [5:0] steps;                               // left
  reg negative;                                  // sign of the result
  reg [31:0] divisor;                            // also: the root so far
  reg [32:0] remainder;
  reg [51:0] quotient;                           // dividend above, quotient below
  reg [31:0] radicand;
  reg [33:0] rest;
  reg [7:0] exponent;                            // of the inverse, were its significand at least 1
  reg infinite;
  reg inverting;                                 // the quotient is an inverse, not one of integers
  reg imaginary;                                 // the variance is negative
  wire quotient_bit, root_bit;
  wire [32:0] next_remainder;
  wire [33:0] next_rest;
  baco_divide_step #(.WIDTH(32)) u_divide (
      .remainder(remainder),
      .dividend_bit(quotient[51]),
      .divisor(divisor),
      .quotient_bit(quotient_bit),
      .next_remainder(next_remainder)
  );
  baco_root_step #(.WIDTH(32)) u_root (
      .rest(rest),
      .radicand_bits(radicand[31:30]),
      .root(divisor),
      .root_bit(root_bit),
      .next_rest(next_rest)
  );
  wire [31:0] ratio = negative ? -quotient[31:0] : quotient[31:0];
  wire [31:0] sum_magnitude = row_sum[slot][31] ? -row_sum[slot] : row_sum[slot];
  wire [31:0] count_magnitude = row_count[slot][31] ? -row_count[slot] : row_count[slot];

  // float32 of the divisor: its leading 24 bits, rounded to nearest, ties to even
  reg [31:0] leading;
  reg [4:0] weight;                              // of the leading bit
  always @* begin
    leading = divisor;
    weight = 5'd31;
    if (leading[31:16] == 16'd0) begin leading = leading << 16; weight = weight - 5'd16; end
    if (leading[31:24] == 8'd0) begin leading = leading << 8; weight = weight - 5'd8; end
    if (leading[31:28] == 4'd0) begin leading = leading << 4; weight = weight - 5'd4; end
    if (leading[31:30] == 2'd0) begin leading = leading << 2; weight = weight - 5'd2; end
    if (!leading[31]) begin leading = leading << 1; weight = weight - 5'd1; end
  end
  wire [24:0] rounded = {1'b0, leading[31:8]} + {24'd0, leading[7] & (leading[8] | (|leading[6:0]))};
  wire [23:0] significand = rounded[24] ? 24'h800000 : rounded[23:0];
  wire [7:0] power = {3'd0, weight} + {7'd0, rounded[24]};
  // 1 and 127: significands, and exponents with float32's bias
  wire [23:0] numerator = command == INVERSE_SUM ? 24'hfe0000 : 24'h800000;
  wire [7:0] numerator_exponent = command == INVERSE_SUM ? 8'd133 : 8'd127;

  // the quotient of two significands has 26 or 25 bits; 24 are kept
  wire at_least_1 = quotient[25];
  wire sticky = remainder != 33'd0;
  wire up = at_least_1 ? quotient[1] & (quotient[2] | quotient[0] | sticky) : quotient[0] & (quotient[1] | sticky);
  wire [30:0] bits = {at_least_1 ? exponent : exponent - 8'd1, at_least_1 ? quotient[24:2] : quotient[23:1]} + {30'd0, up};
  wire [31:0] inverse = {negative, infinite ? 31'h7f800000 : bits};

  always @(posedge clock) begin
    out_valid <= 1'b0;
    case (state)
      IDLE:
        if (in_valid) begin
          slot <= in_slot;
          last <= in_last;
          command <= in_command;
          activation <= in_activation;
          count <= in_count;
          products <= 2'd0;
          reductions <= 2'd0;
          inverting <= 1'b0;
          state <= FIRST;
        end
      FIRST: state <= multiplies ? MULTIPLY : is_result ? OUT : REDUCE;
      MULTIPLY: begin
        products <= products + 2'd1;
        state <= AFTER;
      end
      AFTER:
        if (squares) state <= REDUCE;
        else if (gelu) state <= products == 2'd2 ? OUT : MULTIPLY;
        else if (products != 2'd3) state <= MULTIPLY;
        else state <= is_result ? SCALE : REDUCE;
      SCALE: state <= SCALING;
      SCALING: if (scaled_valid) state <= OUT;
      OUT: begin
        out_valid <= 1'b1;
        state <= IDLE;
      end
      REDUCE: begin
        reductions <= reductions + 2'd1;
        if (reductions == LAST_REDUCTION) state <= COLLECT;
      end
      COLLECT: begin
        row_sum[slot] <= new_sum;
        row_count[slot] <= new_count;
        running_max[slot] <= new_max;
        if (command == SUM_EXP || command == INVERSE_SUM) row_max[slot] <= largest_so_far;
        fresh[slot] <= last && (command == MEAN || command == DEVIATION);
        state <= !last ? IDLE : command == MEAN || command == DEVIATION ? DIVIDE : command == INVERSE_SUM ? INVERT : IDLE;
      end
      DIVIDE: begin                              // sum by count, towards zero
        negative <= row_sum[slot][31] != row_count[slot][31];
        divisor <= count_magnitude;
        quotient <= {sum_magnitude, 20'd0};
        remainder <= 33'd0;
        steps <= 6'd31;
        state <= QUOTIENT;
      end
      QUOTIENT: begin
        quotient <= {quotient[50:0], quotient_bit};
        remainder <= next_remainder;
        steps <= steps - 6'd1;
        if (steps == 6'd0)
          state <= ROUND;
      end
      ROUND:
        if (command == MEAN) begin
          row_mean[slot] <= divisor == 32'd0 ? 32'd0 : ratio;
          state <= IDLE;
        end
        else if (command == DEVIATION && !inverting) begin
          radicand <= divisor == 32'd0 ? 32'd0 : ratio;
          imaginary <= divisor != 32'd0 && ratio[31];
          divisor <= 32'd0;
          rest <= 34'd0;
          steps <= 6'd15;
          state <= ROOT;
        end
        else begin
          if (command == DEVIATION) inverse_deviation[slot] <= inverse;
          else begin
            inverse_sum[slot] <= inverse;
            running_max[slot] <= LEAST;
          end
          state <= IDLE;
        end
      ROOT: begin
        radicand <= {radicand[29:0], 2'b00};
        rest <= next_rest;
        divisor <= {divisor[30:0], root_bit};
        steps <= steps - 6'd1;
        if (steps == 6'd0)
          state <= INVERT;
      end
      INVERT: begin
        // the root of a negative variance is no number, that of 0 counts as 1
        if (command == INVERSE_SUM) divisor <= sum_magnitude;
        else if (imaginary) divisor <= 32'h7fffffff;
        else if (divisor == 32'd0) divisor <= 32'd1;
        negative <= command == INVERSE_SUM && row_sum[slot][31];
        state <= NORMALISE;
      end
      default: begin                             // NORMALISE
        inverting <= 1'b1;
        infinite <= divisor == 32'd0;
        divisor <= {8'd0, significand};
        exponent <= numerator_exponent - power;
        quotient <= {numerator, 28'd0};
        remainder <= 33'd0;
        steps <= 6'd48;
        state <= QUOTIENT;
      end
    endcase
    if (in_reset) fresh[in_reset_slot] <= 1'b1;
    if (reset) begin
      state <= IDLE;
      out_valid <= 1'b0;
      fresh <= 2'b11;
      row_max[0] <= 32'd0;
      row_max[1] <= 32'd0;
      row_mean[0] <= 32'd0;
      row_mean[1] <= 32'd0;
      inverse_deviation[0] <= 32'd0;
      inverse_deviation[1] <= 32'd0;
      inverse_sum[0] <= 32'd0;
      inverse_sum[1] <= 32'd0;
    end
  end
endmodule
