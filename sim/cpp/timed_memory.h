// Main memory's answers to our accelerator as they are at the start of a cycle, as the harness presents them to the Verilog.
#pragma once
#include "dram.h"

namespace baco {

struct TimedMemory {
  explicit TimedMemory(Dram& memory) : dram(memory) { present(); }
  // The next cycle begins.
  void present() {
    read_ready = dram.read_ready();
    write_ready = dram.write_ready();
    beat = dram.beat() != nullptr;
    acknowledged = dram.take_ack();
  }

  Dram& dram;
  bool read_ready, write_ready, beat, acknowledged;
};

}  // namespace baco
