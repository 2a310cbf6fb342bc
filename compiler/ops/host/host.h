// Operators of quantised networks on the host core, in integers; see the classes of compiler/ops for what each computes.
//
// Every function takes the address of its parameters, 64-bit words that `host_call` of its operator writes, and
// then the addresses of its operands. Strides count elements.
#pragma once
#include <stddef.h>
#include <stdint.h>

enum { MAX_RANK = 12, MAX_OPERANDS = 7 };

// A nest of loops over several operands at once. In the parameters: rank, `rank` extents, then for each operand
// `rank` strides.
struct walk {
  int64_t rank, operands;
  const int64_t* shape;
  const int64_t* strides;
  int64_t index[MAX_RANK];
  int64_t at[MAX_OPERANDS];  // where each operand is, in elements
};

// Begins a walk whose parameters are at `d`; gives the parameters behind them.
static inline const int64_t* walk_begin(struct walk* w, const int64_t* d, int64_t operands) {
  w->rank = d[0];
  w->operands = operands;
  w->shape = d + 1;
  w->strides = w->shape + w->rank;
  for (int64_t i = 0; i < w->rank; ++i) w->index[i] = 0;
  for (int64_t i = 0; i < operands; ++i) w->at[i] = 0;
  return w->strides + w->rank * operands;
}

// Goes on to the next element with dimension `i`, or with those around it; 0 behind the last one, with everything as at
// the beginning.
static inline int walk_next_from(struct walk* w, int64_t i) {
  for (; i >= 0; --i) {
    if (++w->index[i] < w->shape[i]) {
      for (int64_t k = 0; k < w->operands; ++k) w->at[k] += w->strides[k * w->rank + i];
      return 1;
    }
    w->index[i] = 0;
    for (int64_t k = 0; k < w->operands; ++k) w->at[k] -= (w->shape[i] - 1) * w->strides[k * w->rank + i];
  }
  return 0;
}

static inline int walk_next(struct walk* w) { return walk_next_from(w, w->rank - 1); }

// The innermost dimension, which may be gone through without the walk: its extent, and its step in an operand. All other
// elements: `walk_next_outer`.
static inline int64_t walk_inner(const struct walk* w) { return w->rank ? w->shape[w->rank - 1] : 1; }
static inline int64_t walk_step(const struct walk* w, int64_t operand) {
  return w->rank ? w->strides[(operand + 1) * w->rank - 1] : 0;
}
static inline int walk_next_outer(struct walk* w) { return walk_next_from(w, w->rank - 2); }

// Hot loops are functions of their strides, called once with strides of 1, which the compiler then knows, and once
// with any.
#define INLINE static inline __attribute__((always_inline))
// A function of its own has all registers for itself.
#define APART __attribute__((noinline))
#define RARELY(condition) __builtin_expect(!!(condition), 0)

// target = result for every i of [0, n), both expressions of `i`. `lanes` results are computed before the first is
// stored: loads of an in-order core then need not wait for one another, nor for stores that might change what they
// read. A result may replace the operands of the same i.
#define FOR_EACH_BY(lanes, i, n, type, target, result)              \
  do {                                                              \
    int64_t first_ = 0;                                             \
    for (; first_ + (lanes) <= (n); first_ += (lanes)) {            \
      type lane_[lanes];                                            \
      for (int64_t k_ = 0; k_ < (lanes); ++k_) {                    \
        const int64_t i = first_ + k_;                              \
        lane_[k_] = (type)(result);                                 \
      }                                                             \
      for (int64_t k_ = 0; k_ < (lanes); ++k_) {                    \
        const int64_t i = first_ + k_;                              \
        target = lane_[k_];                                         \
      }                                                             \
    }                                                               \
    for (int64_t i = first_; i < (n); ++i) target = (type)(result); \
  } while (0)
#define FOR_EACH(i, n, type, target, result) FOR_EACH_BY(4, i, n, type, target, result)

// Few results are beyond the range: one comparison for both of its ends.
static inline int8_t saturated(int64_t x) {
  if (RARELY((uint64_t)(x + 128) > 255)) x = x < 0 ? -128 : 127;
  return (int8_t)x;
}

// FOR_EACH with target = saturated(result); one comparison for four results.
#define FOR_EACH_SATURATED(i, n, target, result)                                               \
  do {                                                                                         \
    int64_t first_ = 0;                                                                        \
    for (; first_ + 4 <= (n); first_ += 4) {                                                   \
      int64_t lane_[4];                                                                        \
      uint64_t range_ = 0;                                                                     \
      for (int64_t k_ = 0; k_ < 4; ++k_) {                                                     \
        const int64_t i = first_ + k_;                                                         \
        lane_[k_] = (result);                                                                  \
        range_ |= (uint64_t)(lane_[k_] + 128);                                                 \
      }                                                                                        \
      if (RARELY(range_ > 255))                                                                \
        for (int64_t k_ = 0; k_ < 4; ++k_) lane_[k_] = saturated(lane_[k_]);                   \
      for (int64_t k_ = 0; k_ < 4; ++k_) {                                                     \
        const int64_t i = first_ + k_;                                                         \
        target = (int8_t)lane_[k_];                                                            \
      }                                                                                        \
    }                                                                                          \
    for (int64_t i = first_; i < (n); ++i) target = saturated(result);                         \
  } while (0)

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

// x, or the nearest end of [-limit, limit).
static inline int64_t limited(int64_t x, int64_t limit) { return x < -limit ? -limit : x >= limit ? limit - 1 : x; }

static inline float as_float(int64_t bits) {
  const int32_t low = (int32_t)bits;
  float value;
  __builtin_memcpy(&value, &low, sizeof value);
  return value;
}

// Requantisation as the accelerator does it, before it saturates: float32 of the sum, product, to nearest even.
static inline int64_t requantised(int32_t sum, float scale) {
  int32_t result;
  __asm__("fcvt.w.s %0, %1, rne" : "=r"(result) : "f"((float)sum * scale));
  return result;
}

// x * multiplier / 2^shift to nearest, halves up.
static inline int64_t rescaled(int64_t x, int64_t multiplier, int64_t shift) {
  return (x * multiplier + ((int64_t)1 << (shift - 1))) >> shift;
}

// Floor of the square root of x * 2^16, x below 2^62. The double's root is less than 1 off, and how far its square is
// from the number is below 2^42: exact although both may be beyond 64 bits.
static inline int64_t root_of(uint64_t x) {
  double root;
  __asm__("fsqrt.d %0, %1" : "=f"(root) : "f"((double)x * 65536));
  const int64_t found = (int64_t)root;
  const int64_t rest = (int64_t)((x << 16) - (uint64_t)found * (uint64_t)found);
  return found - (rest < 0) + (rest > 2 * found);
}
