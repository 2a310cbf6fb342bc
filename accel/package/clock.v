// A clock for the testbench, for simulators that keep time themselves (Icarus and others); Verilator has main.cpp.
`timescale 1ns / 1ps
module clock_source;
  reg clock = 0;
  always #5 clock = ~clock;
  testbench bench (.clock(clock));
endmodule
