// Our LOOP_CONV_WS unroller in time, as baco_loop_conv.v: the commands of five phases, each in its order, and which of them
// leaves in a cycle. What they are made of, timed_loop_conv_steps.cpp works out.
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

class TimedLoopConv {
 public:
  explicit TimedLoopConv(const Config& config);

  static bool takes(const Command& command) { return command.funct >= kLoopConv && command.funct <= kLoopConvConfig6; }
  bool busy() const;
  // Whether a command of this unroller is taken in this cycle.
  bool ready() const { return !loaded_; }
  void take(uint64_t cycle, const Command& command);
  // What can leave in this cycle, if anything.
  const Command* offered(const TimedCredits& credits);
  // The cycle ends; `gone`: what was offered has left.
  void tick(uint64_t cycle, bool gone);

 private:
  enum Phase : size_t { kBias, kWeights, kInput, kExecute, kStore, kPhases };
  struct Step {
    Command command;
    uint64_t outer = 0, inner = 0;  // where it stands: of a load or store in its order
    bool moves = true;              // a store that is no configuration
  };
  struct Product {  // a PRELOAD and its COMPUTE; or a place in the loops without any
    bool empty = false;
    Command preload, compute;
    uint64_t block = 0, bias_group = 0, pixel = 0, weights_group = 0, load = 0, batch = 0, row = 0;
  };
  struct Tile {  // one run
    bool tag = false, acc_half = false, same_half = false, input_half = false, weights_half = false;
    bool bias = false, weights = false, input = false, output = false;  // there is something to move
    bool rotated = false, dilated = false, pooled = false, strides = false;
    Command configure;  // strides of execution
    std::array<std::vector<Step>, kPhases> steps;
    std::vector<Product> products;
  };
  struct Machine {  // of a phase of loads, or of stores
    bool active = false, tag = false;
    size_t at = 0;
    std::vector<Step> steps;
    const Step& step() const { return steps[at]; }
  };
  struct Layout;  // sizes and steps of a run

  Tile unroll(uint64_t rs1, uint64_t rs2) const;
  void unroll_bias(const Layout& l, Tile& tile) const;
  void unroll_weights(const Layout& l, Tile& tile) const;
  void unroll_input(const Layout& l, Tile& tile) const;
  void unroll_products(const Layout& l, Tile& tile) const;
  void unroll_stores(const Layout& l, Tile& tile) const;

  void begin(uint64_t cycle);
  bool loads_done(const Product& product) const;
  bool store_may() const;
  Phase pick_load() const;

  const Config config_;
  const uint32_t dim_, element_bytes_, blocks_, acc_blocks_, sp_half_, acc_half_;
  std::array<uint64_t, 6> rs1_{}, rs2_{};

  bool loaded_ = false, tag_ = true, next_half_ = false, half_ = false;
  bool judged_ = false;  // the verdict on it is there
  uint64_t started_ = 0;
  std::array<bool, kPhases> begun_{}, begins_{};
  Tile tile_;

  std::array<Machine, kPhases> machines_;  // of kExecute only `active` and `tag`
  bool execute_half_in_ = false, execute_half_w_ = false, rotated_ = false, store_dilated_ = false, blank_ = false;
  std::vector<Product> products_;
  size_t product_ = 0;                     // next to leave the counters
  bool second_ = false, command_ = false, compute_next_ = false;
  Product waits_, need_, issued_;
  Command command_now_;
  uint64_t at_block_ = 0;
  Phase chosen_ = kPhases;
};

}  // namespace baco
