// What the results of a softmax or normalisation need of each row, from its sums: an inverse, or a factor and a mean.
// One bit of a quotient or square root a cycle, rows in order, while the elements of other rows are still read.
//
// softmax        factor = min(numerator * 2^shift / sum, 65535), 0 where the sum is
// normalisation  variance = elements * squares - sum * sum + epsilon (48 bits)
//                root = floor(sqrt(variance * 2^16)), at least 1
//                factor = min(elements * 2^28 / root, 2^28 - 1)
//                mean = sign of sum * min(|sum| * 2^28 / root, 2^36 - 1)
module baco_row_statistics #(
    parameter DIM = 16
) (
    input wire clock,
    input wire reset,
    input wire clear,                            // a store begins: nothing is known of its rows
    input wire softmax,                          // else normalisation
    input wire [3:0] shift,                      // of the numerator
    input wire [31:0] numerator,
    input wire [47:0] epsilon,
    input wire [15:0] elements,                  // of a row
    input wire sums_valid,                       // sums of a row, rows in order
    input wire signed [32:0] sum,
    input wire [30:0] squares,
    output reg [DIM-1:0] finished,               // rows whose results are known
    input wire [6:0] index,                      // row of which they are asked
    output wire [27:0] factor,
    output wire signed [36:0] mean
);
  localparam INDEX_BITS = $clog2(DIM);
  localparam [3:0] IDLE = 4'd0, LATCH = 4'd1, SQUARE = 4'd2, VARIANCE = 4'd3, ROOT = 4'd4, BEGIN_FACTOR = 4'd5,
                   FACTOR = 4'd6, BEGIN_MEAN = 4'd7, MEAN = 4'd8;

  reg [32:0] sum_of [0:DIM-1];
  reg [30:0] squares_of [0:DIM-1];
  reg [27:0] factor_of [0:DIM-1];
  reg [36:0] mean_of [0:DIM-1];
  reg [7:0] counted;                             // rows whose sums are known
  reg [7:0] row;                                 // that is worked on
  reg [3:0] state;
  reg [5:0] steps;                               // left
  reg [32:0] own_sum;
  reg [30:0] own_squares;
  reg [63:0] radicand;
  reg [33:0] rest;                               // remainder of the root
  reg [31:0] divisor;                            // the root, or the sum of a softmax
  reg [51:0] quotient;                           // dividend above, quotient below
  reg [32:0] remainder;
  reg beyond;                                    // a softmax's quotient has more than 16 bits

  assign factor = factor_of[index[INDEX_BITS-1:0]];
  assign mean = mean_of[index[INDEX_BITS-1:0]];

  wire [23:0] magnitude = own_sum[32] ? -own_sum[23:0] : own_sum[23:0];
  wire [46:0] product = {31'd0, elements} * {16'd0, own_squares};
  wire [32:0] next_sum = sum_of[row[INDEX_BITS-1:0]];
  wire [47:0] square = {24'd0, magnitude} * {24'd0, magnitude};
  reg [47:0] own_square;
  reg [46:0] own_product;
  wire [47:0] variance = {1'b0, own_product} - own_square + epsilon;

  wire [46:0] dividend = {15'd0, numerator} << shift;
  wire root_bit, quotient_bit;
  wire [33:0] next_rest;
  wire [32:0] next_remainder;
  baco_root_step #(.WIDTH(32)) u_root (
      .rest(rest),
      .radicand_bits(radicand[63:62]),
      .root(divisor),
      .root_bit(root_bit),
      .next_rest(next_rest)
  );
  baco_divide_step #(.WIDTH(32)) u_divide (
      .remainder(remainder),
      .dividend_bit(quotient[51]),
      .divisor(divisor),
      .quotient_bit(quotient_bit),
      .next_remainder(next_remainder)
  );
  wire [51:0] next_quotient = {quotient[50:0], quotient_bit};
  wire [35:0] mean_magnitude = next_quotient[51:36] != 16'd0 ? {36{1'b1}} : next_quotient[35:0];

  always @(posedge clock) begin
    if (sums_valid) begin
      sum_of[counted[INDEX_BITS-1:0]] <= sum;
      squares_of[counted[INDEX_BITS-1:0]] <= squares;
      counted <= counted + 8'd1;
    end
    steps <= steps - 6'd1;
    case (state)
      IDLE:
        if (row != counted)
          state <= LATCH;
      LATCH: begin
        own_sum <= next_sum;
        own_squares <= squares_of[row[INDEX_BITS-1:0]];
        rest <= 34'd0;
        divisor <= softmax ? next_sum[31:0] : 32'd0;
        if (softmax) begin
          // 16 bits are wanted: those above them are zero, or the quotient is limited
          remainder <= {2'd0, dividend[46:16]};
          quotient <= {dividend[15:0], 36'd0};
          beyond <= {1'b0, dividend[46:16]} >= next_sum[31:0];
        end
        steps <= 6'd15;
        state <= softmax ? FACTOR : SQUARE;
      end
      SQUARE: begin
        own_square <= square;
        own_product <= product;
        state <= VARIANCE;
      end
      VARIANCE: begin
        radicand <= {variance, 16'd0};
        steps <= 6'd31;
        state <= ROOT;
      end
      ROOT: begin
        radicand <= {radicand[61:0], 2'b00};
        rest <= next_rest;
        divisor <= {divisor[30:0], root_bit};
        if (steps == 6'd0)
          state <= BEGIN_FACTOR;
      end
      BEGIN_FACTOR: begin
        if (divisor == 32'd0)
          divisor <= 32'd1;
        quotient <= {elements, 36'd0};
        remainder <= 33'd0;
        steps <= 6'd43;
        state <= FACTOR;
      end
      FACTOR: begin
        quotient <= next_quotient;
        remainder <= next_remainder;
        if (steps == 6'd0) begin
          if (softmax) begin
            factor_of[row[INDEX_BITS-1:0]] <= divisor == 32'd0 ? 28'd0
                : beyond ? 28'd65535 : {12'd0, next_quotient[15:0]};
            finished[row[INDEX_BITS-1:0]] <= 1'b1;
            row <= row + 8'd1;
          end
          else
            factor_of[row[INDEX_BITS-1:0]] <= next_quotient[43:28] != 16'd0 ? {28{1'b1}} : next_quotient[27:0];
          state <= softmax ? IDLE : BEGIN_MEAN;
        end
      end
      BEGIN_MEAN: begin
        quotient <= {magnitude, 28'd0};
        remainder <= 33'd0;
        steps <= 6'd51;
        state <= MEAN;
      end
      default: begin
        quotient <= next_quotient;
        remainder <= next_remainder;
        if (steps == 6'd0) begin
          mean_of[row[INDEX_BITS-1:0]] <= own_sum[32] ? -{1'b0, mean_magnitude} : {1'b0, mean_magnitude};
          finished[row[INDEX_BITS-1:0]] <= 1'b1;
          row <= row + 8'd1;
          state <= IDLE;
        end
      end
    endcase
    if (clear || reset) begin
      counted <= 8'd0;
      row <= 8'd0;
      finished <= {DIM{1'b0}};
      state <= IDLE;
    end
  end
  wire _unused = &{1'b0, index, own_sum};
endmodule
