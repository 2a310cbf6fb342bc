// Our reservation station in time, as baco_reservation.v and baco_operands.v have it: which commands wait for which, a ring of
// entries a class. What is illegal the functional model has refused before.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "command.h"
#include "config.h"
#include "fields.h"
#include "log.h"

namespace baco {

// Classes of commands, as `Unit` counts them.
constexpr unsigned kLoads = 0, kExecution = 1, kStores = 2;

struct TimedCommand {
  Command command;
  unsigned entry = 0;
};

class TimedStation {
 public:
  TimedStation(const Config& config, CommandLog& log);

  static unsigned class_of(const Command& command);
  // Whether it is kept here: it is neither a macro nor for the front end.
  static bool enters(const Command& command) {
    return command.funct <= kPreload || command.funct == kMvin3 || command.funct == kMvoutScratchpad ||
           command.funct == kConfigOutput || command.funct == kSetScales;
  }

  // As the cycle began: a free entry, and what is issued when its unit takes it.
  bool space(unsigned kind) const { return space_[kind]; }
  bool offers(unsigned kind) const { return offers_[kind]; }
  const TimedCommand& offered(unsigned kind) const { return rings_[kind].entries[rings_[kind].head].command; }
  void issue(uint64_t cycle, unsigned kind);
  // A unit is done with an entry in this cycle; before `allocate`.
  void complete(uint64_t cycle, unsigned kind, unsigned entry);
  void allocate(uint64_t cycle, const Command& command);
  // Asked once a cycle of the command at the door: it need not be looked at any longer.
  bool settled(const Command& command);
  void tick();

  // A PRELOAD is without its COMPUTE.
  bool preloaded() const { return pending_; }
  bool busy() const;
  // Entries that no command has.
  int unused(unsigned kind) const {
    return static_cast<int>(rings_[kind].entries.size()) - static_cast<int>(rings_[kind].used);
  }

 private:
  struct Range {
    bool valid = false, accumulator = false, write = false;
    uint64_t start = 0, past = 0;
    bool meets(const Range& other) const {
      return valid && other.valid && accumulator == other.accumulator && start < other.past && other.start < past;
    }
  };
  struct Entry {
    bool used = false;
    TimedCommand command;
    std::array<Range, 2> ranges;
    std::array<uint64_t, 3> waits{};  // entries of each class
  };
  struct Ring {
    std::vector<Entry> entries;
    unsigned enter = 0, head = 0, used = 0, waiting = 0;
  };

  std::array<Range, 2> ranges_of(const Command& command) const;
  uint64_t cycles_of_a_look(const Command& command) const;
  void remember(const Command& command);

  const Config config_;
  const int row_bits_;
  CommandLog& log_;
  std::array<Ring, 3> rings_;
  std::array<bool, 3> space_{true, true, true}, offers_{};

  // configuration in program order
  uint64_t stride_a_ = 1, stride_c_ = 1, tile_rows_ = 0;
  bool os_ = false, transpose_a_ = false, transpose_b_ = false, gathered_ = false, pending_ = false;
  std::array<uint64_t, 3> block_stride_{}, repeats_{};
  unsigned last_execute_ = 0;
  uint64_t looked_ = 0;  // cycles at the command at the door
};

}  // namespace baco
