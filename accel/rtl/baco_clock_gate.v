// A clock that stands still while not enabled. In a chip a cell of the library takes its place, on an FPGA a buffer with an enable.
module baco_clock_gate (
    input wire clock,
    input wire enable,                   // of the next rising edge
    output wire gated
);
  reg open;
  // verilator lint_off LATCH
  // verilator lint_off COMBDLY
  always @* if (!clock) open <= enable;
  // verilator lint_on COMBDLY
  // verilator lint_on LATCH
  assign gated = clock && open;
endmodule
