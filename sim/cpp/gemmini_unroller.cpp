#include "gemmini_unroller.h"

#include <algorithm>

namespace baco {

GemminiUnroller::GemminiUnroller(const Config& config, GemminiStation& station, Origin origin)
    : convolution_(origin == Origin::kLoopConv),
      origin_(static_cast<size_t>(origin)),
      pipeline_(convolution_ ? 2 : 0),
      entries_{static_cast<unsigned>(config.load_entries), static_cast<unsigned>(config.execute_entries),
               static_cast<unsigned>(config.store_entries)},
      width_(static_cast<uint64_t>(std::max(1, config.dma_max_bytes / config.dim))),
      acc_width_(static_cast<uint64_t>(std::max(1, config.dma_max_bytes / (4 * config.dim)))),
      station_(station) {}

void GemminiUnroller::configure(const Command& command) {
  if (command.funct == kLoopWsBounds) bounds_ = command.rs2;
}

void GemminiUnroller::run(const Command& command, const std::vector<Command>& commands) {
  Loop loop;
  loop.configured = now_;
  for (const Command& one : commands) {
    Phase phase = kExecute;
    switch (GemminiStation::class_of(one)) {
      case 0: {
        const unsigned id = one.funct == kConfig ? static_cast<unsigned>(bits(one.rs1, 4, 3))
                            : one.funct == kMvin ? 0
                            : one.funct == kMvin2 ? 1
                                                  : 2;
        phase = id == 0 ? kFirst : id == 1 ? kSecond : kThird;
        break;
      }
      case 2:
        phase = kStore;
        break;
      default:
        break;
    }
    loop.commands[phase].push_back(one);
  }
  if (!convolution_) {
    loop.i = std::max<uint64_t>(1, bits(bounds_, 15, 0));
    loop.j = std::max<uint64_t>(1, bits(bounds_, 31, 16));
    loop.k = std::max<uint64_t>(1, bits(bounds_, 47, 32));
    loop.a_transpose = bit(command.rs2, 0);
    loop.b_transpose = bit(command.rs2, 1);
    loop.addition = bit(command.rs2, 2);
    loop.a_width = std::min(width_, loop.a_transpose ? loop.i : loop.k);
    loop.b_width = std::min(width_, loop.b_transpose ? loop.k : loop.j);
    const bool full = bit(command.rs1, 1), to_scratchpad = bit(command.rs2, 9);
    loop.c_width = full || to_scratchpad ? 1 : std::min(width_, loop.j);
  }
  loops_.push_back(std::move(loop));
}

size_t GemminiUnroller::position(Phase phase, size_t loop) const {
  const Machine& machine = machines_[phase];
  if (machine.loop == loop) return machine.entered - machine.pipe.size();
  return loops_[loop].finished[phase] ? loops_[loop].commands[phase].size() : 0;
}

namespace {
uint64_t parts(uint64_t size, uint64_t step) { return (size + step - 1) / step; }
}  // namespace

// A product is sent when the loads of its operands have been: by the position of the loads, which go along k first.
bool GemminiUnroller::loads_ahead(const Loop& loop, size_t index) const {
  const size_t which = &loop == &loops_[0] ? 0 : 1;
  if (!loop.finished[kThird]) return false;
  const uint64_t product = index / 2, i = product % loop.i, j = product / loop.i % loop.j, k = product / loop.i / loop.j;
  const uint64_t a_per_k = loop.a_transpose ? parts(loop.i, loop.a_width) : loop.i;
  const uint64_t b_per_k = loop.b_transpose ? loop.j : parts(loop.j, loop.b_width);
  const uint64_t a = position(kFirst, which), b = position(kSecond, which);
  const uint64_t a_k = a / a_per_k * (loop.a_transpose ? 1 : loop.a_width);
  const uint64_t a_i = a % a_per_k * (loop.a_transpose ? loop.a_width : 1);
  const uint64_t b_k = b / b_per_k * (loop.b_transpose ? loop.b_width : 1);
  const uint64_t b_j = b % b_per_k * (loop.b_transpose ? 1 : loop.b_width);
  const bool a_ahead = loop.finished[kFirst] || a_k > k || (a_k == k && a_i > i);
  // the original compares A's position along k here too
  const bool b_ahead = loop.finished[kSecond] || b_k > k || (a_k == k && b_j > j);
  return a_ahead && b_ahead;
}

bool GemminiUnroller::store_may(const Loop& loop) const {
  const size_t which = &loop == &loops_[0] ? 0 : 1;
  const size_t index = machines_[kStore].entered;
  const uint64_t i = index % loop.i, j = index / loop.i * loop.c_width;
  const uint64_t blocks = std::min(loop.c_width, loop.j - std::min(j, loop.j));
  if (loop.addition) {
    if (loop.finished[kSecond]) return true;
    const uint64_t b = position(kSecond, which), b_j = b / loop.i * loop.b_width, b_i = b % loop.i;
    return b_j > j || (b_j == j && b_i > i);
  }
  if (loop.finished[kExecute]) return true;
  const uint64_t product = position(kExecute, which) / 2;
  const uint64_t e_i = product % loop.i, e_j = product / loop.i % loop.j, e_k = product / loop.i / loop.j;
  return e_k + 1 == loop.k && (e_j >= j + blocks || (e_j + 1 == j + blocks && e_i > i));
}

// Whether the next command of a phase may enter its pipeline.
bool GemminiUnroller::may_send(Phase phase) const {
  const Machine& machine = machines_[phase];
  const Loop& loop = loops_[machine.loop];
  if (phase == kExecute) {
    if (!convolution_) return loads_ahead(loop, machine.entered);
    return loop.finished[kFirst] && loop.finished[kSecond] && loop.finished[kThird];
  }
  if (phase == kStore) return convolution_ ? loop.finished[kExecute] : store_may(loop);
  // loads of a convolution wait while the products before them do
  if (!convolution_ || machine.loop == 0) return true;
  const Loop& first = loops_[0];
  return !(first.started[kExecute] && !first.finished[kExecute] &&
           !(first.finished[kFirst] && first.finished[kSecond] && first.finished[kThird]));
}

bool GemminiUnroller::room(Phase phase) const {
  const unsigned kind = class_of(phase);
  return station_.in_flight[origin_][kind] < entries_[kind];
}

bool GemminiUnroller::offers(Phase phase) const {
  const Machine& machine = machines_[phase];
  return !machine.pipe.empty() && machine.pipe.front().ready <= now_ && room(phase);
}

GemminiUnroller::Phase GemminiUnroller::choose() const {
  for (const Phase phase : {kStore, kExecute, kThird})
    if (offers(phase)) return phase;
  if (convolution_) return offers(kSecond) ? kSecond : offers(kFirst) ? kFirst : kPhases;
  // A and B: the older macro's; of one macro A's, until it is further along k; B's begins
  const Machine &a = machines_[kFirst], &b = machines_[kSecond];
  const bool a_idle = a.loop == kNone, b_idle = b.loop == kNone;
  Phase phase = kFirst;
  if (a_idle) {
    phase = kSecond;
  } else if (!b_idle && a.loop != b.loop) {
    phase = a.loop < b.loop ? kFirst : kSecond;
  } else if (!b_idle) {
    const Loop& loop = loops_[a.loop];
    if (loop.addition) {
      phase = kFirst;
    } else {
      const uint64_t a_per_k = loop.a_transpose ? parts(loop.i, loop.a_width) : loop.i;
      const uint64_t b_per_k = loop.b_transpose ? loop.j : parts(loop.j, loop.b_width);
      const uint64_t a_k = position(kFirst, a.loop) / a_per_k * (loop.a_transpose ? 1 : loop.a_width);
      const uint64_t b_at = position(kSecond, b.loop), b_k = b_at / b_per_k * (loop.b_transpose ? loop.b_width : 1);
      if (a_k > b_k || b_at == 0) phase = kSecond;
    }
  }
  return offers(phase) ? phase : kPhases;
}

const Command* GemminiUnroller::next() {
  chosen_ = choose();
  return chosen_ == kPhases ? nullptr : machines_[chosen_].pipe.front().command;
}

void GemminiUnroller::sent() {
  machines_[chosen_].pipe.pop_front();
  ++station_.in_flight[origin_][class_of(chosen_)];
}

void GemminiUnroller::tick() {
  // macros of which everything is sent make room
  if (!loops_.empty()) {
    const auto& done = loops_.front().finished;
    if (std::all_of(done.begin(), done.end(), [](bool one) { return one; })) {
      loops_.pop_front();
      for (Machine& machine : machines_)
        if (machine.loop != kNone) --machine.loop;
    }
  }
  for (size_t p = 0; p < kPhases; ++p) {
    Machine& machine = machines_[p];
    const Phase phase = static_cast<Phase>(p);
    if (machine.loop != kNone && machine.entered == loops_[machine.loop].commands[p].size() && machine.pipe.empty()) {
      loops_[machine.loop].finished[p] = true;
      machine.loop = kNone;
    }
    if (machine.loop == kNone) {
      for (size_t l = 0; l < loops_.size(); ++l) {
        Loop& loop = loops_[l];
        if (loop.started[p]) continue;
        const bool loads = loop.started[kFirst] && loop.started[kSecond] && loop.started[kThird];
        if (loop.configured >= now_ || (phase == kExecute && !loads) || (phase == kStore && !loop.started[kExecute])) break;
        loop.started[p] = true;
        machine.loop = l;
        machine.entered = 0;
        machine.active = now_ + 1;
        break;
      }
      continue;
    }
    const std::vector<Command>& commands = loops_[machine.loop].commands[p];
    const size_t held = std::max<size_t>(1, static_cast<size_t>(pipeline_));
    if (machine.active <= now_ && machine.entered < commands.size() && machine.pipe.size() < held && may_send(phase))
      machine.pipe.push_back({now_ + pipeline_, &commands[machine.entered++]});
  }
  ++now_;
}

}  // namespace baco
