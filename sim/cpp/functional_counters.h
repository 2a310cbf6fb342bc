// COUNTER_OP of the functional model (ISA specification, section 9).
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "command.h"

namespace baco {

// Without timing no event has a duration of its own. So that programs which wait for, compare and divide counts still
// work, time is the host core's, and an event is taken to be high from the first command of its unit on, for ever:
// a counter is zero until its unit has worked since it was configured or reset, then it grows. The station's
// occupancies are the commands of the class since then; sums of bytes are those moved, without alignment overhead.
// Events of what is not built (translation, im2col) never happen.
class FunctionalCounters {
 public:
  explicit FunctionalCounters(size_t counters) : counters_(counters) {}

  void pass(uint64_t cycles) { time_ += cycles; }
  // A command that a unit executes.
  void work(const Command& command);
  // The value that the operation returns, which is the one before it acts. The bytes are totals since power-on.
  uint64_t operate(uint64_t rs1, uint64_t bytes_read, uint64_t bytes_written);

 private:
  static constexpr uint64_t kNever = ~uint64_t{0};
  struct Counter {
    unsigned event = 0;
    bool external = false;
    uint64_t begin = kNever;  // when its event rose
    uint64_t commands = 0;    // of its class, since it was configured or reset
    uint64_t snapshot = 0;
  };
  uint64_t value(const Counter& counter) const;

  std::vector<Counter> counters_;
  bool snapshot_mode_ = false;
  uint64_t time_ = 0, bytes_read_ = 0, bytes_written_ = 0;
  uint64_t bytes_read_at_reset_ = 0, bytes_written_at_reset_ = 0;
};

}  // namespace baco
