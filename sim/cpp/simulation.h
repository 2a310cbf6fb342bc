// Running a program or a stream to its end, or to the point where it is certain that there is none.
#pragma once
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine.h"
#include "host.h"
#include "memory.h"
#include "options.h"
#include "soc.h"
#include "stream.h"

namespace baco {

// The simulation was given up; `kind` is for programs, the message for people.
struct Stopped : std::runtime_error {
  Stopped(std::string kind, const std::string& message) : std::runtime_error(message), kind(std::move(kind)) {}
  std::string kind;
};

// Throws Stopped when a limit of the options is passed, the device refuses a command, or nothing moves.
class Watchdog {
 public:
  explicit Watchdog(const Options& options)
      : options_(options), start_(std::chrono::steady_clock::now()), next_clock_(kClockCycles) {}
  // To be called every so often; `progress` differs between calls while anything moves.
  void check(const Engine& engine, uint64_t progress);
  // The same of several with one clock.
  void check(const std::vector<Engine*>& engines, uint64_t progress);
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }
  // How many cycles may be skipped without missing a limit.
  uint64_t most_cycles(const Engine& engine) const;

 private:
  static constexpr uint64_t kClockCycles = 1 << 16;
  const Options& options_;
  std::chrono::steady_clock::time_point start_;
  uint64_t next_clock_, progress_ = 0, moved_at_ = 0;
};

// Puts the records of an image file (address, byte count, bytes, ...) into memory. Throws std::runtime_error for an
// unreadable file, MemoryFault for bytes outside memory.
void load_image(const std::string& path, Memory& memory);

// Writes ranges of memory to a file, one behind the other; `ranges` is a text of lines of address and byte count.
// Throws std::runtime_error for files that cannot be read or written, MemoryFault for bytes outside memory.
void dump_memory(const std::string& ranges, const std::string& path, Memory& memory);

// Runs until the program exits. Throws Stopped, HostError or MemoryFault.
void run_program(Host& host, Engine& engine, Watchdog& watchdog);

// The same with several harts on one memory, each with its engine, until one of them exits. In each cycle harts go on in
// their order: what one stores, those behind it see in that cycle. `running`: the one that goes on, whatever is thrown.
void run_harts(const std::vector<Host*>& hosts, const std::vector<Engine*>& engines, Watchdog& watchdog,
               size_t& running);

// The same with a core that is part of the engine. Throws Stopped, HostError or MemoryFault.
void run_soc(Soc& soc, Watchdog& watchdog);

// Runs until the stream is consumed and the accelerator is not busy any more. Throws Stopped or MemoryFault.
void run_stream(StreamPlayer& player, Engine& engine, Watchdog& watchdog);

}  // namespace baco
