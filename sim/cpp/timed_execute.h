// Our execute unit in time, as baco_execute.v: pairs of PRELOAD and COMPUTE become operations (baco_execute_decode.v) of two
// streams through the array, whose operands are fetched ahead (baco_fetch.v), one of them through the transposer.
#pragma once
#include <array>
#include <cstdint>
#include <deque>

#include "config.h"
#include "timed_banks.h"
#include "timed_queue.h"
#include "timed_station.h"

namespace baco {

class TimedExecute {
 public:
  TimedExecute(const Config& config, TimedBanks& banks, TimedStation& station);

  bool ready() const { return commands_.room(); }
  void accept(const TimedCommand& command) { commands_.push(command); }
  // Results come before all other writes of a cycle.
  void write(uint64_t cycle);
  void tick(uint64_t cycle);
  bool busy() const { return !idle() || remaining_ || active_c_ || shadow_c_ || last_written_; }
  bool multiplying() const { return multiplying_; }

 private:
  struct Target {  // where the result of a COMPUTE goes
    bool kept = false;
    LocalAddress at;
    unsigned rows = 0, stride = 1, entry = 0;
  };
  struct Product {
    Target target;
    bool flip = false, a = false, b = false;
    unsigned waves = 1, entry = 0;
  };
  struct Rows {  // of an operand
    uint32_t base = 0;
    unsigned stride = 1, rows = 0, total = 1;
  };
  // Rows fetched ahead, across operations.
  struct Fetch {
    TimedQueue<Rows> operations{4};
    TimedQueue<char> rows{7};
    unsigned index = 0, credits = 7;
    bool arrives = false;
  };
  struct Transposer {
    bool full = false, entering = false, started = false;
    unsigned step = 0;
  };
  struct Written {
    uint64_t cycle = 0;
    LocalAddress at;
    uint32_t row = 0;
    bool last = false;
    unsigned entry = 0;
  };
  enum Operand_ : size_t { kA, kB, kX };

  void decode(uint64_t cycle, bool done_taken, bool was_idle, bool drained);
  bool operate(const TimedCommand& compute);
  void fetch(Fetch& from, bool taken);
  bool idle() const;

  const Config config_;
  const unsigned dim_, latency_;
  const int row_bits_;
  TimedBanks& banks_;
  TimedStation& station_;

  // the front
  TimedQueue<TimedCommand> commands_;
  bool preloaded_ = false;
  TimedCommand preload_;
  bool os_ = false, config_os_ = false, a_transpose_ = false, b_transpose_ = false, zero_weights_ = false;
  unsigned stride_a_ = 1, stride_c_ = 1;
  std::array<bool, 3> transposed_{};

  TimedQueue<Product> products_{4};
  TimedQueue<char> exchanges_{4};  // whether there is an operand
  std::array<Fetch, 3> fetches_;
  Transposer transposer_;

  unsigned m_index_ = 0, x_index_ = 0, remaining_ = 0, quiet_ = 0;
  bool shadow_full_ = false, flushing_ = false, active_c_ = false, shadow_c_ = false;
  Target active_, shadow_;
  std::deque<Written> written_;
  bool last_written_ = false, multiplying_ = false;
};

}  // namespace baco
