// What happens to each command, and when: the pipeline log, what is in flight, and the figures derived from commands.
#pragma once
#include <array>
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "activity.h"
#include "command.h"
#include "config.h"

namespace baco {

// Where a command is executed. Front: FLUSH, counters, loops and their configuration never reach a controller.
enum class Unit : uint8_t { load = 0, execute = 1, store = 2, front = 3 };

// A command in the reservation station.
struct InFlight {
  Unit unit = Unit::front;
  unsigned id = 0;
  Command command;
  uint64_t allocated = 0;  // cycle
  uint64_t issued = 0;     // cycle; meaningful when has_issued
  bool has_issued = false;
  uint64_t sequence = 0;   // program order
};

// A command as the host core or a stream handed it over.
struct Accepted {
  uint64_t cycle = 0;
  Command command;
};

// How many commands of each kind there were, and what they did.
class CommandStatistics {
 public:
  explicit CommandStatistics(const Config& config) : activity_(config) {}
  void accept(const Command& command) { ++accepted_[kind(command)]; }
  // A primitive command in program order.
  void allocate(const Command& command) {
    ++allocated_[kind(command)];
    activity_.allocate(command);
  }

  // Commands by function code, config commands by subtype: key = funct * 4 + subtype.
  const std::map<unsigned, uint64_t>& accepted() const { return accepted_; }
  const std::map<unsigned, uint64_t>& allocated() const { return allocated_; }
  const ActivityCounts& activity() const { return activity_.counts(); }

 private:
  static unsigned kind(const Command& command) {
    return command.funct * 4u + (command.funct == 0 ? static_cast<unsigned>(command.rs1 & 3) : 0);
  }
  std::map<unsigned, uint64_t> accepted_, allocated_;
  Activity activity_;
};

class CommandLog {
 public:
  explicit CommandLog(const Config& config) : dim_(config.dim), statistics_(config) {}
  ~CommandLog();
  CommandLog(const CommandLog&) = delete;
  CommandLog& operator=(const CommandLog&) = delete;

  // Write one line a finished command to `path`. Throws std::runtime_error when it cannot be opened.
  void open(const std::string& path);
  // Write what is unfinished and close. Throws std::runtime_error when anything could not be written.
  void close();

  void accept(uint64_t cycle, const Command& command);
  void allocate(uint64_t cycle, Unit unit, unsigned id, const Command& command);
  void issue(uint64_t cycle, Unit unit, unsigned id);
  void done(uint64_t cycle, Unit unit, unsigned id);

  // Commands accepted last, oldest first.
  std::vector<Accepted> recent() const;
  // Unfinished commands, oldest first.
  std::vector<InFlight> in_flight() const;
  // Grows with every call above: a watchdog looks whether it does.
  uint64_t progress() const { return progress_; }
  const CommandStatistics& statistics() const { return statistics_; }

 private:
  static constexpr size_t kRecent = 16;
  void line(const char* unit, unsigned id, const Command& command, uint64_t allocated, const char* issued,
            const char* done);
  int dim_;
  std::FILE* file_ = nullptr;
  std::string path_;
  std::array<Accepted, kRecent> recent_;
  uint64_t accepted_ = 0, progress_ = 0, sequence_ = 0;
  std::array<std::array<InFlight, 64>, 3> entries_;
  std::array<std::array<bool, 64>, 3> used_{};
  CommandStatistics statistics_;
};

}  // namespace baco
