// The simulator's arguments, as sim/ passes them. They are an interface between programs, not for people.
#pragma once
#include <cstdint>
#include <string>

#include "gemmini_bus.h"
#include "rtl.h"

namespace baco {

// Between two looks at whether anything moves.
inline constexpr uint64_t kCheckCycles = 256;

struct Options {
  std::string config;               // settings of the accelerator
  std::string engine;               // functional | timed | rtl | soc
  std::string timing = "baco";      // baco | gemmini: whose cycles the engine rtl counts
  std::string result;               // where the JSON report goes
  // A program: a flat image and where it starts, or a stream of raw commands.
  std::string image;
  uint64_t image_address = 0;
  uint64_t entry = 0, tohost = 0, fromhost = 0;  // 0 for the latter two: the program has no such symbol
  std::string stream;
  std::string cosim;                // many streams for both devices (cosim.h), instead of either
  std::string coverage;             // of all those streams together: lines of a count and a point, as Verilator names it
  uint64_t memory_base = 0x80000000, memory_bytes = uint64_t{512} << 20;
  RtlOptions rtl;
  GemminiBusOptions gemmini;        // of the timing `gemmini`
  std::string log;                  // command log, empty = none
  // Memory at the end of a run: lines of address and byte count, and where the bytes go, one range after the other.
  std::string dump_ranges, dump_file;
  // Addresses of instructions at which counters are noted and memory is copied (marks.h).
  std::string marks, mark_file;
  uint64_t max_cycles = 4'000'000'000;  // 0 = no limit
  uint64_t stall_cycles = 200'000;  // without any progress
  double timeout_seconds = 0;       // of wall time, 0 = no limit
  uint64_t console_bytes = uint64_t{64} << 20;  // written to standard output at most

  // Throws std::invalid_argument naming the argument that is unknown, incomplete or malformed.
  static Options parse(int count, char** arguments);
};

}  // namespace baco
