// Which circumstances commands met while they were at work: the dataflow, whether a bank of local memory kept their unit waiting, and
// whether main memory refused a request in the same cycle. Counted by cycles.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <ostream>
#include <string>

#include "log.h"

namespace baco {

// What the Verilog says of one cycle.
struct Circumstances {
  bool output_stationary = false;
  std::array<bool, 3> conflicts{};  // by unit: a bank keeps it waiting
  bool stalled = false;             // main memory refuses a request
  bool loop_ws = false, loop_conv = false;  // under way
};

class Crosses {
 public:
  // One cycle; of each unit the oldest command counts, of execution the oldest PRELOAD and the oldest COMPUTE.
  void cycle(const CommandLog& log, const Circumstances& now);
  // Lines like Verilator's of its own counts: C 'cross COMMAND DATAFLOW CONFLICT STALL' COUNT, the two before the last 0 or 1.
  void write(std::ostream& out) const;

 private:
  void count(const char* command, const Circumstances& now, bool conflict);
  std::map<std::string, uint64_t> counts_;
};

}  // namespace baco
