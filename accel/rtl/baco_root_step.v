// One bit of a square root, rounded down: the root so far, what is left of the radicand, and its next two bits.
module baco_root_step #(
    parameter WIDTH = 32                         // bits of the root
) (
    input wire [WIDTH+1:0] rest,
    input wire [1:0] radicand_bits,              // from the top
    input wire [WIDTH-1:0] root,
    output wire root_bit,
    output wire [WIDTH+1:0] next_rest
);
  wire [WIDTH+3:0] tried = {rest, radicand_bits};
  wire [WIDTH+3:0] square = {2'b00, root, 2'b01};
  wire [WIDTH+3:0] less = tried - square;
  assign root_bit = tried >= square;
  assign next_rest = root_bit ? less[WIDTH+1:0] : tried[WIDTH+1:0];
  wire _unused = &{1'b0, less[WIDTH+3:WIDTH+2], tried[WIDTH+3:WIDTH+2]};
endmodule
