// The simulator: memory, host core or command stream, accelerator; one JSON report at the end, whatever happens.
//
// Exit code 0: the report has been written, and says how it went. 3: the arguments or files make no sense (message on
// standard error). What the program prints goes to standard output as it comes.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <iostream>
#include <memory>
#include <vector>

#include "cosim.h"
#include "engine.h"
#include "host.h"
#include "json.h"
#include "marks.h"
#include "options.h"
#include "simulation.h"
#include "soc.h"

namespace baco {
namespace {

constexpr int kUnusable = 3;

// Prints up to a number of bytes, so that a program that prints for ever fills nobody's disk.
class Console {
 public:
  explicit Console(uint64_t limit) : left_(limit) {}
  void write(const char* bytes, size_t count) {
    const size_t shown = static_cast<size_t>(std::min<uint64_t>(left_, count));
    std::fwrite(bytes, 1, shown, stdout);
    if (std::memchr(bytes, '\n', shown)) std::fflush(stdout);
    left_ -= shown;
    dropped_ += count - shown;
  }
  uint64_t dropped() const { return dropped_; }

 private:
  uint64_t left_, dropped_ = 0;
};

void write_command(JsonWriter& json, const Command& command) {
  json.field("funct", static_cast<unsigned>(command.funct));
  json.field("rs1", command.rs1);
  json.field("rs2", command.rs2);
}

void write_counts(JsonWriter& json, const char* name, const std::map<unsigned, uint64_t>& counts) {
  json.key(name);
  json.begin_array();
  for (const auto& [kind, count] : counts) {
    json.begin_array();
    json.value(kind / 4);
    json.value(kind % 4);
    json.value(count);
    json.end_array();
  }
  json.end_array();
}

void write_activity(JsonWriter& json, const ActivityCounts& counts, const Config& config) {
  json.key("activity");
  json.begin_object();
  json.field("macs", counts.macs);
  json.field("array_macs", counts.array_macs);
  json.field("stationary_words", counts.stationary_words);
  json.field("accumulator_read_words", counts.accumulator_read_words);
  json.field("accumulator_write_words", counts.accumulator_write_words);
  json.field("scratchpad_read_bytes", counts.scratchpad_read_bytes);
  json.field("scratchpad_write_bytes", counts.scratchpad_write_bytes);
  json.field("dram_read_bytes", counts.dram_read_bytes);
  json.field("dram_write_bytes", counts.dram_write_bytes);
  if (config.normalizations) {
    json.field("variance_elements", counts.variance_elements);
    json.field("exponential_elements", counts.exponential_elements);
    json.field("layer_norm_elements", counts.layer_norm_elements);
    json.field("i_gelu_elements", counts.i_gelu_elements);
    json.field("integer_softmax_elements", counts.integer_softmax_elements);
  }
  if (config.row_functions) {
    json.field("table_elements", counts.table_elements);
    json.field("softmax_elements", counts.softmax_elements);
    json.field("normalisation_elements", counts.normalisation_elements);
    json.field("product_elements", counts.product_elements);
  }
  json.end_object();
}

void write_host(JsonWriter& json, const Host& host) {
  const HostCounts& counts = host.counts();
  json.field("instructions", counts.instructions);
  json.key("host");
  json.begin_object();
  json.field("cycles", counts.cycles);
  json.field("rocc_commands", counts.rocc_commands);
  json.field("traps", counts.traps);
  json.field("instruction_misses", counts.instruction_misses);
  json.field("data_misses", counts.data_misses);
  for (int i = 0; i < kStalls; ++i)
    json.field(std::string("stall_") + name(static_cast<Stall>(i)), counts.stalls[static_cast<size_t>(i)]);
  json.end_object();
}

void write_core(JsonWriter& json, const Soc& soc) {
  const CoreCounts counts = soc.core();
  json.field("instructions", counts.instructions);
  json.key("host");
  json.begin_object();
  json.field("cycles", soc.cycle());
  json.field("rocc_commands", counts.rocc_commands);
  json.field("instruction_misses", counts.instruction_misses);
  json.field("data_misses", counts.data_misses);
  json.field("mispredictions", counts.mispredictions);
  json.field("stall_fence", counts.fence_cycles);
  json.end_object();
}

// A core, and its accelerator where it has one.
struct SystemUnit {
  explicit SystemUnit(const Config& config) : config(config), log(config) {}
  const Config config;
  CommandLog log;
  std::unique_ptr<Engine> engine;
  std::unique_ptr<Host> host;
  Soc* soc = nullptr;  // the engine, where it has the core in itself
};

void write_core(JsonWriter& json, const SystemUnit& unit) {
  if (unit.soc)
    write_core(json, *unit.soc);
  else if (unit.host)
    write_host(json, *unit.host);
}

// Everything counted up to the instruction at `pc`.
void write_mark(JsonWriter& json, uint64_t pc, const SystemUnit& unit, size_t number) {
  json.begin_object();
  json.field("address", pc);
  json.field("unit", static_cast<uint64_t>(number));
  json.field("cycle", unit.engine->cycle());
  unit.engine->report(json);
  write_core(json, unit);
  write_activity(json, unit.log.statistics().activity(), unit.config);
  json.end_object();
}

// What was counted of a unit beside its cycles.
void write_commands(JsonWriter& json, const SystemUnit& unit) {
  write_activity(json, unit.log.statistics().activity(), unit.config);
  write_counts(json, "commands", unit.log.statistics().accepted());
  write_counts(json, "unrolled", unit.log.statistics().allocated());
}

// What somebody needs who looks for the reason.
void write_failure(JsonWriter& json, const std::string& kind, const std::string& message, const SystemUnit& unit,
                   size_t number, const StreamPlayer* player) {
  const Engine& engine = *unit.engine;
  const CommandLog& log = unit.log;
  const Host* const host = unit.host.get();
  json.key("failure");
  json.begin_object();
  json.field("kind", kind);
  json.field("message", message);
  json.field("cycle", engine.cycle());
  json.field("unit", static_cast<uint64_t>(number));
  if (player && player->current()) json.field("stream_line", static_cast<uint64_t>(player->current()->line));
  if (host || unit.soc) {
    const std::vector<uint64_t> recent = host ? host->recent() : unit.soc->recent();
    json.field("pc", host ? host->pc() : recent.empty() ? 0 : recent.back());
    json.key("recent_pcs");
    json.begin_array();
    for (const uint64_t pc : recent) json.value(pc);
    json.end_array();
  }
  RefusedCommand refused;
  if (engine.refused(refused)) {
    json.key("refused");
    json.begin_object();
    json.field("code", static_cast<unsigned>(refused.why));
    json.field("cycle", refused.cycle);
    write_command(json, refused.command);
    json.end_object();
  }
  json.key("recent_commands");
  json.begin_array();
  for (const Accepted& one : log.recent()) {
    json.begin_object();
    json.field("cycle", one.cycle);
    write_command(json, one.command);
    json.end_object();
  }
  json.end_array();
  json.key("in_flight");
  json.begin_array();
  const char* const units[] = {"load", "execute", "store", "front"};
  for (const InFlight& one : log.in_flight()) {
    json.begin_object();
    json.field("unit", units[static_cast<int>(one.unit)]);
    json.field("id", one.id);
    json.field("allocated", one.allocated);
    if (one.has_issued) json.field("issued", one.issued);
    write_command(json, one.command);
    json.end_object();
  }
  json.end_array();
  json.end_object();
}

void write_file(const std::string& path, const std::string& text) {
  std::FILE* file = std::fopen(path.c_str(), "w");
  if (!file) throw std::runtime_error("cannot write the report " + path);
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (std::fclose(file) || !written) throw std::runtime_error("cannot write the report " + path);
}

int simulate(const Options& options) {
  std::vector<std::unique_ptr<SystemUnit>> units;
  const std::vector<Config> configs = Config::read_units(options.config);
  for (const Config& config : configs) units.push_back(std::make_unique<SystemUnit>(config));
  const bool several = units.size() > 1;
  if (several && (!options.log.empty() || !options.stream.empty()))
    throw std::runtime_error("a system of several units runs programs only, without a command log");
  SystemUnit& first = *units.front();
  Memory memory(options.memory_base, options.memory_bytes);
  if (!options.log.empty()) first.log.open(options.log);
  std::vector<CommandLog*> logs;
  for (const auto& unit : units) logs.push_back(&unit->log);
  const bool has_core = options.engine == "soc";
  if (has_core && (several || !options.stream.empty())) throw std::runtime_error("a SoC has one accelerator, and runs programs only");
  if (!has_core) {
    std::vector<std::unique_ptr<Engine>> engines = make_engines(options, configs, memory, logs);
    for (size_t n = 0; n < units.size(); ++n) units[n]->engine = std::move(engines[n]);
  }
  Console console(options.console_bytes);
  Marks marks(options.marks, options.mark_file, memory);
  JsonWriter passed;
  std::unique_ptr<StreamPlayer> player;
  if (has_core) {
    load_image(options.image, memory);
    SocHooks hooks;
    hooks.console = [&console](const char* bytes, size_t count) { console.write(bytes, count); };
    hooks.watched = marks.addresses();
    hooks.reached = [&passed, &marks, &first](uint64_t pc) {
      if (marks.pass(pc)) write_mark(passed, pc, first, 0);
    };
    first.engine.reset(first.soc = new Soc(options, first.config, memory, first.log, std::move(hooks)));
  } else if (options.stream.empty()) {
    load_image(options.image, memory);
    for (size_t n = 0; n < units.size(); ++n) {
      SystemUnit& unit = *units[n];
      HostOptions host_options;
      host_options.tohost = options.tohost;
      host_options.fromhost = options.fromhost;
      host_options.hart_id = n;
      host_options.accelerator = unit.config.accelerator;
      host_options.console = [&console](const char* bytes, size_t count) { console.write(bytes, count); };
      if (options.timing == "gemmini") {
        host_options.as_rocket();
        host_options.line_cycles = [&unit](uint64_t cycle, uint64_t address, bool write) {
          return unit.engine->line_cycles(cycle, address, write);
        };
      }
      if (several)
        host_options.stored = [&units, &unit](uint64_t address, unsigned bytes) {
          for (const auto& other : units)
            if (other.get() != &unit) other->host->invalidate(address, bytes);
        };
      host_options.watched = marks.addresses();
      host_options.reached = [&passed, &marks, &unit, n](uint64_t pc) {
        if (marks.pass(pc)) write_mark(passed, pc, unit, n);
      };
      unit.host.reset(new Host(memory, *unit.engine, host_options));
      unit.host->reset(options.entry);
    }
  } else {
    std::ifstream text(options.stream);
    if (!text) throw std::runtime_error("cannot read the command stream " + options.stream);
    player.reset(new StreamPlayer(read_stream(text), *first.engine, memory, std::cout));
  }

  std::string kind, message;
  size_t running = 0;  // the unit whose core goes on
  Watchdog watchdog(options);
  try {
    if (has_core) {
      run_soc(*first.soc, watchdog);
    } else if (player) {
      run_stream(*player, *first.engine, watchdog);
    } else if (several) {
      std::vector<Host*> hosts;
      std::vector<Engine*> all;
      for (const auto& unit : units) hosts.push_back(unit->host.get()), all.push_back(unit->engine.get());
      run_harts(hosts, all, watchdog, running);
    } else {
      run_program(*first.host, *first.engine, watchdog);
    }
  } catch (const Stopped& stopped) {
    kind = stopped.kind, message = stopped.what();
  } catch (const MemoryFault& fault) {
    kind = "memory", message = fault.what();
  } catch (const HostError& error) {
    kind = "host", message = error.what();
  }
  const double seconds = watchdog.seconds();
  try {
    first.log.close();
    marks.close();
    for (const auto& unit : units) unit->engine->finish();
    if (kind.empty() && !options.dump_file.empty()) dump_memory(options.dump_ranges, options.dump_file, memory);
  } catch (const std::runtime_error& error) {
    if (kind.empty()) kind = "file", message = error.what();
  }

  JsonWriter json;
  json.begin_object();
  json.field("engine", options.engine);
  int exit_code = 0;
  size_t failed = running;
  for (size_t n = 0; n < units.size(); ++n) {
    if (units[n]->host && units[n]->host->exited()) exit_code = units[n]->host->exit_code();
    if (units[n]->soc && units[n]->soc->exited()) exit_code = units[n]->soc->exit_code();
    if (!units[n]->engine->error().empty()) failed = n;
  }
  json.field("exit_code", exit_code);
  if (several) {
    for (const auto& unit : units)
      if (unit->config.accelerator) {
        unit->engine->report_shared(json);
        break;
      }
    json.key("units");
    json.begin_array();
    for (const auto& unit : units) {
      json.begin_object();
      unit->engine->report(json);
      write_host(json, *unit->host);
      write_commands(json, *unit);
      json.end_object();
    }
    json.end_array();
  } else {
    first.engine->report(json);
    write_core(json, first);
    write_commands(json, first);
  }
  json.field("console_dropped_bytes", console.dropped());
  json.key("marks");
  json.array_of(passed);
  json.field("marks_dropped", marks.dropped());
  json.field("wall_seconds", seconds);
  if (!kind.empty()) write_failure(json, kind, message, *units[failed], failed, player.get());
  json.end_object();
  std::cout.flush();
  std::fflush(stdout);
  write_file(options.result, json.text());
  return 0;
}

}  // namespace
}  // namespace baco

int main(int count, char** arguments) {
  try {
    const baco::Options options = baco::Options::parse(count, arguments);
    return options.cosim.empty() ? baco::simulate(options) : baco::cosimulate(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return baco::kUnusable;
  }
}
