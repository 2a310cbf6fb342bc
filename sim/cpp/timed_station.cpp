#include "timed_station.h"

#include <algorithm>

namespace baco {

TimedStation::TimedStation(const Config& config, CommandLog& log)
    : config_(config), row_bits_(local_row_bits(config)), log_(log) {
  rings_[kLoads].entries.resize(static_cast<size_t>(config.load_entries));
  rings_[kExecution].entries.resize(static_cast<size_t>(config.execute_entries));
  rings_[kStores].entries.resize(static_cast<size_t>(config.store_entries));
  os_ = !config.ws;
}

unsigned TimedStation::class_of(const Command& command) {
  switch (command.funct) {
    case kConfig:
      return (command.rs1 & 3) == 0 ? kExecution : (command.rs1 & 3) == 1 ? kLoads : kStores;
    case kMvin:
    case kMvin2:
    case kMvin3:
      return kLoads;
    case kPreload:
    case kComputePreloaded:
    case kComputeAccumulated:
      return kExecution;
    default:
      return kStores;
  }
}

std::array<TimedStation::Range, 2> TimedStation::ranges_of(const Command& command) const {
  std::array<Range, 2> found;
  const uint64_t rs1 = command.rs1, rs2 = command.rs2, dim = static_cast<uint64_t>(config_.dim);
  const Operand one = Operand::decode(rs1, row_bits_), two = Operand::decode(rs2, row_bits_);
  const uint64_t rows = bits(rs2, 63, 48), cols = bits(rs2, 47, 32), blocks = (cols + dim - 1) / dim;
  const auto named = [](const LocalAddress& at, uint64_t start, uint64_t past, bool write) {
    return Range{true, at.accumulator, write, start, past};
  };
  switch (command.funct) {
    case kMvin:
    case kMvin2:
    case kMvin3: {
      const size_t state = command.funct == kMvin2 ? 1 : command.funct == kMvin3 ? 2 : 0;
      const uint64_t below = config_.first_layer && repeats_[state] > 1 ? repeats_[state] - 1 : 0;
      const uint64_t first = two.at.row;
      found[0] = named(two.at, first > below ? first - below : 0, first + (blocks - 1) * block_stride_[state] + rows, true);
      break;
    }
    case kMvout:
      found[0] = named(two.at, two.at.row, two.at.row + (gathered_ ? tile_rows_ : (blocks - 1) * dim + rows), false);
      break;
    case kMvoutScratchpad:
      found[0] = named(two.at, two.at.row, two.at.row + (blocks - 1) * dim + rows, false);
      found[1] = named(one.at, one.at.row, one.at.row + (blocks - 1) * dim + (rows - 1) * bits(rs1, 63, 32) + 1, true);
      found[1].accumulator = false;
      break;
    case kPreload: {
      const uint64_t stored = static_cast<uint64_t>(!os_ && transpose_b_ ? one.cols : one.rows);
      if (!one.at.garbage && one.rows && one.cols) found[0] = named(one.at, one.at.row, one.at.row + stored, false);
      if (!two.at.garbage && two.rows && two.cols)
        found[1] = named(two.at, two.at.row, two.at.row + static_cast<uint64_t>(two.rows - 1) * stride_c_ + 1, true);
      break;
    }
    case kComputePreloaded:
    case kComputeAccumulated: {
      const uint64_t a_rows = static_cast<uint64_t>(transpose_a_ ? one.cols : one.rows);
      const uint64_t b_rows = static_cast<uint64_t>(os_ && transpose_b_ ? two.cols : two.rows);
      const bool built = config_.preload_d || !config_.ws || config_.os;
      if (!one.at.garbage && one.rows && one.cols)
        found[0] = named(one.at, one.at.row, one.at.row + (a_rows - 1) * stride_a_ + 1, false);
      if (!two.at.garbage && two.rows && two.cols && (os_ || built))
        found[1] = named(two.at, two.at.row, two.at.row + b_rows, false);
      break;
    }
    default:
      break;
  }
  return found;
}

void TimedStation::remember(const Command& command) {
  const uint64_t rs1 = command.rs1;
  if (command.funct == kPreload) pending_ = true;
  if (command.funct == kComputePreloaded || command.funct == kComputeAccumulated) pending_ = false;
  if (command.funct != kConfig) return;
  switch (rs1 & 3) {
    case 0:
      stride_a_ = bits(rs1, 31, 16);
      stride_c_ = bits(command.rs2, 63, 48);
      if (bit(rs1, 7)) return;
      os_ = config_.ws && config_.os ? !bit(rs1, 2) : !config_.ws;
      transpose_a_ = bit(rs1, 8);
      transpose_b_ = bit(rs1, 9);
      return;
    case 1: {
      const size_t state = std::min<size_t>(2, bits(rs1, 4, 3));
      block_stride_[state] = bits(rs1, 31, 16);
      repeats_[state] = bits(rs1, 15, 8);
      return;
    }
    case 2:
      gathered_ = (config_.max_pool && bits(rs1, 5, 4)) || bits(rs1, 7, 6);
      if (gathered_) tile_rows_ = bits(rs1, 55, 48) * bits(rs1, 63, 56);
      return;
    default:
      return;
  }
}

void TimedStation::issue(uint64_t cycle, unsigned kind) {
  Ring& ring = rings_[kind];
  log_.issue(cycle, static_cast<Unit>(kind), ring.head);
  ring.head = ring.head + 1 == ring.entries.size() ? 0 : ring.head + 1;
  --ring.waiting;
}

void TimedStation::complete(uint64_t cycle, unsigned kind, unsigned entry) {
  rings_[kind].entries[entry].used = false;
  --rings_[kind].used;
  const uint64_t left = ~(uint64_t{1} << entry);
  for (Ring& ring : rings_)
    for (Entry& other : ring.entries) other.waits[kind] &= left;
  log_.done(cycle, static_cast<Unit>(kind), entry);
}

// baco_in_place.v: how long a product is looked at whose result may overwrite operands that are still to be read.
uint64_t TimedStation::cycles_of_a_look(const Command& command) const {
  if (os_ || !pending_ || (command.funct != kComputePreloaded && command.funct != kComputeAccumulated)) return 0;
  const Entry& preload = rings_[kExecution].entries[last_execute_];
  const Range& result = preload.ranges[1];
  if (!result.valid || result.accumulator) return 0;
  const uint64_t result_rows = bits(preload.command.command.rs2, 63, 48);
  const std::array<Range, 2> operands = ranges_of(command);
  const std::array<uint64_t, 2> rows{bits(command.rs1, 63, 48), bits(command.rs2, 63, 48)};
  uint64_t longest = 0;
  for (size_t n = 0; n < 2; ++n) {
    const uint64_t most = std::min(rows[n], result_rows), stride = n == 0 ? stride_a_ : 1;
    const bool behind = result.start <= operands[n].start && stride_c_ <= stride && stride != 0;
    if (!operands[n].meets(result) || (n == 0 && transpose_a_) || behind || most < 2) continue;
    uint64_t i = 0, j = stride == 0 ? most - 1 : 0, to = result.start, from = operands[n].start, cycles = 2;
    while (i != most && j != most && !(to == from && j > i)) {
      const bool rises = to <= from, follows = from <= to;
      if (rises) to += stride_c_, ++i;
      if (follows) from += stride, ++j;
      ++cycles;
    }
    longest = std::max(longest, cycles);
  }
  return longest;
}

bool TimedStation::settled(const Command& command) {
  if (looked_ >= cycles_of_a_look(command)) return true;
  ++looked_;
  return false;
}

void TimedStation::allocate(uint64_t cycle, const Command& command) {
  const unsigned kind = class_of(command);
  Ring& ring = rings_[kind];
  Entry& entry = ring.entries[ring.enter];
  entry.command = {command, ring.enter};
  entry.ranges = ranges_of(command);
  entry.waits = {};
  if (entry.ranges[0].valid || entry.ranges[1].valid)
    for (unsigned other = 0; other < 3; ++other)
      for (size_t e = 0; e < rings_[other].entries.size(); ++e) {
        const Entry& older = rings_[other].entries[e];
        if (!older.used || (pending_ && kind == kExecution && other == kind && e == last_execute_)) continue;  // its own PRELOAD
        for (const Range& mine : entry.ranges)
          for (const Range& theirs : older.ranges)
            if (mine.meets(theirs) &&
                (other != kind ? mine.write || theirs.write
                               // of one class: only what reads the scratchpad after a write
                               : theirs.write && !mine.write && !mine.accumulator && kind != kLoads))
              entry.waits[other] |= uint64_t{1} << e;
      }
  entry.used = true;
  if (kind == kExecution) last_execute_ = ring.enter;
  log_.allocate(cycle, static_cast<Unit>(kind), ring.enter, command);
  ring.enter = ring.enter + 1 == ring.entries.size() ? 0 : ring.enter + 1;
  ++ring.used;
  ++ring.waiting;
  remember(command);
  looked_ = 0;
}

void TimedStation::tick() {
  for (unsigned kind = 0; kind < 3; ++kind) {
    const Ring& ring = rings_[kind];
    space_[kind] = !ring.entries[ring.enter].used;
    const auto& waits = ring.entries[ring.head].waits;
    offers_[kind] = ring.waiting && !(waits[0] | waits[1] | waits[2]);
  }
}

bool TimedStation::busy() const {
  const Ring& execution = rings_[kExecution];
  const unsigned used = rings_[kLoads].used + execution.used + rings_[kStores].used;
  if (used != 1 || execution.used != 1) return used > 0;
  const Entry& last = execution.entries[last_execute_];
  return !(last.used && last.command.command.funct == kPreload);
}

}  // namespace baco
