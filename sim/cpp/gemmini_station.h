// The original Gemmini's reservation station: entries of three classes, allocated in program order, one a cycle; issued
// in order within a class, one a cycle and class; one completion a cycle. Source: ReservationStation.scala.
#pragma once
#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "command.h"
#include "config.h"
#include "fields.h"
#include "log.h"

namespace baco {

// Who produced a command.
enum class Origin : uint8_t { kProgram, kLoopWs, kLoopConv };

struct Issued {
  Command command;
  unsigned entry = 0;
};

class GemminiStation {
 public:
  GemminiStation(const Config& config, CommandLog& log);

  // Which class a primitive command belongs to: 0 loads, 1 execution, 2 stores.
  static unsigned class_of(const Command& command);

  bool can_allocate(const Command& command) const { return free_[class_of(command)] > 0; }
  void allocate(uint64_t cycle, const Command& command, Origin origin);
  // The command that a class issues in this cycle, if any; `issue` takes it.
  bool can_issue(unsigned kind) const;
  Issued issue(uint64_t cycle, unsigned kind);
  // A unit is done with an entry.
  void complete(unsigned kind, unsigned entry) { completions_[kind].push_back(entry); }
  // Takes one of the completions.
  void tick(uint64_t cycle);

  bool empty() const { return used_ == 0; }
  // All that is left is a PRELOAD whose COMPUTE has not come.
  bool lone_preload() const;
  // Commands of an unroller that it has sent and that are not done, by class; the unroller counts them up.
  std::array<std::array<unsigned, 3>, 3> in_flight{};

 private:
  struct Range {
    bool valid = false;
    uint64_t start = 0, end = 0;
    bool overlaps(const Range& other) const {
      return valid && other.valid && start < other.end && other.start < end;
    }
  };
  struct Entry {
    bool valid = false, is_config = false, writes = false;
    uint64_t waits = 0;  // bits of entries in all classes
    Command command;
    Origin origin = Origin::kProgram;
    Range a, b;
    uint64_t allocated = 0;
  };
  void remember(const Command& command);
  Range range(uint64_t word, uint64_t rows) const;
  void decode(Entry& entry) const;
  void free_entry(uint64_t cycle, unsigned kind, unsigned index);
  unsigned bit_of(unsigned kind, unsigned index) const { return first_[kind] + index; }

  const int dim_, row_bits_;
  const uint64_t accumulator_rows_, accumulator_banks_;
  CommandLog& log_;
  std::array<unsigned, 3> size_, first_, free_;
  std::array<std::vector<Entry>, 3> entries_;
  std::array<std::deque<unsigned>, 3> unissued_, completions_;
  unsigned used_ = 0;
  uint64_t stride_a_ = 1, stride_c_ = 1;
  bool transpose_a_ = false, pooling_ = false;
  std::array<uint64_t, 3> block_stride_{}, repeats_{};
};

}  // namespace baco
