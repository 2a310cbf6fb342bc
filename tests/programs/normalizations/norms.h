// Normaliser commands for C programs, and what the host makes of the same rows: I-BERT's integer layer norm, softmax and
// I-GELU (Kim et al., 2021) as programs for Gemmini check their results with them.
#pragma once
#include "accel.h"

#if !defined(HAS_NORMALIZATIONS) || NORM_STAT_IDS != 2
#error "this accelerator has no normalizations"
#endif

enum { LAYERNORM = 2, IGELU = 3, SOFTMAX = 4 };
enum { NORM_STORE, NORM_SUM, NORM_MEAN, NORM_VARIANCE, NORM_INV_STDDEV, NORM_MAX, NORM_SUM_EXP, NORM_INV_SUM_EXP };

#define NORM(command, address) ((address) | (uint32_t)(command) << 26)

typedef struct {
  int stat_id, set_stats_id_only, act_msb, q_const_type;
  int32_t q_const, qb, qc;
} norm_config;
static inline void configure_norm(norm_config c) {
  COMMAND(0,
          (uint64_t)(uint32_t)c.q_const << 32 | (uint64_t)c.q_const_type << 18 | (uint64_t)c.set_stats_id_only << 17 |
              (uint64_t)c.act_msb << 16 | (uint64_t)c.stat_id << 8 | 3,
          (uint64_t)(uint32_t)c.qc << 32 | (uint32_t)c.qb);
}
#define config_norm(...) configure_norm((norm_config){__VA_ARGS__})

// The constants of the polynomials for elements in units of `scale`.
typedef struct {
  int32_t qln2, qln2_inv, qb, qc;
} softmax_constants;
static inline softmax_constants softmax_of(float scale) {
  softmax_constants q = {.qln2 = (int32_t)(0.693147f / scale), .qb = (int32_t)(1.353f / scale)};
  q.qln2_inv = 65536 / q.qln2;
  q.qc = (int32_t)(0.344f / (0.3585f * scale * scale));
  return q;
}
typedef struct {
  int32_t qb, qc;
} igelu_constants;
static inline igelu_constants igelu_of(float scale) {
  const float s = scale / 1.41421356f;
  return (igelu_constants){.qb = (int32_t)(-1.769f / s), .qc = (int32_t)(1.0f / (-0.2888f * s * s))};
}

// Everything that LOOP_WS or stores need for an activation.
static inline void configure_results(int activation, uint32_t stride, float scale, float unit) {
  config_st(.stride = stride, .activation = activation & 3, .scale = float_bits(scale));
  if (activation == SOFTMAX) {
    const softmax_constants q = softmax_of(unit);
    config_norm(.q_const = q.qln2, .q_const_type = 0, .act_msb = 1, .qb = q.qb, .qc = q.qc);
    config_norm(.q_const = q.qln2_inv, .q_const_type = 1, .act_msb = 1, .qb = q.qb, .qc = q.qc);
  }
  if (activation == IGELU) {
    const igelu_constants q = igelu_of(unit);
    config_norm(.qb = q.qb, .qc = q.qc);
  }
}

static inline int32_t integer_root(int32_t x) {
  int32_t root = 0;
  for (int32_t bit = 1 << 15; bit; bit >>= 1)
    if ((root + bit) <= 46340 && (root + bit) * (root + bit) <= x) root += bit;
  return root;
}

static inline int32_t igelu(int32_t q, igelu_constants c) {
  const int32_t magnitude = q < 0 ? -q : q, clipped = magnitude > -c.qb ? -c.qb : magnitude;
  const int32_t polynomial = (clipped + c.qb) * (clipped + c.qb) + c.qc;
  return q * ((q < 0 ? -polynomial : polynomial) + c.qc);
}

static inline int32_t exponential(int32_t q, softmax_constants c) {
  const int32_t z = (int32_t)((uint32_t)-q * (uint32_t)c.qln2_inv) >> 16;
  const int32_t base = q + z * c.qln2 + c.qb;
  return (base * base + c.qc) >> (z & 31);  // as the host shifts: by five bits
}

// A row of accumulator elements as it must be stored.
static inline void normalised(const int32_t* row, int cols, int activation, float scale, float unit, int8_t* out) {
  if (activation == IGELU) {
    const igelu_constants c = igelu_of(unit);
    for (int j = 0; j < cols; ++j) out[j] = (int8_t)ACC_SCALE(igelu(row[j], c), scale);
  } else if (activation == LAYERNORM) {
    int32_t sum = 0, squares = 0;
    for (int j = 0; j < cols; ++j) sum += row[j];
    const int32_t mean = sum / cols;
    for (int j = 0; j < cols; ++j) squares += (row[j] - mean) * (row[j] - mean);
    const int32_t variance = squares / cols;
    const float inverse = 1.0f / (float)(variance ? integer_root(variance) : 1);
    for (int j = 0; j < cols; ++j) out[j] = scaled(row[j] - mean, float_bits(inverse * scale));
  } else {
    const softmax_constants c = softmax_of(unit);
    int32_t largest = INT32_MIN, sum = 0;
    for (int j = 0; j < cols; ++j) largest = most(largest, row[j]);
    for (int j = 0; j < cols; ++j) sum += exponential(row[j] - largest, c);
    const float factor = 127.0f / (float)sum;
    for (int j = 0; j < cols; ++j) {
      const acc_t power = ACC_SCALE(exponential(row[j] - largest, c), factor);
      out[j] = (int8_t)ACC_SCALE(power, scale);
    }
  }
}
