// The two loop unrollers of the original Gemmini: which primitive command of the macros under way comes next, and when.
// What the commands are, the functional model says, since that is the instruction set's; here is their order and pace.
// Sources: LoopMatmul.scala, WeightedArbiter.scala, LoopConv.scala.
//
// A macro has five phases: stores, execution, and three kinds of loads. Each phase is a state machine of its own, which
// begins the next macro as soon as it has sent all commands of one; two macros at most are under way. One command
// a cycle leaves, from the first phase in the order of `Phase` that has one and whose class has room in the
// reservation station: commands sent and not done are counted against its entries.
#pragma once
#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "command.h"
#include "config.h"
#include "gemmini_station.h"

namespace baco {

class GemminiUnroller {
 public:
  GemminiUnroller(const Config& config, GemminiStation& station, Origin origin);

  // Configuration that the next macro works with; `bounds` of LOOP_WS.
  bool can_configure() const { return loops_.size() < 2; }
  void configure(const Command& command);
  // A run, and the primitive commands that it stands for.
  void run(const Command& command, const std::vector<Command>& commands);

  // Some macro is under way: nothing passes.
  bool busy() const { return !loops_.empty(); }
  // The command that can leave in this cycle; `sent` when it does.
  const Command* next();
  void sent();
  void tick();
  void skip(uint64_t cycles) { now_ += cycles; }

 private:
  enum Phase : size_t { kStore, kExecute, kThird, kSecond, kFirst, kPhases };  // loads: of D or bias, B or weights, A
  struct Loop {
    std::array<std::vector<Command>, kPhases> commands;
    std::array<bool, kPhases> started{}, finished{};
    uint64_t configured = 0;
    // LOOP_WS: sizes in blocks, and blocks that a command moves
    uint64_t i = 1, j = 1, k = 1, a_width = 1, b_width = 1, c_width = 1;
    bool a_transpose = false, b_transpose = false, addition = false;
  };
  struct Machine {  // of a phase
    size_t loop = kNone;  // of those under way
    size_t entered = 0;   // commands that entered its pipeline
    uint64_t active = 0;  // from when
    struct Piped {
      uint64_t ready;
      const Command* command;
    };
    std::deque<Piped> pipe;
  };
  static constexpr size_t kNone = ~size_t{0};

  bool may_send(Phase phase) const;
  bool loads_ahead(const Loop& loop, size_t index) const;
  bool store_may(const Loop& loop) const;
  bool room(Phase phase) const;
  static unsigned class_of(Phase phase) { return phase == kStore ? 2 : phase == kExecute ? 1 : 0; }
  Phase choose() const;
  bool offers(Phase phase) const;
  // Commands of a phase that have left, for a loop.
  size_t position(Phase phase, size_t loop) const;

  const bool convolution_;
  const size_t origin_;
  const uint64_t pipeline_;  // cycles through a phase's pipeline
  const std::array<unsigned, 3> entries_;
  const uint64_t width_, acc_width_;
  GemminiStation& station_;
  uint64_t now_ = 0;
  uint64_t bounds_ = 0;
  std::deque<Loop> loops_;
  std::array<Machine, kPhases> machines_;
  Phase chosen_ = kStore;
};

}  // namespace baco
