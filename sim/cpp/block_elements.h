// Elements of blocks with a shared power of two in main memory (OCP Microscaling), which loads make bfloat16 of.
//
// A number is its element times 2^(power - 127): exact where that is a normal number of bfloat16, else the nearest subnormal one, ties
// to even; beyond the largest number it is infinite; it is NaN where the power is 255 or the element is NaN. Zeros keep their sign.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "config.h"
#include "fields.h"
#include "float_elements.h"

namespace baco {

enum class BlockElement : uint8_t { kNone, kE2M1, kE4M3, kE5M2, kInt8 };

// What a CONFIG_LD says that memory holds.
inline BlockElement block_element(const Config& config, uint64_t rs1) {
  const uint64_t format = config.block_weights ? bits(rs1, 7, 6) : 0;
  if (format == 1) return bit(rs1, 5) ? BlockElement::kE2M1 : BlockElement::kE4M3;
  return format == 2 ? BlockElement::kE5M2 : format == 3 ? BlockElement::kInt8 : BlockElement::kNone;
}

// Whether a load in such a state brings powers: its local address would accumulate, which the scratchpad does not.
inline bool brings_powers(BlockElement element, uint64_t rs2) { return element != BlockElement::kNone && bit(rs2, 30); }

// Bytes of main memory in a row of so many elements of blocks, or of powers.
inline uint64_t block_row_bytes(BlockElement element, bool powers, uint64_t cols) {
  return element == BlockElement::kE2M1 && !powers ? (cols + 1) / 2 : cols;
}

class BlockElements {
 public:
  // `numbers`: of bfloat16; with another format nothing below is asked for.
  explicit BlockElements(const FloatElements& numbers);

  // Code of bfloat16 of an element, given by its bits, times its block's power, given by its byte.
  unsigned number(BlockElement element, unsigned code, unsigned power) const;

 private:
  const FloatElements& numbers_;
  std::array<std::vector<float>, 5> elements_;  // by format and code
};

}  // namespace baco
