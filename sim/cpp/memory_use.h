// Which bytes of main memory loads and stores touch: from the commands alone, as they come out of the unrollers.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "command.h"
#include "block_elements.h"
#include "config.h"
#include "memory.h"

namespace baco {

// Follows primitive commands in program order; what is illegal must have been sorted out.
class MemoryUse {
 public:
  // `bytes` bytes from `address` on, read or written.
  using Visit = std::function<void(uint64_t address, uint64_t bytes, bool write)>;

  explicit MemoryUse(const Config& config);
  // Visits every row of main memory that the command touches (a pixel, where stores pool or gather).
  void follow(const Command& command, const Visit& visit);

 private:
  struct Load {
    uint64_t stride = 0;
    bool shrink = false, packed = false;
    BlockElement block_element = BlockElement::kNone;
  };
  struct Store {
    enum { kRows, kPooled, kGathered } mode = kRows;
    uint64_t stride = 0, out_dim = 0, rows = 0, cols = 0;  // results in memory, when not in mode kRows
  };

  void configure(uint64_t rs1, uint64_t rs2);
  void load(const Load& state, const Command& command, const Visit& visit) const;
  void store(const Command& command, const Visit& visit) const;

  const Config config_;
  const int row_bits_;
  const uint64_t element_bytes_;
  std::array<Load, 3> loads_;
  Store store_;
};

// Finds races: bytes that are touched twice between two fences in an order that nothing defines (ISA specification,
// section 9). Reads and writes are not ordered; two writes keep their order here, but for those of one convolution, whose
// unroller takes pixels and channels in another order than the specification lists them.
class Races {
 public:
  Races(const Config& config, const Memory& memory);
  // `convolution`: number of the LOOP_CONV_WS that the command is a part of, 0 when it is of none.
  void follow(const Command& primitive, uint32_t convolution);
  void fence();
  bool found() const { return found_; }

 private:
  MemoryUse use_;
  const uint64_t base_;
  std::vector<uint32_t> touched_;  // by byte since the last fence: kWasRead, kWritten, above them who wrote it last
  bool found_ = false;
};

}  // namespace baco
