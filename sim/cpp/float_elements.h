// Elements in floating point (OFP8: E4M3, E5M2; bfloat16) and their float32 sums.
//
// Rounding is to the nearest, ties to even, everywhere, and as elsewhere in the functional model that is expected of the
// floating-point environment. A product of two elements of 8 bits is exact in float32; of bfloat16 only one that is subnormal is rounded.
// So that is rounded too, products are not fused with sums.
#pragma once
#include <cstdint>
#include <cstring>
#include <vector>

#include "numerics.h"

namespace baco {

class FloatElements {
 public:
  // input_format as in Config: 1 E4M3, 2 E5M2, 3 bfloat16; with 0 nothing below is asked for.
  explicit FloatElements(int input_format);

  float widen(unsigned code) const { return numbers_[code]; }
  // Code of the number nearest to x * 2^power; what is beyond the largest becomes that, NaN stays NaN. Subnormal x count as 0
  // where elements have 8 bits.
  // `relu`: what is negative, -0 too, becomes 0.
  unsigned narrow(float x, bool relu, int power = 0) const;
  // Likewise, but what is beyond the largest is infinite: of formats that have infinities.
  unsigned scaled(float x, int power) const;
  // A number by which codes of larger numbers are larger.
  int ordered(unsigned code) const {
    const int size = static_cast<int>(code & (sign_ - 1));
    return code & sign_ ? -1 - size : size;
  }
  // Bits of a sum; there is one NaN.
  static uint32_t sum_bits(float x) {
    uint32_t word;
    std::memcpy(&word, &x, sizeof word);
    return x != x ? 0x7fc00000u : word;
  }
  // Sum of two sums, as bits.
  static uint32_t add(uint32_t x, uint32_t y) { return sum_bits(float_from_bits(x) + float_from_bits(y)); }

 private:
  int fraction_bits_ = 0, bias_ = 0;
  unsigned sign_ = 0, largest_ = 0, nan_ = 0;  // bit of the sign, codes
  std::vector<float> numbers_;                 // by code
};

}  // namespace baco
