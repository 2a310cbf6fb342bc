// A number of 8 bits as float32: itself times 1.
module baco_fp8_widen (
    input wire [7:0] code,
    output wire [31:0] number
);
`ifdef BACO_FP8_E5M2
  localparam [7:0] ONE = 8'h3c;
`else
  localparam [7:0] ONE = 8'h38;
`endif
  baco_fp8_product times_one (.x(code), .y(ONE), .product(number));
endmodule
