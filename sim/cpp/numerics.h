// Integer and float32 arithmetic of the accelerator (ISA specification, section 10).
//
// Every function assumes round-to-nearest-even in the floating-point environment and must not be compiled with
// -ffast-math: products are rounded to float32 before they are rounded to integers, as the hardware does.
#pragma once
#include <cstdint>
#include <cstring>

namespace baco {

constexpr uint32_t kFloatOne = 0x3f800000u;

inline float float_from_bits(uint32_t word) {
  float value;
  std::memcpy(&value, &word, sizeof value);
  return value;
}

// x times scale in float32, to the nearest integer (ties to even), limited to -limit..limit - 1; NaN becomes limit - 1.
inline int32_t scale_to_limits(int32_t x, float scale, int limit) {
  float product = static_cast<float>(x) * scale;
  const float high = static_cast<float>(limit - 1), low = static_cast<float>(-limit);
  // The bounds are integers, so clamping first changes nothing and makes the rounding below exact.
  product = product < high ? product : high;
  product = product > low ? product : low;
  constexpr float shifter = 12582912.0f;  // 1.5 * 2**23: adding it leaves no fraction bits
  return static_cast<int32_t>((product + shifter) - shifter);
}

// The same, saturated to int8.
inline int8_t scale_to_int8(int32_t x, float scale) { return static_cast<int8_t>(scale_to_limits(x, scale, 128)); }

// The same with saturation to int32; NaN becomes the maximum.
inline int32_t scale_to_int32(int32_t x, float scale) {
  float product = static_cast<float>(x) * scale;
  if (!(product < 2147483648.0f)) return INT32_MAX;
  if (product < -2147483648.0f) return INT32_MIN;
  constexpr double shifter = 6755399441055744.0;  // 1.5 * 2**52
  return static_cast<int32_t>((static_cast<double>(product) + shifter) - shifter);
}

// The low `width` bits of x, sign-extended.
inline int32_t wrap(int32_t x, int width) {
  int unused = 32 - width;
  return static_cast<int32_t>(static_cast<uint32_t>(x) << unused) >> unused;
}

// x / 2**shift to the nearest integer, ties to even; shift 0..31.
inline int32_t round_shift(int32_t x, int shift) {
  if (shift == 0) return x;
  int32_t quotient = x >> shift;
  bool guard = (x >> (shift - 1)) & 1;
  bool sticky = (static_cast<uint32_t>(x) & ((uint32_t{1} << (shift - 1)) - 1)) != 0;
  return quotient + static_cast<int32_t>(guard && (sticky || (quotient & 1)));
}

inline int32_t saturate(int32_t x, int width) {
  if (width == 32) return x;
  int32_t high = (int32_t{1} << (width - 1)) - 1;
  return x > high ? high : x < -high - 1 ? -high - 1 : x;
}

}  // namespace baco
