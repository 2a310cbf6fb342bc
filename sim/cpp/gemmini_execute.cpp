#include "gemmini_execute.h"

#include <algorithm>

namespace baco {

namespace {
constexpr uint64_t kReadCycles = 2;    // from the read of an operand's row to the array's input register
constexpr size_t kRowsOnTheWay = 6;    // rows between the reads and the array
constexpr size_t kHeads = 3;           // commands that the choice of a pass sees
constexpr unsigned kLeastRows = 4;     // of a pass: results of consecutive passes may go to one accumulator row
constexpr size_t kTags = 6;
}  // namespace

// Registers between rows and columns of the array, and one behind its output.
static uint64_t array_latency(const Config& config) {
  const uint64_t tiles = static_cast<uint64_t>(config.dim / config.tile_rows);
  return 2 * tiles + 1;
}

GemminiExecute::GemminiExecute(const Config& config, GemminiBanks& banks, GemminiStation& station)
    : dim_(static_cast<unsigned>(config.dim)),
      queue_size_(static_cast<size_t>(config.execute_queue)),
      latency_(array_latency(config)),
      both_dataflows_(config.ws && config.os),
      banks_(banks),
      station_(station),
      weight_stationary_(config.ws && !config.os) {}

bool GemminiExecute::results_pending() const {
  const auto reports = [](const Tag& tag) { return tag.reports; };
  return std::any_of(tags_.begin(), tags_.end(), reports) || std::any_of(coming_tags_.begin(), coming_tags_.end(), reports);
}

void GemminiExecute::tick() {
  leave();
  enter();
  if (pass_ == Pass::kNone) choose();
  if (pass_ != Pass::kNone) feed();
  unroll();
  ++now_;
}

// Weights that are transposed on their way take two passes more: one into the transposer, one that pushes them out.
void GemminiExecute::unroll() {
  if (unrolling_.empty() || unrolling_.front().ready > now_ || queue_.size() >= queue_size_) return;
  Queued head = unrolling_.front();
  const Command& command = head.issued.command;
  if (command.funct == kPreload && unrolls_transposed_) {
    if (unrolling_.size() < 2 || unrolling_[1].ready > now_) return;
    if (unrolling_[1].issued.command.funct == kComputePreloaded && unroll_state_ < 2) {
      Queued extra = unroll_state_ == 0 ? head : unrolling_[1];
      extra.reports = false;
      if (unroll_state_ == 0)
        extra.issued.command.rs2 |= kGarbageAddress;
      else
        extra.issued.command.funct = kComputeAccumulated;
      extra.ready = now_ + 1;
      queue_.push_back(extra);
      ++unroll_state_;
      return;
    }
    if (unroll_state_ == 2) head.issued.command.rs1 |= kGarbageAddress;
    unroll_state_ = 0;
  }
  if (command.funct == kConfig && !bit(command.rs1, 7))
    unrolls_transposed_ = (!both_dataflows_ ? weight_stationary_ : bit(command.rs1, 2)) && bit(command.rs1, 9);
  head.ready = now_ + 1;
  queue_.push_back(head);
  unrolling_.pop_front();
}

// Rows that leave the array, and one completion a cycle: a result's before that of commands whose rows are fed.
void GemminiExecute::leave() {
  bool completed = false;
  if (!leaving_.empty() && leaving_.front().cycle <= now_) {
    const Leaving row = leaving_.front();
    leaving_.pop_front();
    for (const Tag& tag : tags_) {
      if (tag.pass != row.pass || tag.at.garbage || row.row >= tag.rows) continue;
      const uint32_t at = tag.at.row + row.row;
      if (tag.at.accumulator)
        banks_.accumulator_used |= uint64_t{1} << banks_.accumulator_bank(at);
      else
        banks_.scratchpad_written |= uint64_t{1} << banks_.scratchpad_bank(at);
    }
    // after a change of dataflow two tags may be of one pass
    while (row.last && !tags_.empty() && tags_.front().pass <= row.pass) {
      if (tags_.front().reports) station_.complete(1, tags_.front().entry), completed = true;
      tags_.pop_front();
    }
  }
  if (completed || fed_.empty()) return;
  station_.complete(1, fed_.front());
  fed_.pop_front();
}

void GemminiExecute::enter() {
  if (rows_.empty() || rows_.front().ready > now_) return;
  const MeshRow row = rows_.front();
  if (row.first) {
    if (tags_.size() >= kTags) return;
    if (!coming_tags_.empty()) {  // a flush has none
      tags_.push_back(coming_tags_.front());
      coming_tags_.pop_front();
    }
  }
  rows_.pop_front();
  const unsigned index = row.first || leaving_.empty() || leaving_.back().pass != row.pass ? 0 : leaving_.back().row + 1;
  leaving_.push_back({now_ + latency_, row.pass, index, row.last});
}

void GemminiExecute::choose() {
  if (flushing_) {
    if (now_ < flush_until_) return;
    flushing_ = false;
  }
  const auto is = [&](size_t place, bool preload) {
    if (place >= queue_.size() || queue_[place].ready > now_) return false;
    const uint8_t funct = queue_[place].issued.command.funct;
    return preload ? funct == kPreload : funct == kComputePreloaded || funct == kComputeAccumulated;
  };
  // reads of what results in the array will write: start addresses are compared
  const auto hazard = [&](size_t first) {
    const auto same = [&](const Tag& tag) {
      if (tag.at.garbage) return false;
      const auto touches = [&](uint64_t word) {
        const LocalAddress at = banks_.local(word);
        return !at.garbage && at.accumulator == tag.at.accumulator && at.row == tag.at.row;
      };
      const Command& preload = queue_[first].issued.command;
      const Command& compute = queue_[first + 1].issued.command;
      return touches(preload.rs1) || touches(compute.rs1) || touches(compute.rs2);
    };
    return std::any_of(tags_.begin(), tags_.end(), same) || std::any_of(coming_tags_.begin(), coming_tags_.end(), same);
  };
  const bool any = !queue_.empty() && queue_.front().ready <= now_;
  const bool config = any && queue_.front().issued.command.funct == kConfig;
  if (config && !results_pending() && fed_.empty()) {
    const uint64_t rs1 = queue_.front().issued.command.rs1;
    stride_a_ = static_cast<unsigned>(bits(rs1, 31, 16));
    if (!bit(rs1, 7)) {
      if (both_dataflows_) weight_stationary_ = bit(rs1, 2);
      transpose_a_ = bit(rs1, 8);
      transpose_b_ = bit(rs1, 9);
    }
    fed_.push_back(queue_.front().issued.entry);
    queue_.pop_front();
    return;
  }
  if (is(0, true) && queue_.size() > 1 && queue_[1].ready <= now_ && !hazard(0)) return start(Pass::kPreload);
  if (is(0, false) && is(1, true) && queue_.size() > 2 && queue_[2].ready <= now_ && !hazard(1))
    return start(Pass::kComputeAndPreload);
  if (is(0, false)) return start(Pass::kCompute);
  if (results_pending() && rows_.empty() && (!weight_stationary_ || config)) {
    // rows of nothing push the results out
    flushing_ = true;
    flush_until_ = now_ + dim_ + 2;
    ++passes_;
    for (unsigned row = 0; row < dim_; ++row)
      rows_.push_back({now_ + 1 + row, row == 0, row + 1 == dim_, passes_});
  }
}

void GemminiExecute::start(Pass pass) {
  pass_ = pass;
  const bool os = !weight_stationary_;
  const bool a_turns = os != transpose_a_, b_turns = os && transpose_b_, d_turns = !os && transpose_b_;
  const size_t preload = pass == Pass::kComputeAndPreload ? 1 : 0;
  const size_t a_place = pass == Pass::kPreload ? 1 : a_turns ? 2 : 0;
  const size_t b_place = pass == Pass::kPreload ? 1 : b_turns ? 2 : 0;
  const auto operand = [&](size_t place, bool first) {
    if (place >= queue_.size()) return uint64_t{kGarbageAddress};
    const Command& command = queue_[place].issued.command;
    return first ? command.rs1 : command.rs2;
  };
  const auto set = [&](Feed& feed, uint64_t word, bool feeding, bool turned, unsigned stride, bool last_first) {
    feed = Feed{};
    feed.at = banks_.local(word);
    feed.feeding = feeding;
    feed.rows = static_cast<unsigned>(turned ? bits(word, 47, 32) : bits(word, 63, 48));
    feed.stride = stride;
    feed.last_first = last_first;
  };
  const bool alone = pass == Pass::kCompute;
  set(feeds_[0], operand(a_place, true), pass == Pass::kPreload ? a_turns : !alone || !a_turns, transpose_a_, stride_a_, false);
  set(feeds_[1], operand(b_place, false), pass == Pass::kPreload ? b_turns : !alone || !b_turns, b_turns, 1, false);
  set(feeds_[2], operand(preload, true), !alone, d_turns, 1, true);
  total_rows_ = dim_;
  const bool d_idle = feeds_[2].at.garbage || !feeds_[2].feeding;
  if (!os && d_idle && !a_turns && !b_turns && !d_turns) {
    const unsigned a = feeds_[0].at.garbage || !feeds_[0].feeding ? 1 : feeds_[0].rows;
    const unsigned b = feeds_[1].at.garbage || !feeds_[1].feeding ? 1 : feeds_[1].rows;
    total_rows_ = std::max({a, b, kLeastRows});
  }
  complete_rows_ = 0;
  ++passes_;
  tag_ = Tag{};
  tag_.pass = passes_ + (os ? 2 : 1);
  tag_.at.garbage = true;
  if (!alone) {
    const Queued& command = queue_[preload];
    tag_.at = banks_.local(command.issued.command.rs2);
    tag_.rows = static_cast<unsigned>(bits(command.issued.command.rs2, 63, 48));
    tag_.entry = command.issued.entry;
    tag_.reports = command.reports && !tag_.at.garbage;
  }
  tagged_ = false;
}

bool GemminiExecute::reads_bank(const Feed& feed, uint64_t& bank) const {
  if (!feed.feeding || feed.at.garbage || feed.at.accumulator) return false;
  const unsigned row = feed.last_first ? dim_ - 1 - feed.counter : feed.counter;
  if (row >= feed.rows) return false;  // a row of padding
  bank = uint64_t{1} << banks_.scratchpad_bank(feed.at.row + row * feed.stride);
  return true;
}

// One cycle of a pass: which operands advance by a row.
void GemminiExecute::feed() {
  if (rows_.size() >= kRowsOnTheWay) return;
  std::array<bool, 3> fires{};
  for (size_t i = 0; i < 3; ++i) {
    const Feed& feed = feeds_[i];
    bool waits = false;
    for (size_t j = 0; j < 3; ++j) {
      if (j == i) continue;
      const Feed& other = feeds_[j];
      const bool both = feed.feeding && other.feeding && !feed.at.garbage && !other.at.garbage;
      const unsigned row = feed.last_first ? dim_ - 1 - feed.counter : feed.counter * feed.stride;
      const unsigned other_row = other.last_first ? dim_ - 1 - other.counter : other.counter * other.stride;
      const bool same_bank = both && (feed.at.accumulator ? other.at.accumulator
                                                          : !other.at.accumulator &&
                                                                banks_.scratchpad_bank(feed.at.row + row) ==
                                                                    banks_.scratchpad_bank(other.at.row + other_row));
      const bool together = feed.started == other.started && feed.counter == other.counter;
      const bool ahead = feed.started && feed.counter == (other.counter + 1) % total_rows_;
      waits |= (same_bank && j < i && together) || ahead;
    }
    uint64_t bank;
    fires[i] = !waits;
    if (fires[i] && reads_bank(feed, bank)) fires[i] = !(banks_.scratchpad_written & bank);
  }
  bool done = true, any = false;
  for (size_t i = 0; i < 3; ++i) {
    done &= feeds_[i].counter == 0 || (feeds_[i].counter == total_rows_ - 1 && fires[i]);
    any |= feeds_[i].started;
  }
  done &= any;
  unsigned complete = total_rows_;
  for (size_t i = 0; i < 3; ++i) {
    Feed& feed = feeds_[i];
    uint64_t bank;
    if (fires[i]) {
      if (reads_bank(feed, bank)) banks_.scratchpad_read |= bank;
      feed.counter = (feed.counter + 1) % total_rows_;
      feed.started = true;
    }
    const unsigned rows = feed.counter ? feed.counter : feed.started ? total_rows_ : 0;
    complete = std::min(complete, rows);
  }
  if (done) complete = total_rows_;
  for (; complete_rows_ < complete; ++complete_rows_) {
    rows_.push_back({now_ + kReadCycles + 1, complete_rows_ == 0, complete_rows_ + 1 == total_rows_, passes_});
    if (!tagged_) coming_tags_.push_back(tag_), tagged_ = true;
  }
  if (done) finish();
}

void GemminiExecute::finish() {
  const auto fed = [&](const Queued& command) {
    if (command.reports) fed_.push_back(command.issued.entry);
  };
  if (pass_ == Pass::kPreload) {
    if (tag_.at.garbage) fed(queue_[0]);
    queue_.pop_front();
  } else {
    fed(queue_[0]);
    if (pass_ == Pass::kComputeAndPreload && tag_.at.garbage) fed(queue_[1]);
    queue_.pop_front();
    if (pass_ == Pass::kComputeAndPreload) queue_.pop_front();
  }
  pass_ = Pass::kNone;
}

}  // namespace baco
