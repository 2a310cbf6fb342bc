#include "memory_use.h"

#include <algorithm>

#include "fields.h"

namespace baco {

namespace {
constexpr uint32_t kWasRead = 1, kWritten = 2;
constexpr int kWriterShift = 2;
}  // namespace

MemoryUse::MemoryUse(const Config& config) : config_(config), row_bits_(local_row_bits(config)), element_bytes_(static_cast<uint64_t>(config.element_bytes())) {}

void MemoryUse::follow(const Command& command, const Visit& visit) {
  switch (command.funct) {
    case kConfig:
      return configure(command.rs1, command.rs2);
    case kMvin:
      return load(loads_[0], command, visit);
    case kMvin2:
      return load(loads_[1], command, visit);
    case kMvin3:
      return load(loads_[2], command, visit);
    case kMvout:
      return store(command, visit);
    default:
      return;
  }
}

void MemoryUse::configure(uint64_t rs1, uint64_t rs2) {
  if ((rs1 & 3) == 1 && bits(rs1, 4, 3) < 3) loads_[bits(rs1, 4, 3)] = {rs2, bit(rs1, 2), config_.packed_weights && bit(rs1, 5), block_element(config_, rs1)};
  if ((rs1 & 3) != 2) return;
  store_.stride = bits(rs2, 31, 0);
  store_.mode = config_.max_pool && bits(rs1, 5, 4) ? Store::kPooled : bits(rs1, 7, 6) ? Store::kGathered : Store::kRows;
  if (store_.mode == Store::kRows) return;
  const bool pooled = store_.mode == Store::kPooled;
  store_.out_dim = bits(rs1, 31, 24);
  store_.rows = pooled ? bits(rs1, 39, 32) : bits(rs1, 55, 48);
  store_.cols = pooled ? bits(rs1, 47, 40) : bits(rs1, 63, 56);
}

void MemoryUse::load(const Load& state, const Command& command, const Visit& visit) const {
  if (command.rs1 == 0) return;
  const bool wide = LocalAddress::decode(static_cast<uint32_t>(command.rs2), row_bits_).accumulator && !state.shrink;
  const bool blocked = state.block_element != BlockElement::kNone, powers = brings_powers(state.block_element, command.rs2);
  const uint64_t cols = bits(command.rs2, 47, 32);
  const uint64_t bytes = wide ? 4 * cols : blocked ? block_row_bytes(state.block_element, powers, cols)
                         : state.packed ? (cols + 1) / 2 : cols * element_bytes_;
  const uint64_t rows = state.stride == 0 ? 1 : bits(command.rs2, 63, 48);
  for (uint64_t r = 0; r < rows; ++r) visit((command.rs1 + r * state.stride) & kAddressMask, bytes, false);
}

void MemoryUse::store(const Command& command, const Visit& visit) const {
  const LocalAddress from = LocalAddress::decode(static_cast<uint32_t>(command.rs2), row_bits_);
  if (from.makes_statistics(config_)) return;
  const uint64_t bytes = bits(command.rs2, 47, 32) * (from.accumulator && from.read_full ? 4 : element_bytes_);
  const bool plain = store_.mode == Store::kRows;
  const uint64_t rows = plain ? bits(command.rs2, 63, 48) : store_.rows, cols = plain ? 1 : store_.cols;
  const uint64_t out_dim = plain ? 1 : store_.out_dim;
  for (uint64_t r = 0; r < rows; ++r)
    for (uint64_t c = 0; c < cols; ++c)
      visit((command.rs1 + (r * out_dim + c) * store_.stride) & kAddressMask, bytes, true);
}

Races::Races(const Config& config, const Memory& memory)
    : use_(config), base_(memory.base()), touched_(memory.size()) {}

void Races::follow(const Command& primitive, uint32_t convolution) {
  use_.follow(primitive, [&](uint64_t address, uint64_t bytes, bool write) {
    const uint64_t offset = address - base_;
    if (offset >= touched_.size() || bytes > touched_.size() - offset) return;  // refused by others
    for (uint32_t* at = &touched_[offset]; bytes; ++at, --bytes) {
      if (!write) {
        found_ |= (*at & kWritten) != 0;
        *at |= kWasRead;
        continue;
      }
      found_ |= (*at & kWasRead) != 0 || (convolution != 0 && *at >> kWriterShift == convolution);
      *at = (*at & kWasRead) | kWritten | convolution << kWriterShift;
    }
  });
}

void Races::fence() { std::fill(touched_.begin(), touched_.end(), uint32_t{0}); }

}  // namespace baco
