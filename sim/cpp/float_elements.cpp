#include "float_elements.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace baco {

FloatElements::FloatElements(int input_format)
    : fraction_bits_(input_format == 2 ? 2 : 3),
      bias_(input_format == 2 ? 15 : 7),
      largest_(input_format == 2 ? 0x7b : 0x7e),
      nan_(input_format == 2 ? 0x7e : 0x7f) {
  for (int code = 0; code < 128; ++code) {
    const int exponent = code >> fraction_bits_, fraction = code & ((1 << fraction_bits_) - 1);
    float x = exponent == 0 ? std::ldexp(static_cast<float>(fraction), 1 - bias_ - fraction_bits_)
                            : std::ldexp(static_cast<float>(fraction + (1 << fraction_bits_)), exponent - bias_ - fraction_bits_);
    if (code > largest_)  // E5M2 has infinity first
      x = input_format == 2 && fraction == 0 ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
    numbers_[static_cast<size_t>(code)] = x;
    numbers_[static_cast<size_t>(code + 128)] = -x;
  }
}

uint8_t FloatElements::narrow(float x, bool relu, int power) const {
  if (x != x) return nan_;
  const bool negative = std::signbit(x);
  if (relu && negative) return 0;
  const uint8_t sign = negative ? 128 : 0;
  if (!std::isnormal(x) && !std::isinf(x)) return sign;
  const double size = std::ldexp(std::fabs(static_cast<double>(x)), power);
  if (size >= numbers_[largest_]) return sign | largest_;
  // in steps of the last bit of the fraction: a carry into the next power of two is the next exponent's first code
  const int least = 1 - bias_;
  const int exponent = std::max(std::ilogb(size), least);
  const int steps = static_cast<int>(std::nearbyint(std::ldexp(size, fraction_bits_ - exponent)));
  return static_cast<uint8_t>(sign | (((exponent - least) << fraction_bits_) + steps));
}

}  // namespace baco
