#include "float_elements.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace baco {

namespace {

struct Format {
  int exponent_bits, fraction_bits;
  bool infinities;  // the largest exponent is that of infinity and NaN, else all ones is NaN
};
constexpr Format kFormats[] = {{0, 0, false}, {4, 3, false}, {5, 2, true}, {8, 7, true}};

}  // namespace

FloatElements::FloatElements(int input_format) {
  if (input_format == 0) return;
  const Format form = kFormats[input_format];
  fraction_bits_ = form.fraction_bits;
  bias_ = (1 << (form.exponent_bits - 1)) - 1;
  sign_ = 1u << (form.exponent_bits + form.fraction_bits);
  const unsigned infinity = sign_ - (1u << fraction_bits_);
  largest_ = form.infinities ? infinity - 1 : sign_ - 2;
  nan_ = form.infinities ? infinity + (1u << (fraction_bits_ - 1)) : sign_ - 1;
  numbers_.resize(2 * sign_);
  for (unsigned code = 0; code < sign_; ++code) {
    const int exponent = static_cast<int>(code >> fraction_bits_), fraction = static_cast<int>(code & ((1u << fraction_bits_) - 1));
    float x = exponent == 0 ? std::ldexp(static_cast<float>(fraction), 1 - bias_ - fraction_bits_)
                            : std::ldexp(static_cast<float>(fraction + (1 << fraction_bits_)), exponent - bias_ - fraction_bits_);
    if (code > largest_)
      x = form.infinities && fraction == 0 ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
    numbers_[code] = x;
    numbers_[code + sign_] = -x;
  }
}

unsigned FloatElements::narrow(float x, bool relu, int power) const {
  if (x != x) return nan_;
  const bool negative = std::signbit(x);
  if (relu && negative) return 0;
  const unsigned sign = negative ? sign_ : 0;
  if (x == 0 || (std::fpclassify(x) == FP_SUBNORMAL && sign_ == 0x80)) return sign;
  const double size = std::ldexp(std::fabs(static_cast<double>(x)), power);
  if (size >= numbers_[largest_]) return sign | largest_;
  // in steps of the last bit of the fraction: a carry into the next power of two is the next exponent's first code
  const int least = 1 - bias_;
  const int exponent = std::max(std::ilogb(size), least);
  const int steps = static_cast<int>(std::nearbyint(std::ldexp(size, fraction_bits_ - exponent)));
  return sign | static_cast<unsigned>(((exponent - least) << fraction_bits_) + steps);
}

unsigned FloatElements::scaled(float x, int power) const {
  const double size = std::ldexp(std::fabs(static_cast<double>(x)), power);
  return narrow(x, false, power) + (size > static_cast<double>(numbers_[largest_]) ? 1 : 0);
}

}  // namespace baco
