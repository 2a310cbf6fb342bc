// Who goes next of several that wait: round after round, so that each gets its turn. What is offered stays until it is
// accepted.
module baco_arbiter #(
    parameter UNITS = 2
) (
    input wire clock,
    input wire reset,
    input wire [UNITS-1:0] waiting,      // who has something
    input wire goes_on,                  // the last one has more of what must not be parted
    input wire accepted,                 // what is granted is taken in this cycle
    output wire [UNITS-1:0] last,        // who was granted before
    output wire [UNITS-1:0] grant        // one of those that wait; none if nobody does
);
  localparam [UNITS-1:0] ONE = 1;
  reg [UNITS-1:0] granted;
  reg held;                              // it was not accepted
  wire [UNITS-1:0] behind = waiting & ~(granted | (granted - ONE));
  wire [UNITS-1:0] candidates = behind == {UNITS{1'b0}} ? waiting : behind;
  assign last = granted;
  assign grant = held || goes_on ? granted : candidates & (~candidates + ONE);

  always @(posedge clock)
    if (reset) begin
      granted <= {UNITS{1'b0}};
      held <= 1'b0;
    end else if (grant != {UNITS{1'b0}}) begin
      granted <= grant;
      held <= !accepted;
    end
endmodule
