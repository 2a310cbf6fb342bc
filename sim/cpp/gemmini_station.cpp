#include "gemmini_station.h"

#include <algorithm>

namespace baco {

namespace {
constexpr uint64_t kAccumulatorBase = uint64_t{1} << 32;  // so that rows of both memories have one numbering
}

GemminiStation::GemminiStation(const Config& config, CommandLog& log)
    : dim_(config.dim),
      row_bits_(local_row_bits(config)),
      accumulator_rows_(static_cast<uint64_t>(config.accumulator_rows)),
      accumulator_banks_(static_cast<uint64_t>(config.accumulator_banks)),
      log_(log),
      size_{static_cast<unsigned>(config.load_entries), static_cast<unsigned>(config.execute_entries),
            static_cast<unsigned>(config.store_entries)},
      first_{0, size_[0], size_[0] + size_[1]},
      free_(size_) {
  for (unsigned kind = 0; kind < 3; ++kind) entries_[kind].resize(size_[kind]);
}

unsigned GemminiStation::class_of(const Command& command) {
  switch (command.funct) {
    case kConfig:
      return (command.rs1 & 3) == 0 ? 1 : (command.rs1 & 3) == 1 ? 0 : 2;
    case kMvin:
    case kMvin2:
    case kMvin3:
      return 0;
    case kMvout:
    case kMvoutScratchpad:
      return 2;
    default:
      return 1;
  }
}

GemminiStation::Range GemminiStation::range(uint64_t word, uint64_t rows) const {
  const LocalAddress at = LocalAddress::decode(static_cast<uint32_t>(word), row_bits_);
  if (at.garbage) return {};
  const uint64_t start = at.row + (at.accumulator ? kAccumulatorBase : 0);
  return {true, start, start + rows};
}

void GemminiStation::decode(Entry& entry) const {
  const uint64_t rs1 = entry.command.rs1, rs2 = entry.command.rs2;
  const auto blocks = [&](uint64_t cols) { return (cols + static_cast<uint64_t>(dim_) - 1) / static_cast<uint64_t>(dim_); };
  const uint64_t rows = bits(rs2, 63, 48), count = blocks(bits(rs2, 47, 32));
  switch (entry.command.funct) {
    case kConfig:
      entry.is_config = true;
      return;
    case kMvin:
    case kMvin2:
    case kMvin3: {
      const unsigned id = entry.command.funct == kMvin2 ? 1 : entry.command.funct == kMvin3 ? 2 : 0;
      entry.writes = true;
      entry.a = range(rs2, (std::max<uint64_t>(count, 1) - 1) * block_stride_[id] + rows);
      // copies of packed pixels lie below the row that is named
      if (entry.a.valid && entry.a.start < kAccumulatorBase) entry.a.start -= std::min(entry.a.start, repeats_[id]);
      return;
    }
    case kMvout:
    case kMvoutScratchpad:
      entry.a = range(rs2, (std::max<uint64_t>(count, 1) - 1) * static_cast<uint64_t>(dim_) + rows);
      if (pooling_ && entry.a.valid) {  // taken to read to the end of its bank
        const uint64_t bank = accumulator_rows_ / accumulator_banks_;
        entry.a.end = kAccumulatorBase + ((entry.a.start - kAccumulatorBase) / bank + 1) * bank;
      }
      return;
    case kPreload:
      entry.writes = true;
      entry.a = range(rs2, rows * stride_c_);
      entry.b = range(rs1, bits(rs1, 63, 48));
      return;
    default:
      entry.a = range(rs1, (transpose_a_ ? bits(rs1, 47, 32) : bits(rs1, 63, 48)) * stride_a_);
      entry.b = range(rs2, rows);
      return;
  }
}

void GemminiStation::remember(const Command& command) {
  if (command.funct != kConfig) return;
  const uint64_t rs1 = command.rs1;
  switch (class_of(command)) {
    case 0: {
      const unsigned id = std::min<unsigned>(2, static_cast<unsigned>(bits(rs1, 4, 3)));
      block_stride_[id] = bits(rs1, 31, 16);
      repeats_[id] = std::max<uint64_t>(bits(rs1, 15, 8), 1) - 1;
      return;
    }
    case 1:
      stride_a_ = bits(rs1, 31, 16);
      stride_c_ = bits(command.rs2, 63, 48);
      if (!bit(rs1, 7)) transpose_a_ = bit(rs1, 8);
      return;
    default:
      if ((rs1 & 3) == 2) pooling_ = bits(rs1, 5, 4) != 0;
  }
}

void GemminiStation::allocate(uint64_t cycle, const Command& command, Origin origin) {
  const unsigned kind = class_of(command);
  unsigned index = 0;
  while (entries_[kind][index].valid) ++index;
  Entry entry;
  entry.valid = true;
  entry.command = command;
  entry.origin = origin;
  entry.allocated = cycle;
  decode(entry);
  if (!entry.is_config)
    for (unsigned other = 0; other < 3; ++other) {
      if (other == kind) continue;
      for (unsigned i = 0; i < size_[other]; ++i) {
        const Entry& older = entries_[other][i];
        if (!older.valid) continue;
        const bool first = entry.a.overlaps(older.a), second = entry.b.overlaps(older.a);
        bool waits = false;
        if (kind == 0) waits = first || (other == 1 && entry.a.overlaps(older.b));
        if (kind == 1) waits = other == 0 ? first || second : entry.writes && first;
        if (kind == 2) waits = first && older.writes;
        if (waits) entry.waits |= uint64_t{1} << bit_of(other, i);
      }
    }
  remember(command);
  entries_[kind][index] = entry;
  unissued_[kind].push_back(index);
  --free_[kind];
  ++used_;
  log_.allocate(cycle, static_cast<Unit>(kind), index, command);
}

bool GemminiStation::can_issue(unsigned kind) const {
  return !unissued_[kind].empty() && entries_[kind][unissued_[kind].front()].waits == 0;
}

Issued GemminiStation::issue(uint64_t cycle, unsigned kind) {
  const unsigned index = unissued_[kind].front();
  unissued_[kind].pop_front();
  const Issued issued{entries_[kind][index].command, index};
  log_.issue(cycle, static_cast<Unit>(kind), index);
  if (entries_[kind][index].is_config && kind != 1) free_entry(cycle, kind, index);
  return issued;
}

void GemminiStation::free_entry(uint64_t cycle, unsigned kind, unsigned index) {
  Entry& entry = entries_[kind][index];
  entry.valid = false;
  const uint64_t gone = ~(uint64_t{1} << bit_of(kind, index));
  for (auto& entries : entries_)
    for (Entry& other : entries) other.waits &= gone;
  ++free_[kind];
  --used_;
  if (entry.origin != Origin::kProgram) --in_flight[static_cast<unsigned>(entry.origin)][kind];
  log_.done(cycle, static_cast<Unit>(kind), index);
}

void GemminiStation::tick(uint64_t cycle) {
  for (const unsigned kind : {1u, 0u, 2u}) {
    if (completions_[kind].empty()) continue;
    free_entry(cycle, kind, completions_[kind].front());
    completions_[kind].pop_front();
    return;
  }
}

bool GemminiStation::lone_preload() const {
  if (used_ != 1 || free_[1] == size_[1]) return false;
  return std::any_of(entries_[1].begin(), entries_[1].end(),
                     [](const Entry& e) { return e.valid && e.command.funct == kPreload; });
}

}  // namespace baco
