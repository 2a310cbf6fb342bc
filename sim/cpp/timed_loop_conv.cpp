#include "timed_loop_conv.h"

#include <algorithm>

namespace baco {

namespace {

// Cycles from a run to when the sizes and steps that a phase needs are known; to when all of them are (baco_loop_conv_setup.v).
constexpr std::array<uint64_t, 5> kKnown{9, 7, 18, 19, 22};
constexpr uint64_t kAllKnown = 23;

}  // namespace

TimedLoopConv::TimedLoopConv(const Config& config)
    : config_(config),
      dim_(static_cast<uint32_t>(config.dim)),
      element_bytes_(static_cast<uint32_t>(config.element_bytes())),
      blocks_(parts(config.dma_max_bytes, config.dim * config.element_bytes())),
      acc_blocks_(parts(config.dma_max_bytes, 4 * config.dim)),
      sp_half_(static_cast<uint32_t>(config.scratchpad_rows) / 2),
      acc_half_(static_cast<uint32_t>(config.accumulator_rows) / 2) {}

bool TimedLoopConv::busy() const {
  return loaded_ || std::any_of(machines_.begin(), machines_.end(), [](const Machine& one) { return one.active; });
}

void TimedLoopConv::take(uint64_t cycle, const Command& command) {
  if (command.funct != kLoopConv) {
    rs1_[command.funct - kLoopConvConfig1] = command.rs1;
    rs2_[command.funct - kLoopConvConfig1] = command.rs2;
    return;
  }
  loaded_ = true;
  tag_ = !tag_;
  const bool same = half_ == next_half_;
  half_ = next_half_;
  if (rs2_[4]) next_half_ = !next_half_;
  begun_ = {};
  started_ = cycle + 1;
  tile_ = unroll(command.rs1, command.rs2);
  tile_.same_half = same;
}

// Whether the loads of a product's operands have gone out.
bool TimedLoopConv::loads_done(const Product& p) const {
  const bool tag = machines_[kExecute].tag;
  const auto live = [&](Phase phase) { return machines_[phase].active && machines_[phase].tag == tag; };
  const auto done = [&](Phase phase) { return !live(phase) && !(loaded_ && tile_.tag == tag && !begun_[phase]); };
  if (!done(kBias)) {
    if (!live(kBias)) return false;
    const Step& at = machines_[kBias].step();
    if (!(p.bias_group < at.outer || (p.bias_group == at.outer && p.pixel <= at.inner))) return false;
  }
  if (!done(kWeights)) {
    if (!live(kWeights) || rotated_) return false;
    const Step& at = machines_[kWeights].step();
    if (!(p.weights_group < at.outer || (p.weights_group == at.outer && p.load < at.inner))) return false;
  }
  if (!done(kInput)) {
    if (!live(kInput)) return false;
    const Step& at = machines_[kInput].step();
    if (!(p.batch < at.outer || (p.batch == at.outer && p.row < at.inner))) return false;
  }
  return true;
}

bool TimedLoopConv::store_may() const {
  const Machine& store = machines_[kStore];
  if (!store.active || blank_) return false;
  if (!store.step().moves) return true;
  const auto newer = [&](Phase phase) { return loaded_ && tile_.tag == store.tag && !begun_[phase]; };
  const bool bias_missing =
      store_dilated_ && ((machines_[kBias].active && machines_[kBias].tag == store.tag) || newer(kBias));
  if (bias_missing) return false;
  const bool live = machines_[kExecute].active && machines_[kExecute].tag == store.tag;
  return live ? store.step().outer < at_block_ : !newer(kExecute);
}

TimedLoopConv::Phase TimedLoopConv::pick_load() const {
  const bool execute = machines_[kExecute].active;
  std::array<bool, 3> old{}, may{};
  bool any_old = false;
  for (size_t p = 0; p < 3; ++p) {
    old[p] = loaded_ && machines_[p].active && machines_[p].tag != tile_.tag;
    any_old = any_old || old[p];
  }
  for (size_t p = 0; p < 3; ++p) may[p] = machines_[p].active && (!any_old || old[p]);
  const auto followed = [&](Phase phase) { return execute && machines_[phase].tag == machines_[kExecute].tag; };
  if (may[kBias]) {
    const Step& at = machines_[kBias].step();
    const uint64_t group = followed(kBias) ? need_.bias_group : 0, pixel = followed(kBias) ? need_.pixel : 0;
    const bool all = pixel == ~uint64_t{0};
    if (at.outer < group || (at.outer == group && (all || at.inner < pixel + 2 * dim_)) || !(may[kInput] || may[kWeights]))
      return kBias;
  }
  if (may[kWeights]) {
    const Step& at = machines_[kWeights].step();
    const uint64_t group = followed(kWeights) ? need_.weights_group : 0, load = followed(kWeights) ? need_.load : 0;
    if (at.outer < group || (at.outer == group && at.inner < load + 2) || !may[kInput]) return kWeights;
  }
  return may[kInput] ? kInput : kPhases;
}

const Command* TimedLoopConv::offered(const TimedCredits& credits) {
  chosen_ = kPhases;
  if (store_may() && credits.space(kStores)) {
    chosen_ = kStore;
    return &machines_[kStore].step().command;
  }
  if (command_ && credits.space(kExecution)) {
    chosen_ = kExecute;
    return &command_now_;
  }
  // between a PRELOAD and its COMPUTE no load goes out
  const bool pair_open = command_ && (command_now_.funct == kComputePreloaded || command_now_.funct == kComputeAccumulated);
  if (pair_open || !credits.space(kLoads)) return nullptr;
  chosen_ = pick_load();
  return chosen_ == kPhases ? nullptr : &machines_[chosen_].step().command;
}

void TimedLoopConv::begin(uint64_t cycle) {
  begins_ = {};
  if (!loaded_) return;
  const bool older = machines_[kExecute].active && !begun_[kExecute];
  const std::array<bool, kPhases> hindered{older && tile_.same_half && tile_.bias,
                                           older && execute_half_w_ == tile_.weights_half && tile_.weights,
                                           older && execute_half_in_ == tile_.input_half && tile_.input, false, false};
  for (size_t p = 0; p < kPhases; ++p)
    begins_[p] = !begun_[p] && cycle >= started_ + kKnown[p] && !machines_[p].active && !hindered[p];
}

void TimedLoopConv::tick(uint64_t cycle, bool gone) {
  begin(cycle);
  const bool loaded = second_ && loads_done(waits_);
  const bool over = judged_;
  judged_ = loaded_ && !over && cycle >= started_ + kAllKnown &&
            std::all_of(begun_.begin(), begun_.end(), [](bool one) { return one; });
  // execution: counters, what waits for its loads, the command
  Machine& execute = machines_[kExecute];
  if (execute.active) {
    const bool taken = gone && chosen_ == kExecute, was_command = command_, was_second = second_;
    const bool more = product_ < products_.size();
    const bool goes = loaded && (!command_ || (taken && !compute_next_));
    const bool advances = more && (!second_ || goes);
    if ((taken ? !compute_next_ : !was_command) && !was_second && !more) execute.active = false;
    if (taken) {
      command_ = compute_next_;
      compute_next_ = false;
      command_now_ = issued_.compute;
    }
    if (goes) {
      command_ = compute_next_ = true;
      issued_ = waits_;
      command_now_ = issued_.preload;
      at_block_ = issued_.block;
      second_ = false;
    }
    if (advances) {
      const Product& next = products_[product_++];
      second_ = !next.empty;
      waits_ = next;
      if (!next.empty) need_ = next;
    }
  }
  blank_ = false;
  if (gone && chosen_ != kExecute && chosen_ != kPhases) {
    Machine& machine = machines_[chosen_];
    if (++machine.at == machine.steps.size()) machine.active = false;
  }
  for (size_t p = 0; p < kPhases; ++p) {
    if (!begins_[p]) continue;
    begun_[p] = true;
    Machine& machine = machines_[p];
    machine.tag = tile_.tag;
    if (p == kExecute) {
      execute_half_in_ = tile_.input_half;
      execute_half_w_ = tile_.weights_half;
      rotated_ = tile_.rotated;
      machine.active = true;
      products_ = std::move(tile_.products);
      product_ = 0;
      second_ = compute_next_ = false;
      command_ = tile_.strides;
      command_now_ = tile_.configure;
      at_block_ = 0;
      need_ = Product{};
      continue;
    }
    if (p == kStore) {
      store_dilated_ = tile_.dilated;
      blank_ = !tile_.pooled;
    }
    machine.steps = std::move(tile_.steps[p]);
    machine.at = 0;
    machine.active = !machine.steps.empty();
  }
  if (over) loaded_ = false;
}

}  // namespace baco
