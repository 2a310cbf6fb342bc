// One bit of a quotient: what is left of the dividend so far, its next bit, and the divisor. Restoring division.
module baco_divide_step #(
    parameter WIDTH = 32                         // bits of the divisor
) (
    input wire [WIDTH:0] remainder,              // less than the divisor
    input wire dividend_bit,                     // from the top
    input wire [WIDTH-1:0] divisor,
    output wire quotient_bit,
    output wire [WIDTH:0] next_remainder
);
  wire [WIDTH+1:0] tried = {remainder, dividend_bit};
  wire [WIDTH+1:0] less = tried - {2'b00, divisor};
  assign quotient_bit = tried >= {2'b00, divisor};
  assign next_remainder = quotient_bit ? less[WIDTH:0] : tried[WIDTH:0];
  wire _unused = &{1'b0, less[WIDTH+1], tried[WIDTH+1]};
endmodule
