#include "timed_loop_ws.h"

#include <algorithm>

namespace baco {

namespace {

// Cycles from the bounds to when the sizes they make are known.
constexpr uint64_t kSettling = 4;

}  // namespace

TimedLoopWs::TimedLoopWs(const Config& config)
    : config_(config),
      dim_(static_cast<uint32_t>(config.dim)),
      element_bytes_(static_cast<uint32_t>(config.element_bytes())),
      blocks_(parts(config.dma_max_bytes, config.dim * config.element_bytes())),
      acc_blocks_(parts(config.dma_max_bytes, 4 * config.dim)),
      sp_half_(static_cast<uint32_t>(config.scratchpad_rows) / 2),
      acc_half_(static_cast<uint32_t>(config.accumulator_rows) / 2) {
  slots_[0].b_own = slots_[1].a_own = sp_half_;
  slots_[1].b_own = 2 * sp_half_;
}

void TimedLoopWs::take(uint64_t cycle, const Command& command) {
  Slot& s = slots_[fill()];
  const uint64_t rs1 = command.rs1, rs2 = command.rs2;
  const auto low = [](uint64_t value) { return static_cast<uint32_t>(value); };
  switch (command.funct) {
    case kLoopWsBounds:
      s.i = low(bits(rs2, 15, 0));
      s.j = low(bits(rs2, 31, 16));
      s.k = low(bits(rs2, 47, 32));
      s.pad_i = low(bits(rs1, 15, 0));
      s.pad_j = low(bits(rs1, 31, 16));
      s.pad_k = low(bits(rs1, 47, 32));
      settled_ = cycle + kSettling;
      return;
    case kLoopWsAddressesAB:
      s.a = rs1;
      s.b = rs2;
      return;
    case kLoopWsAddressesDC:
      s.d = rs1;
      s.c = rs2;
      return;
    case kLoopWsStridesAB:
      s.a_stride = low(rs1);
      s.b_stride = low(rs2);
      return;
    case kLoopWsStridesDC:
      s.d_stride = low(rs1);
      s.c_stride = low(rs2);
      return;
    case kLoopWsScratchpadAB:
      s.a_own = low(rs1);
      s.b_own = low(rs2);
      settled_ = std::max(settled_, cycle + 2);
      return;
    case kLoopWs:
      judged_ = 0;
      run(command);
      return;
    default:
      return;
  }
}

void TimedLoopWs::run(const Command& command) {
  const unsigned number = fill();
  Slot& s = slots_[number];
  const uint64_t rs1 = command.rs1, rs2 = command.rs2;
  s.addition = bit(rs2, 2);
  s.to_scratchpad = bit(rs2, 9);
  s.a_transpose = bit(rs2, 0);
  s.b_transpose = bit(rs2, 1);
  s.a_rows = s.i * s.k * dim_;
  s.b_rows = s.k * s.j * dim_;
  const uint64_t a_id = bits(rs1, 19, 18), b_id = bits(rs1, 17, 16);
  const uint32_t a = a_id == 0 ? s.a_own : a_id & 2 ? sp_half_ : 0;
  const uint32_t b = b_id == 0 ? s.b_own : b_id & 2 ? 2 * sp_half_ : sp_half_;
  s.a_load = a;
  s.b_load = b - s.b_rows;
  s.a_use = s.to_scratchpad ? s.a_own : a;
  s.b_use = (s.to_scratchpad ? s.b_own : b) - s.b_rows;
  s.d_half = next_d_half_;
  s.ex_half = next_ex_half_;
  s.st_half = s.addition ? number : next_st_half_;
  s.done = {bit(rs2, 3) || !s.a, bit(rs2, 4) || !s.b, bit(rs2, 5) || !s.d, bit(rs2, 6) || s.addition,
            bit(rs2, 7) || (!s.c && !s.to_scratchpad)};
  const bool change = s.to_scratchpad ? bit(rs2, 8) : s.c != 0;
  if (!bit(rs2, 5) && s.c) next_d_half_ = !next_d_half_;
  if (!bit(rs2, 6) && change) next_ex_half_ = !next_ex_half_;
  if (!bit(rs2, 7) && change) next_st_half_ = !next_st_half_;
  s.running = true;
  unroll(s, number, command);
}

// Pieces of a matrix in the order of baco_loop_ws_walk.v.
std::vector<TimedLoopWs::Step> TimedLoopWs::walk(const Walk& how) const {
  std::vector<Step> steps;
  const uint32_t group = how.whole ? how.rows : how.group;
  for (uint32_t first = 0; first < how.rows; first += group)
    for (uint32_t col = 0; col < how.cols; col += how.step)
      for (uint32_t row = first; row < std::min(how.rows, first + group); ++row) {
        Step step;
        step.row = row;
        step.col = col;
        step.col_end = std::min(how.cols, col + how.step);
        step.first_row = first;
        steps.push_back(step);
      }
  return steps;
}

void TimedLoopWs::unroll(Slot& s, unsigned number, const Command& command) {
  const bool accumulate = bit(command.rs1, 0), full = bit(command.rs1, 1), low_d = bit(command.rs1, 2);
  const auto pieces = [this](const Walk& how, uint8_t funct, uint64_t address, uint32_t stride, uint32_t size, uint32_t local,
                             uint32_t row_pad, uint32_t col_pad) {
    std::vector<Step> steps = walk(how);
    for (Step& one : steps) {
      const uint32_t offset = (one.row * stride + one.col) * dim_ * size;  // wraps
      const uint32_t rows = dim_ - (one.row + 1 == how.rows ? row_pad : 0);
      const uint32_t cols = (one.col_end - one.col) * dim_ - (one.col_end == how.cols ? col_pad : 0);
      one.command = make(funct, address + offset,
                         encode_operand(local + (one.row * how.cols + one.col) * dim_, static_cast<int>(rows),
                                        static_cast<int>(cols)));
    }
    return steps;
  };
  const uint32_t own_half = number ? acc_half_ : 0;
  if (!s.done[kFirst]) {
    const uint32_t inner = s.addition ? s.j : s.k, pad = s.addition ? s.pad_j : s.pad_k;
    const uint32_t local = s.addition ? kFlagAccumulator | own_half : s.a_load;
    const bool t = s.a_transpose;
    s.steps[kFirst] = pieces({t ? inner : s.i, t ? s.i : inner, blocks_, !t, 1}, kMvin, s.a, s.a_stride, element_bytes_, local,
                             t ? pad : s.pad_i, t ? s.pad_i : pad);
  }
  if (!s.done[kSecond]) {
    const uint32_t inner = s.addition ? s.i : s.k, pad = s.addition ? s.pad_i : s.pad_k;
    const uint32_t local = s.addition ? kFlagAccumulator | kFlagAccumulate | own_half : s.b_load;
    const bool t = s.b_transpose;
    s.steps[kSecond] = pieces({t ? s.j : inner, t ? inner : s.j, blocks_, !t, blocks_}, kMvin2, s.b, s.b_stride, element_bytes_, local,
                              t ? s.pad_j : pad, t ? pad : s.pad_j);
    if (config_.packed_weights && bit(command.rs2, 10))
      for (Step& one : s.steps[kSecond]) one.command.rs1 = s.b + ((one.command.rs1 - s.b) >> 1);
  }
  if (!s.done[kThird])
    s.steps[kThird] = pieces({s.i, s.j, low_d ? blocks_ : acc_blocks_, true, 1}, kMvin3, s.d, s.d_stride, low_d ? element_bytes_ : 4,
                             kFlagAccumulator | (s.d_half ? acc_half_ : 0), s.pad_i, s.pad_j);
  if (!s.done[kStore]) {
    const uint32_t local = kFlagAccumulator | (full ? kFlagReadFull : 0) | (s.st_half ? acc_half_ : 0);
    const Walk how{s.i, s.j, full || s.to_scratchpad ? 1 : blocks_, true, 1};
    s.steps[kStore] = pieces(how, kMvout, s.c, s.c_stride, full ? 4 : element_bytes_, local, s.pad_i, s.pad_j);
    if (s.to_scratchpad)
      for (Step& one : s.steps[kStore]) {
        const uint32_t place = (one.row * s.j + one.col) * dim_;
        one.command.funct = kMvoutScratchpad;
        one.command.rs1 = uint64_t{1} << 32 | static_cast<uint32_t>(bits(command.rs2, 63, 32) + place);
      }
  }
  if (s.done[kExecute]) return;
  std::vector<Step>& products = s.steps[kExecute];
  products.clear();
  const uint64_t none = encode_operand(kGarbageAddress, config_.dim, config_.dim);
  for (uint32_t first = 0; first < s.j; first += blocks_)
    for (uint32_t k = 0; k < s.k; ++k)
      for (uint32_t j = first; j < std::min(s.j, first + blocks_); ++j)
        for (uint32_t i = 0; i < s.i; ++i) {
          const int rows = static_cast<int>(dim_ - (i + 1 == s.i ? s.pad_i : 0));
          const int cols = static_cast<int>(dim_ - (j + 1 == s.j ? s.pad_j : 0));
          const int inner = static_cast<int>(dim_ - (k + 1 == s.k ? s.pad_k : 0));
          const uint32_t a = s.a_use + (s.a_transpose ? k * s.i + i : i * s.k + k) * dim_;
          const uint32_t b = s.b_use + (s.b_transpose ? j * s.k + k : k * s.j + j) * dim_;
          const uint32_t c = kFlagAccumulator | (accumulate || k ? kFlagAccumulate : 0) |
                             ((s.ex_half ? acc_half_ : 0) + (i * s.j + j) * dim_);
          Step step;
          step.i = i;
          step.j = j;
          step.k = k;
          step.first_j = first;
          step.command = make(kPreload, encode_operand(i ? kGarbageAddress : b, inner, cols), encode_operand(c, rows, cols));
          products.push_back(step);
          step.command = make(i ? kComputeAccumulated : kComputePreloaded, encode_operand(a, rows, inner), none);
          products.push_back(step);
        }
}

// Whether the loop in `slot` may begin a phase: at once when it is the older one, else when it does not disturb that.
bool TimedLoopWs::may_start(Phase phase, unsigned number) const {
  const Slot &mine = slots_[number], &older = slots_[head_];
  if (!mine.running || mine.done[phase]) return false;
  if (number == head_) return true;
  if (mine.addition != older.addition) return false;
  const auto& done = older.done;
  const bool loaded = done[kFirst] && done[kSecond] && done[kThird], used = loaded && done[kExecute];
  const bool copied = done[kStore] || !older.to_scratchpad;
  const auto hits = [](uint32_t start, uint32_t rows, uint32_t other, uint32_t other_rows) {
    return start < other + other_rows && other < start + rows;
  };
  const auto free = [&](uint32_t start, uint32_t rows) {
    return used || !(hits(start, rows, older.a_use, older.a_rows) || hits(start, rows, older.b_use, older.b_rows));
  };
  switch (phase) {
    case kFirst:
      return mine.addition || (copied && free(mine.a_load, mine.a_rows));
    case kSecond:
      return mine.addition || (copied && free(mine.b_load, mine.b_rows));
    case kThird:
      return (done[kExecute] || mine.d_half != older.ex_half) && (done[kStore] || mine.d_half != older.st_half);
    case kExecute:
      return used && (done[kStore] || (!older.to_scratchpad && mine.ex_half != older.st_half));
    default:
      return used;
  }
}

// The loads of a product's operands have gone out.
bool TimedLoopWs::ahead_of_product(const Step& p, unsigned owner) const {
  const Slot& s = slots_[owner];
  const auto under_way = [&](Phase phase) { return machines_[phase].active && machines_[phase].owner == owner; };
  if (!s.done[kFirst]) {
    if (!under_way(kFirst)) return false;
    const Step& a = step(kFirst);
    const uint32_t k = s.a_transpose ? a.row : a.col, i = s.a_transpose ? a.col : a.row;
    if (!(k > p.k || (k == p.k && i > p.i))) return false;
  }
  if (!s.done[kSecond]) {
    if (!under_way(kSecond)) return false;
    const Step& b = step(kSecond);
    const uint32_t group = s.b_transpose ? b.first_row : b.col, k = s.b_transpose ? b.col : b.row;
    const uint32_t j = s.b_transpose ? b.row : b.col;
    if (!(group > p.first_j || (group == p.first_j && (k > p.k || (k == p.k && j > p.j))))) return false;
  }
  if (!s.done[kThird]) {
    if (!under_way(kThird)) return false;
    const Step& d = step(kThird);
    if (!(d.col > p.j || (d.col == p.j && d.row > p.i))) return false;
  }
  return true;
}

// What a store reads has gone out.
bool TimedLoopWs::store_may() const {
  const unsigned owner = machines_[kStore].owner;
  const Slot& s = slots_[owner];
  const Step& store = step(kStore);
  if (!(s.done[kThird] && s.done[kExecute])) {
    const Machine& execute = machines_[kExecute];
    if (s.to_scratchpad || !execute.active || execute.owner != owner) return false;
    const Step& p = step(kExecute);
    const uint32_t last = store.col_end - 1;
    return p.first_j > last || (p.k + 1 == s.k && (p.j > last || (p.j == last && p.i > store.row)));
  }
  const bool inputs = s.done[kFirst] && s.done[kSecond];
  if (!s.addition) return !s.to_scratchpad || inputs;
  const auto past = [&](Phase phase, bool transpose) {
    if (s.done[phase]) return true;
    if (!machines_[phase].active || machines_[phase].owner != owner || transpose) return false;
    const Step& one = step(phase);
    return one.col > store.col || (one.col + blocks_ > store.col && one.row > store.row);
  };
  return past(kFirst, s.a_transpose) && past(kSecond, s.b_transpose);
}

// In an addition B goes on top of A.
bool TimedLoopWs::b_may() const {
  const unsigned owner = machines_[kSecond].owner;
  const Slot& s = slots_[owner];
  if (!s.addition || s.done[kFirst]) return true;
  if (!machines_[kFirst].active || machines_[kFirst].owner != owner || s.a_transpose || s.b_transpose) return false;
  const Step &a = step(kFirst), &b = step(kSecond);
  return a.col > b.col || (a.col == b.col && a.row > b.row);
}

// The next load: of the older loop; of one loop, what products need first.
TimedLoopWs::Phase TimedLoopWs::pick_load(bool b_ready) const {
  const Machine &a = machines_[kFirst], &b = machines_[kSecond], &d = machines_[kThird];
  uint32_t a_k = 0, a_i = 0, b_group = 0, b_k = 0, b_j = 0;
  if (a.active) {
    const Step& one = step(kFirst);
    const bool t = slots_[a.owner].a_transpose;
    a_k = t ? one.row : one.col;
    a_i = t ? one.col : one.row;
  }
  if (b.active) {
    const Step& one = step(kSecond);
    const bool t = slots_[b.owner].b_transpose;
    b_group = t ? one.first_row : one.col;
    b_k = t ? one.col : one.row;
    b_j = t ? one.row : one.col;
  }
  const bool b_before_a = a.owner != b.owner ? b.owner == head_
                          : slots_[b.owner].addition
                              ? true
                              : b_group == 0 && (b_k < a_k || (b_k == a_k && b_j == 0));
  const bool pick_b = b_ready && (!a.active || b_before_a);
  if (d.active) {
    const Step& one = step(kThird);
    const bool before_a = a.owner != d.owner ? d.owner == head_
                                             : one.col < blocks_ && (a_k != 0 || (one.col == 0 && one.row <= a_i));
    const bool before_b = b.owner != d.owner
                              ? d.owner == head_
                              : b_group > one.col || (one.col < b_group + blocks_ && (b_k != 0 || b_j > one.col));
    if (pick_b ? before_b : !a.active || before_a) return kThird;
  }
  return pick_b ? kSecond : kFirst;
}

const Command* TimedLoopWs::offered(const TimedCredits& credits) {
  chosen_ = kPhases;
  const Machine& execute = machines_[kExecute];
  if (machines_[kStore].active && credits.space(kStores) && store_may()) {
    chosen_ = kStore;
  } else if (execute.active && credits.space(kExecution) && ahead_of_product(step(kExecute), execute.owner)) {
    chosen_ = kExecute;
  } else if (credits.space(kLoads)) {
    const bool b_ready = machines_[kSecond].active && b_may();
    if (machines_[kFirst].active || b_ready || machines_[kThird].active) chosen_ = pick_load(b_ready);
  }
  return chosen_ == kPhases ? nullptr : &step(chosen_).command;
}

void TimedLoopWs::tick(bool gone) {
  std::array<bool, kPhases> starts{};
  for (size_t p = 0; p < kPhases; ++p) {
    Machine& machine = machines_[p];
    if (machine.active || machine.starts) continue;
    const unsigned slot = slots_[head_].done[p] ? 1 - head_ : head_;
    if (!may_start(static_cast<Phase>(p), slot)) continue;
    starts[p] = true;
    machine.owner = slot;
  }
  Slot& older = slots_[head_];
  const bool over = older.running && std::all_of(older.done.begin(), older.done.end(), [](bool one) { return one; });
  if (gone) {
    Machine& machine = machines_[chosen_];
    Slot& slot = slots_[machine.owner];
    if (++machine.at == slot.steps[chosen_].size()) {
      machine.active = false;
      slot.done[chosen_] = true;
    }
  }
  for (size_t p = 0; p < kPhases; ++p) {
    Machine& machine = machines_[p];
    if (machine.starts) {
      machine.active = true;
      machine.at = 0;
    }
    machine.starts = starts[p];
  }
  if (over) {
    older.running = false;
    head_ = 1 - head_;
  }
}

}  // namespace baco
