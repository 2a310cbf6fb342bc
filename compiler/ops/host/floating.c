// What a quantised model leaves in real numbers: float32 in memory, each result rounded once from float64 operations that
// compiler/ops/elementary.py and compiler/ops/floating.py do in the same order.
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

static double exponential(double x) {
  if (x != x) return x;
  x = x < -700.0 ? -700.0 : x > 700.0 ? 700.0 : x;
  int64_t k;
  __asm__("fcvt.l.d %0, %1, rne" : "=r"(k) : "f"(x * 0x1.71547652b82fep+0));
  const double rest = (x - (double)k * 0x1.62e42fee00000p-1) - (double)k * 0x1.a39ef35793c76p-33;
  HORNER(total, EXP, rest);
  return total * as_double((k + 1023) << 52);
}

static double logarithm(double x) {
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

static double error_function(double x) {
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

static double tangent(double x) {
  const double t = exponential(-2 * __builtin_fabs(x));
  const double y = (1 - t) / (1 + t);
  return x < 0 ? -y : y;
}

static double unary(int64_t kind, double x, double p, double q) {
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

static float binary(int64_t kind, float x, float y) {
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

// output = table[input + 128]: walk (input, output), extent and steps of the innermost dimension.
void net_float_decode(const int64_t* d, const int8_t* input, const float* table, float* output) {
  struct walk w;
  d = walk_begin(&w, d, 2);
  do {
    const int8_t* from = input + w.at[0];
    float* to = output + w.at[1];
    for (int64_t i = 0; i < d[0]; ++i) to[i * d[2]] = table[from[i * d[1]] + 128];
  } while (walk_next(&w));
}

// output = limited(rint(input / scale) + zero): the same walk; bits of the scale, zero, low, high.
void net_float_encode(const int64_t* d, const float* input, int8_t* output) {
  struct walk w;
  d = walk_begin(&w, d, 2);
  const float scale = as_float(d[3]);
  const float low = (float)(d[5] - d[4]), high = (float)(d[6] - d[4]);
  do {
    const float* from = input + w.at[0];
    int8_t* to = output + w.at[1];
    for (int64_t i = 0; i < d[0]; ++i) {
      int32_t steps;
      const float y = __builtin_fminf(__builtin_fmaxf(from[i * d[1]] / scale, low), high);
      __asm__("fcvt.w.s %0, %1, rne" : "=r"(steps) : "f"(y));
      to[i * d[2]] = (int8_t)(steps + d[4]);
    }
  } while (walk_next(&w));
}

// output = function of input: the same walk; which one, its two parameters (float64).
void net_float_unary(const int64_t* d, const float* input, float* output) {
  struct walk w;
  d = walk_begin(&w, d, 2);
  const double p = as_double(d[4]), q = as_double(d[5]);
  do {
    const float* from = input + w.at[0];
    float* to = output + w.at[1];
    for (int64_t i = 0; i < d[0]; ++i) to[i * d[2]] = (float)unary(d[3], from[i * d[1]], p, q);
  } while (walk_next(&w));
}

// output = function of left and right: walk (left, right, output), extent and steps; which one.
void net_float_binary(const int64_t* d, const float* left, const float* right, float* output) {
  struct walk w;
  d = walk_begin(&w, d, 3);
  do {
    const float *a = left + w.at[0], *b = right + w.at[1];
    float* to = output + w.at[2];
    for (int64_t i = 0; i < d[0]; ++i) to[i * d[3]] = binary(d[4], a[i * d[1]], b[i * d[2]]);
  } while (walk_next(&w));
}

// output = condition ? left : right: walk (condition, left, right, output), extent and steps.
void net_float_select(const int64_t* d, const float* condition, const float* left, const float* right, float* output) {
  struct walk w;
  d = walk_begin(&w, d, 4);
  do {
    const float *c = condition + w.at[0], *a = left + w.at[1], *b = right + w.at[2];
    float* to = output + w.at[3];
    for (int64_t i = 0; i < d[0]; ++i) to[i * d[4]] = c[i * d[1]] != 0 ? a[i * d[2]] : b[i * d[3]];
  } while (walk_next(&w));
}

// output = (float)(input + rows + columns) * factors: walk (input, rows, columns, factors, output), extent and steps; the sum is
// one of 64 bits.
void net_float_scale(const int64_t* d, const int32_t* input, const int32_t* rows, const int32_t* columns,
                     const float* factors, float* output) {
  struct walk w;
  d = walk_begin(&w, d, 5);
  do {
    const int32_t *from = input + w.at[0], *a = rows + w.at[1], *b = columns + w.at[2];
    const float* by = factors + w.at[3];
    float* to = output + w.at[4];
    for (int64_t i = 0; i < d[0]; ++i)
      to[i * d[5]] = (float)((int64_t)from[i * d[1]] + a[i * d[2]] + b[i * d[3]]) * by[i * d[4]];
  } while (walk_next(&w));
}

// Functions of rows: walk (input, output); length, steps of input and output; which one, epsilon (float64).
void net_float_rows(const int64_t* d, const float* input, float* output) {
  enum { SUM, MEAN, LARGEST, SMALLEST, SOFTMAX, LOG_SOFTMAX, NORMAL, ROOT };
  struct walk w;
  d = walk_begin(&w, d, 2);
  const int64_t n = d[0], step = d[1], to_step = d[2], kind = d[3];
  const double epsilon = as_double(d[4]);
  do {
    const float* from = input + w.at[0];
    float* to = output + w.at[1];
    double total = 0, centre = 0;
    float largest = from[0], smallest = from[0];
    for (int64_t i = 0; i < n; ++i) {
      const float x = from[i * step];
      total += x;
      largest = x > largest ? x : largest;
      smallest = x < smallest ? x : smallest;
    }
    if (kind < SOFTMAX) {
      *to = (float)(kind == SUM ? total : kind == MEAN ? total / (double)n : kind == LARGEST ? largest : smallest);
      continue;
    }
    double sum = 0;
    if (kind <= LOG_SOFTMAX) {
      for (int64_t i = 0; i < n; ++i) sum += exponential((double)from[i * step] - largest);
      const double logarithm_of_sum = kind == LOG_SOFTMAX ? logarithm(sum) : 0;
      for (int64_t i = 0; i < n; ++i) {
        const double x = (double)from[i * step] - largest;
        to[i * to_step] = (float)(kind == SOFTMAX ? exponential(x) / sum : x - logarithm_of_sum);
      }
      continue;
    }
    if (kind == NORMAL) centre = total / (double)n;
    for (int64_t i = 0; i < n; ++i) {
      const double x = from[i * step] - centre;
      sum += x * x;
    }
    const double by = root(sum / (double)n + epsilon);
    for (int64_t i = 0; i < n; ++i) to[i * to_step] = (float)((from[i * step] - centre) / by);
  } while (walk_next(&w));
}

// Positions of the k largest numbers of rows, or smallest: walk (input, output); length and step of each; whether the smallest. What is
// best so far is kept in order.
void net_float_top(const int64_t* d, const float* input, int32_t* output) {
  struct walk w;
  d = walk_begin(&w, d, 2);
  const int64_t n = d[0], step = d[1], k = d[2], to_step = d[3];
  const float sign = d[4] ? 1 : -1;
  do {
    const float* from = input + w.at[0];
    int32_t* to = output + w.at[1];
    int64_t kept = 0;
    float worst = 0;
    for (int64_t i = 0; i < n; ++i) {
      const float x = sign * from[i * step];
      if (kept == k && !(x < worst)) continue;
      int64_t at = kept < k ? kept++ : k - 1;
      for (; at > 0 && x < sign * from[to[(at - 1) * to_step] * step]; --at) to[at * to_step] = to[(at - 1) * to_step];
      to[at * to_step] = (int32_t)i;
      worst = sign * from[to[(kept - 1) * to_step] * step];
    }
  } while (walk_next(&w));
}

// Matrix products: walk over the batch (left, right, output); rows, columns, depth; strides of left, right and output.
void net_float_products(const int64_t* d, const float* left, const float* right, float* output) {
  struct walk w;
  d = walk_begin(&w, d, 3);
  do {
    const float *a = left + w.at[0], *b = right + w.at[1];
    float* to = output + w.at[2];
    for (int64_t i = 0; i < d[0]; ++i)
      for (int64_t j = 0; j < d[1]; ++j) {
        double total = 0;
        for (int64_t k = 0; k < d[2]; ++k)
          total += (double)a[i * d[3] + k * d[4]] * (double)b[k * d[5] + j * d[6]];
        to[i * d[7] + j * d[8]] = (float)total;
      }
  } while (walk_next(&w));
}

// Convolution: N, Q, P, groups, outputs and inputs of a group, kernel; height, width, stride, padding, dilation; strides of input
// [N, H, W, C], weight [S, R, C / groups, K] and output [N, Q, P, K].
void net_float_convolve(const int64_t* d, const float* input, const float* weight, float* output) {
  const int64_t *from = d + 16, *by = d + 20, *to = d + 24;
  for (int64_t n = 0; n < d[0]; ++n)
    for (int64_t q = 0; q < d[1]; ++q)
      for (int64_t p = 0; p < d[2]; ++p)
        for (int64_t k = 0; k < d[3] * d[4]; ++k) {
          const int64_t first = k / d[4] * d[5];
          double total = 0;
          for (int64_t s = 0; s < d[6]; ++s) {
            const int64_t y = q * d[10] + s * d[14] - d[12];
            if (y < 0 || y >= d[8]) continue;
            for (int64_t r = 0; r < d[7]; ++r) {
              const int64_t x = p * d[11] + r * d[15] - d[13];
              if (x < 0 || x >= d[9]) continue;
              for (int64_t c = 0; c < d[5]; ++c)
                total += (double)input[n * from[0] + y * from[1] + x * from[2] + (first + c) * from[3]] *
                         (double)weight[s * by[0] + r * by[1] + c * by[2] + k * by[3]];
            }
          }
          output[n * to[0] + q * to[1] + p * to[2] + k * to[3]] = (float)total;
        }
}

// Windows: N, Q, P, C, height, width; strides of input and output; kernel, stride, padding, dilation of height and width; whether
// the largest element is meant, else the sum by `divisors` [Q, P].
void net_float_window(const int64_t* d, const float* input, const float* divisors, float* output) {
  const int64_t *from = d + 6, *to = d + 10;
  for (int64_t n = 0; n < d[0]; ++n)
    for (int64_t q = 0; q < d[1]; ++q)
      for (int64_t p = 0; p < d[2]; ++p)
        for (int64_t c = 0; c < d[3]; ++c) {
          double total = 0;
          float largest = -__builtin_inff();
          for (int64_t s = 0; s < d[14]; ++s) {
            const int64_t y = q * d[16] + s * d[20] - d[18];
            if (y < 0 || y >= d[4]) continue;
            for (int64_t r = 0; r < d[15]; ++r) {
              const int64_t x = p * d[17] + r * d[21] - d[19];
              if (x < 0 || x >= d[5]) continue;
              const float one = input[n * from[0] + y * from[1] + x * from[2] + c * from[3]];
              total += one;
              largest = one > largest ? one : largest;
            }
          }
          output[n * to[0] + q * to[1] + p * to[2] + c * to[3]] =
              d[22] ? largest : (float)(total / (double)divisors[q * d[2] + p]);
        }
}

// Resampling: N, Q, P, C, height, width; strides of input and output. `rows` [Q, 3] and `columns` [P, 3]: two positions and how
// much of the second one.
void net_float_resize(const int64_t* d, const float* input, const float* rows, const float* columns, float* output) {
  const int64_t *from = d + 6, *to = d + 10;
  for (int64_t n = 0; n < d[0]; ++n)
    for (int64_t q = 0; q < d[1]; ++q)
      for (int64_t p = 0; p < d[2]; ++p)
        for (int64_t c = 0; c < d[3]; ++c) {
          const float* at = input + n * from[0] + c * from[3];
          const float *top = at + (int64_t)rows[3 * q] * from[1], *bottom = at + (int64_t)rows[3 * q + 1] * from[1];
          const int64_t left = (int64_t)columns[3 * p] * from[2], right = (int64_t)columns[3 * p + 1] * from[2];
          const double f = rows[3 * q + 2], g = columns[3 * p + 2];
          const double above = (double)top[left] * (1 - g) + (double)top[right] * g;
          const double below = (double)bottom[left] * (1 - g) + (double)bottom[right] * g;
          output[n * to[0] + q * to[1] + p * to[2] + c * to[3]] = (float)(above * (1 - f) + below * f);
        }
}
