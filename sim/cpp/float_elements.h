// Elements of 8 bits in floating point (OFP8: E4M3, E5M2) and their float32 sums.
//
// Rounding is to the nearest, ties to even, everywhere, and as elsewhere in the functional model that is expected of the
// floating-point environment. A product of two elements is exact in float32, so it does not matter whether compilers fuse it.
#pragma once
#include <array>
#include <cstdint>
#include <cstring>

#include "numerics.h"

namespace baco {

class FloatElements {
 public:
  // input_format as in Config: 1 E4M3, 2 E5M2; with 0 nothing below is asked for.
  explicit FloatElements(int input_format);

  float widen(uint8_t code) const { return numbers_[code]; }
  // Code of the number nearest to x * 2^power; what is beyond the largest becomes that, NaN stays NaN, subnormal x count as 0.
  // `relu`: what is negative, -0 too, becomes 0.
  uint8_t narrow(float x, bool relu, int power = 0) const;
  // A number by which codes of larger numbers are larger.
  static int ordered(uint8_t code) { return code & 128 ? -1 - (code & 127) : code; }
  // Bits of a sum; there is one NaN.
  static uint32_t sum_bits(float x) {
    uint32_t word;
    std::memcpy(&word, &x, sizeof word);
    return x != x ? 0x7fc00000u : word;
  }
  // Sum of two sums, as bits.
  static uint32_t add(uint32_t x, uint32_t y) { return sum_bits(float_from_bits(x) + float_from_bits(y)); }

 private:
  int fraction_bits_, bias_;
  uint8_t largest_, nan_;  // codes
  std::array<float, 256> numbers_{};
};

}  // namespace baco
