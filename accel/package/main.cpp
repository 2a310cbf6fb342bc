// A clock for the testbench in Verilator; other simulators have clock.v.
#include "Vtestbench.h"
#include "verilated.h"

int main(int argc, char** argv) {
  VerilatedContext context;
  context.commandArgs(argc, argv);
  Vtestbench bench(&context);
  while (!context.gotFinish()) {
    bench.clock = !bench.clock;
    bench.eval();
  }
  bench.final();
}
