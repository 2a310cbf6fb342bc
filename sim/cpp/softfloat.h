// IEEE 754 binary32 and binary64 arithmetic in integers, with RISC-V's five rounding modes, exception flags and
// NaN rules (results are the canonical NaN, tininess is detected after rounding, conversions saturate).
//
// In integers rather than with the machine's floating-point environment: the same results on every machine, round
// to nearest with ties away from zero (which no common machine has), and nothing for a C++ optimiser to reorder.
#pragma once
#include <cstdint>

namespace baco::softfloat {

enum Rounding : int { kNearestEven = 0, kTowardZero = 1, kDown = 2, kUp = 3, kNearestAway = 4 };
enum Flag : uint32_t { kInexact = 1, kUnderflow = 2, kOverflow = 4, kDivideByZero = 8, kInvalid = 16 };

struct Binary32 {
  using Bits = uint32_t;
  static constexpr int kFraction = 23, kBias = 127;
  static constexpr Bits kSign = 0x80000000u, kInfinity = 0x7f800000u, kNan = 0x7fc00000u;
};
struct Binary64 {
  using Bits = uint64_t;
  static constexpr int kFraction = 52, kBias = 1023;
  static constexpr Bits kSign = 0x8000000000000000u, kInfinity = 0x7ff0000000000000u, kNan = 0x7ff8000000000000u;
};

// All operations take and return bit patterns and OR what they raise into `flags`. Defined for Binary32 and Binary64.
template <class F> typename F::Bits add(typename F::Bits a, typename F::Bits b, int rounding, uint32_t& flags);
template <class F> typename F::Bits multiply(typename F::Bits a, typename F::Bits b, int rounding, uint32_t& flags);
template <class F> typename F::Bits divide(typename F::Bits a, typename F::Bits b, int rounding, uint32_t& flags);
template <class F> typename F::Bits square_root(typename F::Bits a, int rounding, uint32_t& flags);
// a * b + c, rounded once.
template <class F>
typename F::Bits multiply_add(typename F::Bits a, typename F::Bits b, typename F::Bits c, int rounding,
                              uint32_t& flags);

// minimumNumber and maximumNumber of IEEE 754-2019: a number wins over a NaN, -0 is less than +0.
template <class F> typename F::Bits minimum(typename F::Bits a, typename F::Bits b, uint32_t& flags);
template <class F> typename F::Bits maximum(typename F::Bits a, typename F::Bits b, uint32_t& flags);
template <class F> bool equal(typename F::Bits a, typename F::Bits b, uint32_t& flags);          // quiet
template <class F> bool less(typename F::Bits a, typename F::Bits b, uint32_t& flags);           // signalling
template <class F> bool less_or_equal(typename F::Bits a, typename F::Bits b, uint32_t& flags);  // signalling
template <class F> uint32_t classify(typename F::Bits a);  // one of ten bits, as fclass

// To integers: out of range and NaN give the nearest limit (NaN the greatest) and only kInvalid.
template <class F> int32_t to_i32(typename F::Bits a, int rounding, uint32_t& flags);
template <class F> uint32_t to_u32(typename F::Bits a, int rounding, uint32_t& flags);
template <class F> int64_t to_i64(typename F::Bits a, int rounding, uint32_t& flags);
template <class F> uint64_t to_u64(typename F::Bits a, int rounding, uint32_t& flags);
template <class F> typename F::Bits from_i64(int64_t value, int rounding, uint32_t& flags);
template <class F> typename F::Bits from_u64(uint64_t value, int rounding, uint32_t& flags);

uint32_t narrow(uint64_t a, int rounding, uint32_t& flags);  // binary64 to binary32
uint64_t widen(uint32_t a, uint32_t& flags);                 // binary32 to binary64

}  // namespace baco::softfloat
