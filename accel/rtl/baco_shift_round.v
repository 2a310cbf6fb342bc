// The rounding shift of output-stationary results: an arithmetic shift to the right that rounds to the nearest, ties to
// even. With BITS-wide inputs no result exceeds BITS, so nothing saturates here. Lanes are extended to 32 bits first: a
// shift may be longer than BITS.
module baco_shift_round #(
    parameter LANES = 16,
    parameter BITS = 32
) (
    input wire enable,                            // the output matters (simulators skip the work otherwise)
    input wire [4:0] shift,
    input wire [LANES*BITS-1:0] in,
    output reg [LANES*BITS-1:0] out
);
`ifdef SYNTHESIS
  localparam SKIP = 0;
`else
  localparam SKIP = 1;
`endif
  integer i;
  reg signed [31:0] lane;
  reg signed [31:0] floor;
  reg guard;
  reg sticky;
  reg [31:0] half;                              // the guard bit: the highest that is shifted out, if any is
  reg [31:0] below;                             // the bits under it
  reg [31:0] rounded;

  always @* begin
    out = in;
    i = 0;
    lane = 32'd0;
    floor = 32'd0;
    rounded = 32'd0;
    guard = 1'b0;
    sticky = 1'b0;
    half = shift == 5'd0 ? 32'd0 : 32'd1 << (shift - 5'd1);
    below = half - 32'd1;
    if ((enable && shift != 5'd0) || SKIP == 0)
      for (i = 0; i < LANES; i = i + 1) begin
        lane = {{(33-BITS){in[i*BITS+BITS-1]}}, in[i*BITS +: BITS-1]};
        floor = lane >>> shift;
        guard = (lane & half) != 32'd0;
        sticky = (lane & below) != 32'd0;
        rounded = guard && (sticky || floor[0]) ? floor + 32'd1 : floor;
        out[i*BITS +: BITS] = rounded[BITS-1:0];
      end
  end
  wire _unused = &{1'b0, rounded};
endmodule
