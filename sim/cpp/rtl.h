// The accelerator's Verilated RTL behind its RoCC port, with its memory ports served by a timed memory.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "config.h"
#include "crosses.h"
#include "device.h"
#include "dram.h"
#include "log.h"
#include "memory.h"
#include "verdict.h"

namespace baco {

// How often each point of the Verilog was reached, over devices one after the other, in the model's order.
struct RtlCoverage {
  std::vector<uint32_t> counts;
  Crosses crosses;
};

struct RtlOptions {
  DramOptions dram;
  uint32_t power_up = 0;         // seed of what registers and memories hold before reset, 0 for zeros; needs a model built with checks
  std::string trace;             // waveform file, empty = none; needs a model built for tracing
  uint64_t trace_from = 0;       // cycles recorded: [trace_from, trace_until)
  uint64_t trace_until = ~uint64_t{0};
  RtlCoverage* coverage = nullptr;  // goes on there, and is kept there at the end; needs a model that counts coverage
};

// What switched in the array (array_switching.v), in cycles in which it advanced.
struct ArraySwitching {
  uint64_t cycles = 0, output_stationary_cycles = 0;
  // Changed at its ports since the cycle before: multiplicands; weights that enter, or multipliers, output-stationary; first sums.
  uint64_t a_bits = 0, weight_bits = 0, multiplier_bits = 0, d_bits = 0;
  uint64_t product_bits = 0, sum_bits = 0;  // in all its elements
};

struct RtlStatistics {
  uint64_t evaluated_cycles = 0;  // the rest was skipped because nothing moved
  uint64_t busy_cycles = 0;       // a fence would have waited
  uint64_t first_command_cycle = 0;  // when the first command was accepted
  uint64_t last_work_cycle = 0;      // the last one of busy_cycles
  // By bit of event_units: load, execute, store, mesh, read beat, write beat, loop_ws, loop_conv.
  std::array<uint64_t, 8> unit_cycles{};
};

class RtlDevice : public Device {
 public:
  // Whether this program contains RTL, and in which form it can record waves: "", "vcd" or "fst".
  static bool built();
  static const char* trace_format();

  // Resets the model. Throws std::runtime_error when the model does not fit the configuration, cannot trace, or
  // the program contains none.
  RtlDevice(const Config& config, Memory& memory, CommandLog& log, const RtlOptions& options);
  // Those of a system, which are one model with one clock and one memory; a configuration and a log of each. Only tick() and
  // skip() of the last one do anything: the others are to be called before.
  static std::vector<std::unique_ptr<RtlDevice>> of_system(const std::vector<Config>& configs, Memory& memory,
                                                           const std::vector<CommandLog*>& logs, const RtlOptions& options);
  ~RtlDevice() override;

  bool offer(const Command& command) override;
  bool response(uint64_t& data) override;
  bool busy() const override;
  void tick() override;
  std::string error() const override;

  bool rejected(RefusedCommand& refused) const;
  // The port that broke its protocol first (handshakes.v), with its place in the Verilog; empty while none has.
  const std::string& broken() const;
  uint64_t cycle() const;
  // Nothing moves until the next command: cycles can pass without being evaluated.
  bool quiet() const;
  void skip(uint64_t cycles);
  // Grows whenever anything moves: commands, events, memory beats.
  uint64_t progress() const;
  RtlStatistics statistics() const;
  const ArraySwitching& array() const;  // of the arrays of all units
  const Dram& dram() const;
  // Writes the coverage with what names each point, as Verilator does, and crosses (crosses.h). Throws std::runtime_error for
  // a device without, and when it cannot be written.
  void write_coverage(const std::string& path) const;
  // Flushes waveforms; throws std::runtime_error when they could not be written.
  void finish();

 private:
  struct Model;
  RtlDevice(std::shared_ptr<Model> model, size_t unit);
  std::shared_ptr<Model> model_;
  size_t unit_;  // of those of the model
};

}  // namespace baco
