// A SoC (accel/rtl/baco_soc.v), Verilated, with a timed memory on its AXI4 port and the host-target interface beside it.
//
// The host-target interface takes what the core has written to `tohost` when nothing has been on the bus for kQuietCycles, so that what
// was written before is in memory; then it tells the core which lines it wrote itself. A request to exit counts from the cycle in which it
// is written.
//
// Marks are noted when the stores before their instruction are in memory, a few cycles behind it.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine.h"
#include "htif.h"
#include "memory.h"
#include "options.h"

namespace baco {

// Where cycles of the core went, as far as its ports say.
struct CoreCounts {
  uint64_t instructions = 0, rocc_commands = 0;
  uint64_t instruction_misses = 0, data_misses = 0, mispredictions = 0, fence_cycles = 0;
};

struct SocHooks {
  Htif::Console console;                  // receives what the program prints
  std::vector<uint64_t> watched;          // addresses of instructions
  std::function<void(uint64_t pc)> reached;
};

class Soc final : public Engine {
 public:
  // Resets the model; the core's first instruction is at options.entry. Throws std::runtime_error when the program contains no SoC, or
  // another one than the configuration's.
  Soc(const Options& options, const Config& config, Memory& memory, CommandLog& log, SocHooks hooks);
  ~Soc() override;

  bool exited() const;
  int exit_code() const;
  CoreCounts core() const;
  // Of instructions that were executed last, oldest first.
  std::vector<uint64_t> recent() const;

  // The core sends the commands.
  bool offer(const Command&) override { return false; }
  bool response(uint64_t&) override { return false; }
  bool busy() const override;
  void tick() override;
  std::string error() const override;
  bool quiet() const override { return false; }
  void skip(uint64_t) override {}
  uint64_t cycle() const override;
  uint64_t progress() const override;
  bool refused(RefusedCommand& refused) const override;
  void report(JsonWriter& json) const override;
  void finish() override {}

 private:
  struct Model;
  std::unique_ptr<Model> model_;
};

}  // namespace baco
