// What the units of the original Gemmini do to the banks of its local memories in a cycle, as far as it delays others.
// Scratchpad banks have one port, writes win; accumulator banks refuse reads in cycles in which the array adds to them.
#pragma once
#include <cstdint>

#include "config.h"
#include "fields.h"

namespace baco {

class GemminiBanks {
 public:
  explicit GemminiBanks(const Config& config)
      : row_bits_(local_row_bits(config)),
        scratchpad_rows_(static_cast<uint32_t>(config.scratchpad_rows / config.scratchpad_banks)),
        accumulator_rows_(static_cast<uint32_t>(config.accumulator_rows / config.accumulator_banks)) {}

  unsigned scratchpad_bank(uint32_t row) const { return row / scratchpad_rows_; }
  unsigned accumulator_bank(uint32_t row) const { return row / accumulator_rows_; }
  LocalAddress local(uint64_t word) const { return LocalAddress::decode(static_cast<uint32_t>(word), row_bits_); }

  // Bits of banks, in the cycle under way.
  uint64_t scratchpad_written = 0, scratchpad_read = 0, accumulator_used = 0;
  void tick() { scratchpad_written = scratchpad_read = accumulator_used = 0; }

 private:
  int row_bits_;
  uint32_t scratchpad_rows_, accumulator_rows_;
};

}  // namespace baco
