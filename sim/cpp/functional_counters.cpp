#include "functional_counters.h"

#include "fields.h"

namespace baco {

namespace {

enum : unsigned { kLoad = 1, kStore = 2, kExecute = 4, kOther = 8, kAny = 15 };

unsigned unit_of(const Command& command) {
  switch (command.funct) {
    case kMvin:
    case kMvin2:
    case kMvin3:
      return kLoad;
    case kMvout:
    case kMvoutScratchpad:
      return kStore;
    case kPreload:
    case kComputePreloaded:
    case kComputeAccumulated:
      return kExecute;
    default:
      return kOther;
  }
}

// Whose work raises an event (microarchitecture specification, section 12).
unsigned units_of(unsigned event, bool external) {
  if (external) switch (event) {
      case 1:
      case 6:
        return kLoad;
      case 2:
      case 7:
        return kStore;
      case 3:
        return kExecute;
      default:
        return 0;
    }
  if (event == 1 || (event >= 8 && event <= 10) || (event >= 18 && event <= 20)) return kLoad;
  if (event == 2 || (event >= 11 && event <= 14) || (event >= 21 && event <= 23)) return kStore;
  if (event == 3 || (event >= 24 && event <= 37)) return kExecute;
  const bool not_built = (event >= 15 && event <= 17) || (event >= 38 && event <= 40);
  return event == 0 || event > 44 || not_built ? 0 : kAny;
}

}  // namespace

void FunctionalCounters::work(const Command& command) {
  const unsigned unit = unit_of(command);
  for (Counter& counter : counters_) {
    if (!(units_of(counter.event, counter.external) & unit)) continue;
    if (counter.begin == kNever) counter.begin = time_;
    ++counter.commands;
  }
}

uint64_t FunctionalCounters::value(const Counter& counter) const {
  const uint64_t since = counter.begin == kNever ? 0 : time_ - counter.begin;
  if (!counter.external) return since;
  uint64_t shown = since;  // sums of requests in flight
  if (counter.event >= 1 && counter.event <= 3) shown = counter.commands;
  if (counter.event == 4) shown = bytes_read_ - bytes_read_at_reset_;
  if (counter.event == 5) shown = bytes_written_ - bytes_written_at_reset_;
  return static_cast<uint32_t>(shown);
}

uint64_t FunctionalCounters::operate(uint64_t rs1, uint64_t bytes_read, uint64_t bytes_written) {
  bytes_read_ = bytes_read;
  bytes_written_ = bytes_written;
  const size_t index = counters_.size() > 8 ? bits(rs1, 9, 4) : bits(rs1, 6, 4);
  uint64_t result = 0;
  if (index < counters_.size()) result = snapshot_mode_ ? counters_[index].snapshot : value(counters_[index]);
  if (bit(rs1, 0)) {
    for (Counter& c : counters_) c = {c.event, c.external};
    bytes_read_at_reset_ = bytes_read;
    bytes_written_at_reset_ = bytes_written;
  } else if (bit(rs1, 2) && !bit(rs1, 1)) {
    for (Counter& c : counters_) c.snapshot = value(c);
  }
  snapshot_mode_ = bit(rs1, 0) || bit(rs1, 1) ? false : snapshot_mode_ || bit(rs1, 2);
  if (bit(rs1, 3) && index < counters_.size()) {
    Counter configured;
    configured.event = static_cast<unsigned>(bits(rs1, 17, 12));
    configured.external = bit(rs1, 31);
    configured.snapshot = counters_[index].snapshot;
    counters_[index] = configured;
  }
  return result;
}

}  // namespace baco
