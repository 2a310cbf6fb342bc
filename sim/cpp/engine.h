// The accelerators a simulator can hold, behind one face: what the harness needs beyond the RoCC port.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "config.h"
#include "device.h"
#include "json.h"
#include "log.h"
#include "memory.h"
#include "options.h"

namespace baco {

class Engine : public Device {
 public:
  // Nothing moves until the next command, so that cycles may be skipped.
  virtual bool quiet() const = 0;
  virtual void skip(uint64_t cycles) = 0;
  virtual uint64_t cycle() const = 0;
  // Grows whenever anything moves.
  virtual uint64_t progress() const = 0;
  // The refused command, where the device tells (then error() is not empty).
  virtual bool refused(RefusedCommand& refused) const = 0;
  // Cycles in which a line comes to the host core's caches, which share the memory behind them; 0 if the engine has no
  // answer and the core's own penalty holds.
  virtual uint64_t line_cycles(uint64_t /*cycle*/, uint64_t /*address*/, bool /*write*/) { return 0; }
  // Fields of the report's object: timing, units, memory traffic.
  virtual void report(JsonWriter& json) const = 0;
  // The same of the memory that engines of several units share: of one of them for all.
  virtual void report_shared(JsonWriter& /*json*/) const {}
  // Completes files. Throws std::runtime_error when they cannot be written.
  virtual void finish() = 0;
};

// Fields of reports that engines with a timed memory share.
void write_times(JsonWriter& json, uint64_t cycle, const RtlStatistics& statistics);
void write_dram(JsonWriter& json, const Dram& memory);
void write_array(JsonWriter& json, const ArraySwitching& array);

// Throws std::runtime_error if the program does not contain what `options.engine` names, or options do not fit it.
std::unique_ptr<Engine> make_engine(const Options& options, const Config& config, Memory& memory, CommandLog& log);

// Those of a system's units, in their order, each with its log. They have one clock: all are to be ticked in each cycle, after
// all that is offered to any of them in it. Throws as above.
std::vector<std::unique_ptr<Engine>> make_engines(const Options& options, const std::vector<Config>& units, Memory& memory,
                                                  const std::vector<CommandLog*>& logs);

}  // namespace baco
