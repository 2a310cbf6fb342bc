// Our LOOP_WS unroller in time, as baco_loop_ws.v: the commands of five phases, each in its order, and which of them leaves in
// a cycle.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "command.h"
#include "config.h"
#include "fields.h"
#include "timed_credits.h"
#include "timed_unroller.h"

namespace baco {

class TimedLoopWs {
 public:
  explicit TimedLoopWs(const Config& config);

  static bool takes(const Command& command) {
    return (command.funct >= kLoopWs && command.funct <= kLoopWsStridesDC) || command.funct == kLoopWsScratchpadAB ||
           command.funct == kLoopWsScratchpadC;
  }
  bool busy() const { return slots_[0].running || slots_[1].running; }
  // Whether a command of this unroller is taken in this cycle.
  bool ready(uint64_t cycle, const Command& command) {
    if (command.funct != kLoopWs) return !slots_[fill()].running;
    if (!judged_ && cycle >= settled_) judged_ = cycle + 1;
    return judged_ && cycle >= judged_ && !slots_[fill()].running;
  }
  void take(uint64_t cycle, const Command& command);
  // What can leave in this cycle, if anything.
  const Command* offered(const TimedCredits& credits);
  // The cycle ends; `gone`: what was offered has left.
  void tick(bool gone);

 private:
  enum Phase : size_t { kFirst, kSecond, kThird, kExecute, kStore, kPhases };  // loads of A, B, D
  struct Step {  // a command and where it stands
    Command command;
    uint32_t row = 0, col = 0, col_end = 0, first_row = 0;  // loads and stores, in blocks
    uint32_t i = 0, j = 0, k = 0, first_j = 0;              // products
  };
  struct Slot {
    // as configured
    uint32_t i = 0, j = 0, k = 0, pad_i = 0, pad_j = 0, pad_k = 0;
    uint64_t a = 0, b = 0, c = 0, d = 0;
    uint32_t a_stride = 0, b_stride = 0, c_stride = 0, d_stride = 0;
    uint32_t a_own = 0, b_own = 0;
    // of the run
    bool running = false, addition = false, to_scratchpad = false, a_transpose = false, b_transpose = false;
    uint32_t a_rows = 0, b_rows = 0, a_load = 0, b_load = 0, a_use = 0, b_use = 0;
    bool d_half = false, ex_half = false, st_half = false;
    std::array<std::vector<Step>, kPhases> steps;
    std::array<bool, kPhases> done{};
  };
  struct Machine {  // of a phase
    bool active = false;  // it has a command
    bool starts = false;  // ... in the next cycle: it works out the first one
    unsigned owner = 0;
    size_t at = 0;
  };
  struct Walk {
    uint32_t rows, cols, step;
    bool whole;
    uint32_t group;
  };

  unsigned fill() const { return slots_[head_].running ? 1 - head_ : head_; }
  void run(const Command& command);
  void unroll(Slot& slot, unsigned number, const Command& command);
  std::vector<Step> walk(const Walk& how) const;
  bool may_start(Phase phase, unsigned slot) const;
  const Step& step(Phase phase) const {
    const Machine& machine = machines_[phase];
    return slots_[machine.owner].steps[phase][machine.at];
  }
  bool ahead_of_product(const Step& product, unsigned owner) const;
  bool store_may() const;
  bool b_may() const;
  Phase pick_load(bool b_ready) const;

  const Config config_;
  const uint32_t dim_, element_bytes_, blocks_, acc_blocks_, sp_half_, acc_half_;
  std::array<Slot, 2> slots_;
  std::array<Machine, kPhases> machines_;
  unsigned head_ = 0;
  bool next_d_half_ = false, next_ex_half_ = false, next_st_half_ = false;
  uint64_t settled_ = 0, judged_ = 0;  // cycles from which the sizes of the loop to come, the verdict on its run are known
  Phase chosen_ = kPhases;
};

}  // namespace baco
