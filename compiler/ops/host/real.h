// Functions of one element, or two, of real numbers: each result rounded once from float64 operations (of two numbers, float32) that
// compiler/ops/elementary.py does in the same order.
#pragma once
#include "host.h"

static inline double as_double(int64_t bits) {
  double value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

static inline int64_t bits_of(double x) {
  int64_t bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  return bits;
}

#define WHOLE(name, mode)                                        \
  static inline double name(double x) {                          \
    int64_t n;                                                   \
    if (!(__builtin_fabs(x) < 4503599627370496.0)) return x;     \
    __asm__("fcvt.l.d %0, %1, " mode : "=r"(n) : "f"(x));        \
    return (double)n;                                            \
  }
WHOLE(down, "rdn")
WHOLE(up, "rup")
WHOLE(nearest, "rne")
WHOLE(cut, "rtz")

static inline double root(double x) {
  double y;
  __asm__("fsqrt.d %0, %1" : "=f"(y) : "f"(x));
  return y;
}

#define HORNER(total, table, x)                                              \
  double total = table[sizeof table / sizeof *table - 1];                    \
  for (int64_t h_ = (int64_t)(sizeof table / sizeof *table) - 2; h_ >= 0; --h_) total = total * (x) + table[h_]

static const double EXP[] = {1.0, 1.0, 1 / 2.0, 1 / 6.0, 1 / 24.0, 1 / 120.0, 1 / 720.0, 1 / 5040.0, 1 / 40320.0,
                             1 / 362880.0, 1 / 3628800.0, 1 / 39916800.0, 1 / 479001600.0, 1 / 6227020800.0};
static const double LOG[] = {1.0, 1 / 3.0, 1 / 5.0, 1 / 7.0, 1 / 9.0, 1 / 11.0, 1 / 13.0, 1 / 15.0, 1 / 17.0, 1 / 19.0, 1 / 21.0};
static const double ERF[] = {0x1.20dd750429b6dp+0, -0x1.812746b0379e7p-2, 0x1.ce2f21a042be2p-4, -0x1.b82ce31288b51p-6,
                              0x1.565bcd0e6a53fp-8, -0x1.c02db40040b85p-11, 0x1.f9a326f9b89b7p-14,
                              -0x1.f4d25c3e0c2ebp-17, 0x1.b9e6c9dc651a2p-20, -0x1.5f742ec43e71ap-23,
                              0x1.fcc5720624c1cp-27, -0x1.51d7181c5d36cp-30, 0x1.9e6ad5e55a730p-34};
static const double ERFC[] = {0x1.0445940c48000p-16, 0x1.207a4af51a5b3p-2, 0x1.251a121772c95p-2, 0x1.c2d387692023ep-3,
                              0x1.279554cf630d4p-2, -0x1.e46304f13de22p-3, 0x1.3aaaa32330d5cp-1, -0x1.ab1e999c90c21p-1,
                              0x1.00f153358b616p-1, -0x1.0d757f37885f0p-3, 0x1.2a7ab60999b4ep-7};

static inline double exponential(double x) {
  if (x != x) return x;
  x = x < -700.0 ? -700.0 : x > 700.0 ? 700.0 : x;
  int64_t k;
  __asm__("fcvt.l.d %0, %1, rne" : "=r"(k) : "f"(x * 0x1.71547652b82fep+0));
  const double rest = (x - (double)k * 0x1.62e42fee00000p-1) - (double)k * 0x1.a39ef35793c76p-33;
  HORNER(total, EXP, rest);
  return total * as_double((k + 1023) << 52);
}

static inline double logarithm(double x) {
  if (!(x > 0)) return x == 0 ? -__builtin_inf() : __builtin_nan("");
  if (x > 1.7976931348623157e308) return x;
  const int64_t bits = bits_of(x);
  int64_t exponent = (bits >> 52) - 1022;
  double mantissa = as_double((bits & 0xfffffffffffff) | ((int64_t)1022 << 52));
  if (mantissa < 0x1.6a09e667f3bcdp-1) mantissa = mantissa * 2, --exponent;
  const double s = (mantissa - 1) / (mantissa + 1);
  HORNER(total, LOG, s * s);
  return (double)exponent * 0x1.62e42fefa39efp-1 + (2 * s) * total;
}

static inline double error_function(double x) {
  const double a = __builtin_fabs(x);
  if (a <= 1.0) {
    HORNER(total, ERF, x * x);
    return x * total;
  }
  double far = 1.0;
  if (!(a > 4.5)) {
    const double t = 1 / (1 + a * 0.5);
    HORNER(total, ERFC, t);
    far = 1 - exponential(-(a * a)) * total;
  }
  return x < 0 ? -far : far;
}

static inline double tangent(double x) {
  const double t = exponential(-2 * __builtin_fabs(x));
  const double y = (1 - t) / (1 + t);
  return x < 0 ? -y : y;
}

INLINE double unary(int64_t kind, double x, double p, double q) {
  switch (kind) {
    case 0: return __builtin_fabs(x);
    case 1: return -x;
    case 2: return root(x);
    case 3: return 1 / x;
    case 4: return down(x);
    case 5: return up(x);
    case 6: return nearest(x);
    case 7: return cut(x);
    case 8: return exponential(x);
    case 9: return logarithm(x);
    case 10: return error_function(x);
    case 11: return tangent(x);
    case 12: return 1 / (1 + exponential(-x));
    case 13: return x < p ? p : x > q ? q : x;
    case 14: return x < 0 ? p * x : x;
    default: x = p * x + q; return x < 0 ? 0 : x > 1 ? 1 : x;
  }
}

INLINE float binary(int64_t kind, float x, float y) {
  switch (kind) {
    case 0: return x + y;
    case 1: return x - y;
    case 2: return x * y;
    case 3: return x / y;
    case 4: return x > y ? x : y;
    case 5: return x < y ? x : y;
    case 6: return x == y;
    case 7: return x != y;
    case 8: return x > y;
    case 9: return x >= y;
    case 10: return x < y;
    case 11: return x <= y;
    case 12: return x != 0 && y != 0;
    case 13: return x != 0 || y != 0;
    case 14: return (x != 0) != (y != 0);
    default: return x < 0 ? x * y : x;
  }
}

// limited(rint(steps) + zero) to low...high, ties to even; what is no number becomes `low`.
INLINE int8_t encoded(float steps, int64_t zero, int64_t low, int64_t high) {
  int32_t whole;
  const float y = __builtin_fminf(__builtin_fmaxf(steps, (float)(low - zero)), (float)(high - zero));
  __asm__("fcvt.w.s %0, %1, rne" : "=r"(whole) : "f"(y));
  return (int8_t)(whole + zero);
}

// The same as 16 bits.
INLINE int16_t encoded_wide(float steps, int64_t zero, int64_t low, int64_t high) {
  int32_t whole;
  const float y = __builtin_fminf(__builtin_fmaxf(steps, (float)(low - zero)), (float)(high - zero));
  __asm__("fcvt.w.s %0, %1, rne" : "=r"(whole) : "f"(y));
  return (int16_t)(whole + zero);
}

// The number of a code of bfloat16, and the code nearest to a number, ties to even, at most that of the largest number.
INLINE float widened(int16_t code) {
  const uint32_t bits = (uint32_t)(uint16_t)code << 16;
  float x;
  __builtin_memcpy(&x, &bits, sizeof x);
  return x;
}

INLINE int16_t narrowed(float x) {
  uint32_t bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  const uint32_t size = bits & 0x7fffffff, code = (size + 0x7fff + (size >> 16 & 1)) >> 16;
  if (size > 0x7f800000) return 0x7fc0;
  return (int16_t)((code < 0x7f7f ? code : 0x7f7f) | (bits >> 16 & 0x8000));
}

// Code of 8 bits with so many bits of a fraction: the nearest number, ties to even, at most `largest`; `least` is the exponent of the
// least normal number, as float32 has it.
INLINE int8_t coded(float x, int64_t fraction, int64_t least, int64_t largest, int64_t nan) {
  uint32_t bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  const uint32_t size = bits & 0x7fffffff;
  if (size > 0x7f800000) return (int8_t)nan;
  const int64_t exponent = size >> 23, below = exponent < least ? least - exponent : 0;
  const int64_t shift = 23 - fraction + (below < 8 ? below : 8);
  const int64_t word = exponent ? (size & 0x7fffff) | 0x800000 : 0;
  const int64_t steps = (word + ((int64_t)1 << (shift - 1)) - 1 + (word >> shift & 1)) >> shift;
  // the leading bit of a normal number counts as one of its exponent
  const int64_t code = (exponent > least ? (exponent - least) << fraction : 0) + steps;
  return (int8_t)((code < largest ? code : largest) | (bits >> 31 << 7));
}
