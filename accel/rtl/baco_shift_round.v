// The rounding shift of output-stationary results: an arithmetic shift to the right that rounds to the nearest, ties to
// even. With BITS-wide inputs no result exceeds BITS, so nothing saturates here.
module baco_shift_round #(
    parameter LANES = 16,
    parameter BITS = 32
) (
    input wire enable,                            // the output matters (simulators skip the work otherwise)
    input wire [4:0] shift,
    input wire [LANES*BITS-1:0] in,
    output reg [LANES*BITS-1:0] out
);
  integer i;
  reg signed [BITS-1:0] lane;
  reg signed [BITS-1:0] floor;
  reg guard;
  reg sticky;
  reg [BITS-1:0] half;                          // the guard bit: the highest that is shifted out
  reg [BITS-1:0] below;                         // the bits under it

  always @* begin
    out = in;
    lane = {BITS{1'b0}};
    floor = {BITS{1'b0}};
    guard = 1'b0;
    sticky = 1'b0;
    half = {{(BITS-1){1'b0}}, 1'b1} << (shift - 5'd1);
    below = half - 1'b1;
    if (enable && shift != 5'd0)
      for (i = 0; i < LANES; i = i + 1) begin
        lane = in[i*BITS +: BITS];
        floor = lane >>> shift;
        guard = (lane & half) != {BITS{1'b0}};
        sticky = (lane & below) != {BITS{1'b0}};
        out[i*BITS +: BITS] = guard && (sticky || floor[0]) ? floor + 1'b1 : floor;
      end
  end
endmodule
