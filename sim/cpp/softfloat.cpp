#include "softfloat.h"

namespace baco::softfloat {
namespace {

using u128 = unsigned __int128;

enum class Kind { kZero, kFinite, kInfinity, kNan };

// A finite value is (-1)^negative * significand * 2^(exponent - 63), with bit 63 of the significand set.
struct Number {
  Kind kind;
  bool negative;
  bool signalling;
  int exponent;
  uint64_t significand;
};

int leading_zeros(uint64_t x) { return __builtin_clzll(x); }

template <class F>
Number unpack(typename F::Bits a) {
  constexpr auto kFractionMask = (typename F::Bits{1} << F::kFraction) - 1;
  Number n{Kind::kFinite, (a & F::kSign) != 0, false, 0, 0};
  const auto fraction = a & kFractionMask;
  const int biased = static_cast<int>((a & F::kInfinity) >> F::kFraction);
  if (biased == 2 * F::kBias + 1) {
    n.kind = fraction == 0 ? Kind::kInfinity : Kind::kNan;
    n.signalling = fraction != 0 && (fraction >> (F::kFraction - 1)) == 0;
  } else if (biased == 0) {
    if (fraction == 0) {
      n.kind = Kind::kZero;
    } else {
      const int zeros = leading_zeros(fraction);
      n.significand = static_cast<uint64_t>(fraction) << zeros;
      n.exponent = 1 - F::kBias - F::kFraction + 63 - zeros;
    }
  } else {
    n.significand = static_cast<uint64_t>(fraction | (kFractionMask + 1)) << (63 - F::kFraction);
    n.exponent = biased - F::kBias;
  }
  return n;
}

// The upper 64 bits, with the lowest set if anything below was ("jamming"): enough to round correctly, because
// every format's last place is far above it.
uint64_t jam(u128 x) { return static_cast<uint64_t>(x >> 64) | (static_cast<uint64_t>(x) != 0); }

u128 shift_right_jam(u128 x, int distance) {
  if (distance == 0) return x;
  if (distance > 127) return x != 0;
  return x >> distance | ((x << (128 - distance)) != 0);
}

// Drops the low `shift` (1..64) bits of `significand`, rounding.
uint64_t round_off(uint64_t significand, int shift, bool negative, int rounding, bool& inexact) {
  const u128 wide = static_cast<u128>(significand) << (64 - shift);  // kept part above bit 64
  uint64_t kept = static_cast<uint64_t>(wide >> 64);
  const uint64_t dropped = static_cast<uint64_t>(wide);
  constexpr uint64_t kHalf = uint64_t{1} << 63;
  inexact = dropped != 0;
  bool up = false;
  switch (rounding) {
    case kNearestEven: up = dropped > kHalf || (dropped == kHalf && (kept & 1)); break;
    case kNearestAway: up = dropped >= kHalf; break;
    case kDown: up = inexact && negative; break;
    case kUp: up = inexact && !negative; break;
    default: break;
  }
  return kept + up;
}

template <class F>
typename F::Bits signed_bits(bool negative, typename F::Bits magnitude) {
  return magnitude | (negative ? F::kSign : 0);
}

// Rounds (-1)^negative * significand * 2^(exponent - 63), bit 63 of the significand set, its lowest bit jammed.
template <class F>
typename F::Bits round_pack(bool negative, int exponent, uint64_t significand, int rounding, uint32_t& flags) {
  using Bits = typename F::Bits;
  constexpr int kMinimum = 1 - F::kBias;
  constexpr int kShift = 63 - F::kFraction;
  bool inexact;
  if (exponent < kMinimum) {
    // Tiny unless rounding with an unbounded exponent would already reach the least normal number.
    uint64_t unbounded = round_off(significand, kShift, negative, rounding, inexact);
    const bool tiny = exponent < kMinimum - 1 || (unbounded >> (F::kFraction + 1)) == 0;
    const int extra = kMinimum - exponent;
    const int shift = kShift + extra;
    if (shift > 64) {
      significand = 1;  // far below half of the least subnormal
      unbounded = round_off(significand, 64, negative, rounding, inexact);
    } else {
      unbounded = round_off(significand, shift, negative, rounding, inexact);
    }
    if (inexact) flags |= tiny ? kInexact | kUnderflow : uint32_t{kInexact};
    return signed_bits<F>(negative, static_cast<Bits>(unbounded));  // a carry into the exponent is right
  }
  const uint64_t rounded = round_off(significand, kShift, negative, rounding, inexact);
  if (rounded >> (F::kFraction + 1)) ++exponent;  // carried to the next power of two: fraction bits are zero
  if (exponent > F::kBias) {
    flags |= kOverflow | kInexact;
    const bool infinite = rounding == kNearestEven || rounding == kNearestAway || rounding == (negative ? kDown : kUp);
    return signed_bits<F>(negative, infinite ? F::kInfinity : F::kInfinity - 1);
  }
  if (inexact) flags |= kInexact;
  const Bits fraction = static_cast<Bits>(rounded) & ((Bits{1} << F::kFraction) - 1);
  return signed_bits<F>(negative, static_cast<Bits>(exponent + F::kBias) << F::kFraction | fraction);
}

// As round_pack, for a 128-bit significand that is not zero; value = significand * 2^(exponent - 127).
template <class F>
typename F::Bits round_pack_wide(bool negative, int exponent, u128 significand, int rounding, uint32_t& flags) {
  const auto high = static_cast<uint64_t>(significand >> 64);
  const int zeros = high ? leading_zeros(high) : 64 + leading_zeros(static_cast<uint64_t>(significand));
  return round_pack<F>(negative, exponent - zeros, jam(significand << zeros), rounding, flags);
}

// The NaN result of an operation with a NaN operand.
template <class F>
typename F::Bits quiet(bool signalling, uint32_t& flags) {
  if (signalling) flags |= kInvalid;
  return F::kNan;
}

template <class F>
typename F::Bits invalid(uint32_t& flags) {
  flags |= kInvalid;
  return F::kNan;
}

// a + b for finite values whose significands fill 128 bits from the top (value = significand * 2^(exponent - 127)).
// Both have enough zero bits below that a shift long enough to lose any is also long enough to keep cancellation to
// one bit, so jamming is exact enough.
template <class F>
typename F::Bits add_wide(bool negative_a, int exponent_a, u128 a, bool negative_b, int exponent_b, u128 b,
                          int rounding, uint32_t& flags) {
  a >>= 1, ++exponent_a;  // headroom for the carry; both lowest bits are zero
  b >>= 1, ++exponent_b;
  const int exponent = exponent_a > exponent_b ? exponent_a : exponent_b;
  a = shift_right_jam(a, exponent - exponent_a);
  b = shift_right_jam(b, exponent - exponent_b);
  if (negative_a == negative_b) return round_pack_wide<F>(negative_a, exponent, a + b, rounding, flags);
  if (a == b) return signed_bits<F>(rounding == kDown, 0);
  return a > b ? round_pack_wide<F>(negative_a, exponent, a - b, rounding, flags)
               : round_pack_wide<F>(negative_b, exponent, b - a, rounding, flags);
}

u128 at_top(uint64_t significand) { return static_cast<u128>(significand) << 64; }

// The nearest integer to the magnitude of `n`, or false if it does not fit in 64 bits.
bool to_magnitude(const Number& n, int rounding, uint64_t& magnitude, bool& inexact) {
  inexact = false;
  magnitude = 0;
  if (n.kind == Kind::kZero) return true;
  if (n.exponent > 63) return false;
  if (n.exponent == 63) {
    magnitude = n.significand;
    return true;
  }
  const int shift = 63 - n.exponent;
  magnitude = shift > 64 ? round_off(1, 64, n.negative, rounding, inexact)
                         : round_off(n.significand, shift, n.negative, rounding, inexact);
  return true;  // no carry out of 64 bits: at least one bit was dropped
}

// Converts to an integer in [-negative_limit, positive_limit] (magnitudes).
uint64_t to_integer(const Number& n, int rounding, uint64_t negative_limit, uint64_t positive_limit, uint32_t& flags) {
  uint64_t magnitude;
  bool inexact;
  if (n.kind == Kind::kNan) {
    flags |= kInvalid;
    return positive_limit;
  }
  const uint64_t limit = n.negative ? negative_limit : positive_limit;
  if (n.kind == Kind::kInfinity || !to_magnitude(n, rounding, magnitude, inexact) || magnitude > limit) {
    flags |= kInvalid;
    magnitude = limit;
  } else if (inexact) {
    flags |= kInexact;
  }
  return n.negative ? 0 - magnitude : magnitude;
}

uint64_t integer_square_root(u128 x) {
  u128 root = 0;
  for (int bit = 63; bit >= 0; --bit) {
    const u128 trial = root | static_cast<u128>(1) << bit;
    if (trial * trial <= x) root = trial;
  }
  return static_cast<uint64_t>(root);
}

template <class F>
bool is_nan(typename F::Bits a) {
  return (a & ~F::kSign) > F::kInfinity;
}
template <class F>
bool is_signalling(typename F::Bits a) {
  return is_nan<F>(a) && !(a >> (F::kFraction - 1) & 1);
}

// a < b for numbers; `zeros_differ` orders -0 before +0.
template <class F>
bool ordered_less(typename F::Bits a, typename F::Bits b, bool zeros_differ) {
  if (!zeros_differ && ((a | b) & ~F::kSign) == 0) return false;
  const bool negative_a = (a & F::kSign) != 0, negative_b = (b & F::kSign) != 0;
  if (negative_a != negative_b) return negative_a;
  return negative_a ? b < a : a < b;
}

template <class F>
typename F::Bits select(typename F::Bits a, typename F::Bits b, bool want_less, uint32_t& flags) {
  if (is_signalling<F>(a) || is_signalling<F>(b)) flags |= kInvalid;
  if (is_nan<F>(a)) return is_nan<F>(b) ? F::kNan : b;
  if (is_nan<F>(b)) return a;
  return ordered_less<F>(a, b, true) == want_less ? a : b;
}

}  // namespace

template <class F>
typename F::Bits add(typename F::Bits bits_a, typename F::Bits bits_b, int rounding, uint32_t& flags) {
  const Number a = unpack<F>(bits_a), b = unpack<F>(bits_b);
  if (a.kind == Kind::kNan || b.kind == Kind::kNan) return quiet<F>(a.signalling || b.signalling, flags);
  if (a.kind == Kind::kInfinity) {
    if (b.kind == Kind::kInfinity && a.negative != b.negative) return invalid<F>(flags);
    return bits_a;
  }
  if (b.kind == Kind::kInfinity) return bits_b;
  if (a.kind == Kind::kZero) {
    if (b.kind != Kind::kZero || a.negative == b.negative) return bits_b;
    return signed_bits<F>(rounding == kDown, 0);
  }
  if (b.kind == Kind::kZero) return bits_a;
  return add_wide<F>(a.negative, a.exponent, at_top(a.significand), b.negative, b.exponent, at_top(b.significand),
                     rounding, flags);
}

template <class F>
typename F::Bits multiply(typename F::Bits bits_a, typename F::Bits bits_b, int rounding, uint32_t& flags) {
  const Number a = unpack<F>(bits_a), b = unpack<F>(bits_b);
  const bool negative = a.negative != b.negative;
  if (a.kind == Kind::kNan || b.kind == Kind::kNan) return quiet<F>(a.signalling || b.signalling, flags);
  if (a.kind == Kind::kInfinity || b.kind == Kind::kInfinity) {
    if (a.kind == Kind::kZero || b.kind == Kind::kZero) return invalid<F>(flags);
    return signed_bits<F>(negative, F::kInfinity);
  }
  if (a.kind == Kind::kZero || b.kind == Kind::kZero) return signed_bits<F>(negative, 0);
  return round_pack_wide<F>(negative, a.exponent + b.exponent + 1, static_cast<u128>(a.significand) * b.significand,
                            rounding, flags);
}

template <class F>
typename F::Bits multiply_add(typename F::Bits bits_a, typename F::Bits bits_b, typename F::Bits bits_c,
                              int rounding, uint32_t& flags) {
  const Number a = unpack<F>(bits_a), b = unpack<F>(bits_b), c = unpack<F>(bits_c);
  const bool negative = a.negative != b.negative;
  const bool infinite = a.kind == Kind::kInfinity || b.kind == Kind::kInfinity;
  const bool zero = a.kind == Kind::kZero || b.kind == Kind::kZero;
  if (infinite && zero) return invalid<F>(flags);  // even if c is a quiet NaN
  if (a.kind == Kind::kNan || b.kind == Kind::kNan || c.kind == Kind::kNan) {
    return quiet<F>(a.signalling || b.signalling || c.signalling, flags);
  }
  if (infinite) {
    if (c.kind == Kind::kInfinity && c.negative != negative) return invalid<F>(flags);
    return signed_bits<F>(negative, F::kInfinity);
  }
  if (c.kind == Kind::kInfinity) return bits_c;
  if (zero) {
    if (c.kind != Kind::kZero || c.negative == negative) return bits_c;
    return signed_bits<F>(rounding == kDown, 0);
  }
  const u128 product = static_cast<u128>(a.significand) * b.significand;
  const int exponent = a.exponent + b.exponent + 1;
  if (c.kind == Kind::kZero) return round_pack_wide<F>(negative, exponent, product, rounding, flags);
  return add_wide<F>(negative, exponent, product, c.negative, c.exponent, at_top(c.significand), rounding, flags);
}

template <class F>
typename F::Bits divide(typename F::Bits bits_a, typename F::Bits bits_b, int rounding, uint32_t& flags) {
  const Number a = unpack<F>(bits_a), b = unpack<F>(bits_b);
  const bool negative = a.negative != b.negative;
  if (a.kind == Kind::kNan || b.kind == Kind::kNan) return quiet<F>(a.signalling || b.signalling, flags);
  if (a.kind == Kind::kInfinity) {
    return b.kind == Kind::kInfinity ? invalid<F>(flags) : signed_bits<F>(negative, F::kInfinity);
  }
  if (b.kind == Kind::kInfinity) return signed_bits<F>(negative, 0);
  if (b.kind == Kind::kZero) {
    if (a.kind == Kind::kZero) return invalid<F>(flags);
    flags |= kDivideByZero;
    return signed_bits<F>(negative, F::kInfinity);
  }
  if (a.kind == Kind::kZero) return signed_bits<F>(negative, 0);
  const u128 numerator = static_cast<u128>(a.significand) << 63;
  const u128 quotient = numerator / b.significand;  // in (2^62, 2^64)
  const bool remainder = quotient * b.significand != numerator;
  return round_pack_wide<F>(negative, a.exponent - b.exponent, quotient << 64 | remainder, rounding, flags);
}

template <class F>
typename F::Bits square_root(typename F::Bits bits, int rounding, uint32_t& flags) {
  const Number a = unpack<F>(bits);
  if (a.kind == Kind::kNan) return quiet<F>(a.signalling, flags);
  if (a.kind == Kind::kZero) return bits;
  if (a.negative) return invalid<F>(flags);
  if (a.kind == Kind::kInfinity) return bits;
  // sqrt(s * 2^(e-63)) with the exponent made even; the root of a number in [2^126, 2^128) has bit 63 set
  const bool odd = (a.exponent & 1) != 0;
  const u128 radicand = static_cast<u128>(a.significand) << (odd ? 64 : 63);
  const uint64_t root = integer_square_root(radicand);
  const bool remainder = static_cast<u128>(root) * root != radicand;
  return round_pack<F>(false, (a.exponent - odd) / 2, root | remainder, rounding, flags);
}

template <class F>
typename F::Bits minimum(typename F::Bits a, typename F::Bits b, uint32_t& flags) {
  return select<F>(a, b, true, flags);
}
template <class F>
typename F::Bits maximum(typename F::Bits a, typename F::Bits b, uint32_t& flags) {
  return select<F>(a, b, false, flags);
}

template <class F>
bool equal(typename F::Bits a, typename F::Bits b, uint32_t& flags) {
  if (is_signalling<F>(a) || is_signalling<F>(b)) flags |= kInvalid;
  if (is_nan<F>(a) || is_nan<F>(b)) return false;
  return a == b || ((a | b) & ~F::kSign) == 0;
}
template <class F>
bool less(typename F::Bits a, typename F::Bits b, uint32_t& flags) {
  if (is_nan<F>(a) || is_nan<F>(b)) {
    flags |= kInvalid;
    return false;
  }
  return ordered_less<F>(a, b, false);
}
template <class F>
bool less_or_equal(typename F::Bits a, typename F::Bits b, uint32_t& flags) {
  if (is_nan<F>(a) || is_nan<F>(b)) {
    flags |= kInvalid;
    return false;
  }
  return !ordered_less<F>(b, a, false);
}

template <class F>
uint32_t classify(typename F::Bits a) {
  const Number n = unpack<F>(a);
  switch (n.kind) {
    case Kind::kNan: return n.signalling ? 1u << 8 : 1u << 9;
    case Kind::kInfinity: return n.negative ? 1u << 0 : 1u << 7;
    case Kind::kZero: return n.negative ? 1u << 3 : 1u << 4;
    default: break;
  }
  const bool subnormal = n.exponent < 1 - F::kBias;
  if (n.negative) return subnormal ? 1u << 2 : 1u << 1;
  return subnormal ? 1u << 5 : 1u << 6;
}

template <class F>
int32_t to_i32(typename F::Bits a, int rounding, uint32_t& flags) {
  return static_cast<int32_t>(to_integer(unpack<F>(a), rounding, 0x80000000u, 0x7fffffffu, flags));
}
template <class F>
uint32_t to_u32(typename F::Bits a, int rounding, uint32_t& flags) {
  return static_cast<uint32_t>(to_integer(unpack<F>(a), rounding, 0, 0xffffffffu, flags));
}
template <class F>
int64_t to_i64(typename F::Bits a, int rounding, uint32_t& flags) {
  return static_cast<int64_t>(to_integer(unpack<F>(a), rounding, uint64_t{1} << 63, ~uint64_t{0} >> 1, flags));
}
template <class F>
uint64_t to_u64(typename F::Bits a, int rounding, uint32_t& flags) {
  return to_integer(unpack<F>(a), rounding, 0, ~uint64_t{0}, flags);
}

template <class F>
typename F::Bits from_u64(uint64_t value, int rounding, uint32_t& flags) {
  if (value == 0) return 0;
  return round_pack_wide<F>(false, 63, at_top(value), rounding, flags);
}
template <class F>
typename F::Bits from_i64(int64_t value, int rounding, uint32_t& flags) {
  if (value >= 0) return from_u64<F>(static_cast<uint64_t>(value), rounding, flags);
  return round_pack_wide<F>(true, 63, at_top(0 - static_cast<uint64_t>(value)), rounding, flags);
}

namespace {
template <class From, class To>
typename To::Bits convert(typename From::Bits a, int rounding, uint32_t& flags) {
  const Number n = unpack<From>(a);
  switch (n.kind) {
    case Kind::kNan: return quiet<To>(n.signalling, flags);
    case Kind::kInfinity: return signed_bits<To>(n.negative, To::kInfinity);
    case Kind::kZero: return signed_bits<To>(n.negative, 0);
    default: return round_pack<To>(n.negative, n.exponent, n.significand, rounding, flags);
  }
}
}  // namespace

uint32_t narrow(uint64_t a, int rounding, uint32_t& flags) { return convert<Binary64, Binary32>(a, rounding, flags); }
uint64_t widen(uint32_t a, uint32_t& flags) { return convert<Binary32, Binary64>(a, kNearestEven, flags); }

#define BACO_INSTANTIATE(F)                                                                            \
  template F::Bits add<F>(F::Bits, F::Bits, int, uint32_t&);                                           \
  template F::Bits multiply<F>(F::Bits, F::Bits, int, uint32_t&);                                      \
  template F::Bits divide<F>(F::Bits, F::Bits, int, uint32_t&);                                        \
  template F::Bits square_root<F>(F::Bits, int, uint32_t&);                                            \
  template F::Bits multiply_add<F>(F::Bits, F::Bits, F::Bits, int, uint32_t&);                         \
  template F::Bits minimum<F>(F::Bits, F::Bits, uint32_t&);                                            \
  template F::Bits maximum<F>(F::Bits, F::Bits, uint32_t&);                                            \
  template bool equal<F>(F::Bits, F::Bits, uint32_t&);                                                 \
  template bool less<F>(F::Bits, F::Bits, uint32_t&);                                                  \
  template bool less_or_equal<F>(F::Bits, F::Bits, uint32_t&);                                         \
  template uint32_t classify<F>(F::Bits);                                                              \
  template int32_t to_i32<F>(F::Bits, int, uint32_t&);                                                 \
  template uint32_t to_u32<F>(F::Bits, int, uint32_t&);                                                \
  template int64_t to_i64<F>(F::Bits, int, uint32_t&);                                                 \
  template uint64_t to_u64<F>(F::Bits, int, uint32_t&);                                                \
  template F::Bits from_i64<F>(int64_t, int, uint32_t&);                                               \
  template F::Bits from_u64<F>(uint64_t, int, uint32_t&);
BACO_INSTANTIATE(Binary32)
BACO_INSTANTIATE(Binary64)
#undef BACO_INSTANTIATE

}  // namespace baco::softfloat
