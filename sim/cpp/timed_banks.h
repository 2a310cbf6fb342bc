// Who gets which bank of the local memories in a cycle, as baco_scratchpad.v and baco_accumulator.v: units ask in the order of
// their priority. A scratchpad bank serves a read and a write a cycle; an accumulator bank a write, and a read beside it
// unless that adds to what is there.
#pragma once
#include <array>
#include <cstdint>

#include "config.h"
#include "fields.h"

namespace baco {

class TimedBanks {
 public:
  explicit TimedBanks(const Config& config)
      : scratchpad_bits_(ceil_log2(static_cast<uint64_t>(config.scratchpad_rows))),
        bank_bits_(ceil_log2(static_cast<uint64_t>(config.scratchpad_banks))),
        grouped_(config.scratchpad_banks >= 4 && !(config.scratchpad_rows & (config.scratchpad_rows - 1)) &&
                 config.scratchpad_rows / config.scratchpad_banks >= 4),
        accumulator_bank_bits_(ceil_log2(static_cast<uint64_t>(config.accumulator_banks))),
        dim_bits_(ceil_log2(static_cast<uint64_t>(config.dim))) {}

  bool read_scratchpad(uint32_t row) { return take(scratchpad_read_, scratchpad_bank(row)); }
  bool write_scratchpad(uint32_t row) { return take(scratchpad_written_, scratchpad_bank(row)); }
  bool write_accumulator(uint32_t row, bool accumulate) {
    const unsigned bank = accumulator_bank(row);
    if (!take(now_.banks, bank)) return false;
    now_.row[bank] = row;
    if (accumulate) added_ |= uint64_t{1} << bank;
    return true;
  }
  // After all writes of the cycle.
  bool read_accumulator(uint32_t row) const {
    const unsigned bank = accumulator_bank(row);
    const auto writes = [&](const Writes& cycle) { return cycle.banks >> bank & 1 && cycle.row[bank] == row; };
    return !(added_ >> bank & 1) && !writes(before_[0]) && !writes(before_[1]);
  }
  void tick() {
    if (before_[0].banks || before_[1].banks) before_[1] = before_[0];
    if (now_.banks || before_[0].banks) before_[0] = now_;
    scratchpad_read_ = scratchpad_written_ = now_.banks = added_ = 0;
  }

 private:
  // Rows written in a cycle, by bank.
  struct Writes {
    uint64_t banks = 0;
    std::array<uint32_t, 64> row{};
  };
  static bool take(uint64_t& taken, unsigned bank) {
    const uint64_t mask = uint64_t{1} << bank;
    if (taken & mask) return false;
    taken |= mask;
    return true;
  }
  unsigned scratchpad_bank(uint32_t row) const {
    if (!bank_bits_) return 0;
    if (!grouped_) return row & ((1u << bank_bits_) - 1);
    return (row >> (scratchpad_bits_ - 2) & 1) << (bank_bits_ - 1) | (row & ((1u << (bank_bits_ - 1)) - 1));
  }
  unsigned accumulator_bank(uint32_t row) const {
    return (row ^ row >> dim_bits_) & ((1u << accumulator_bank_bits_) - 1);
  }

  const int scratchpad_bits_, bank_bits_;
  const bool grouped_;
  const int accumulator_bank_bits_, dim_bits_;
  uint64_t scratchpad_read_ = 0, scratchpad_written_ = 0;
  uint64_t added_ = 0;
  Writes now_, before_[2];  // of this cycle and the two before, which are not in memory yet
};

}  // namespace baco
