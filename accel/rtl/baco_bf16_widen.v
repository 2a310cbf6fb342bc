// A number of bfloat16 as float32; every NaN is 32'h7fc00000. Combinational.
module baco_bf16_widen (
    input wire [15:0] code,
    output wire [31:0] number
);
  wire undefined = code[14:7] == 8'hff && code[6:0] != 7'd0;
  assign number = {undefined ? 16'h7fc0 : code, 16'd0};
endmodule
