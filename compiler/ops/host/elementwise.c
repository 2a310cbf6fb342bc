// One result for each element of the operands. Parameters: walk over all but the innermost dimension, that one's
// extent and its stride in each operand, then what the function needs.
#include "host.h"

INLINE void map_row(int64_t n, const int8_t* from, int64_t from_step, const int8_t* table, int8_t* to, int64_t to_step) {
  FOR_EACH_BY(16, i, n, int8_t, to[i * to_step], table[from[i * from_step]]);
}

// output = table[input + 128]
void net_map(const int64_t* d, const int8_t* input, const int8_t* table, int8_t* output) {
  struct walk w;
  d = walk_begin(&w, d, 2);
  const int64_t n = d[0], from_step = d[1], to_step = d[2];
  const int64_t rows = walk_inner(&w), from_row = walk_step(&w, 0), to_row = walk_step(&w, 1);
  do {
    const int8_t* from = input + w.at[0];
    int8_t* to = output + w.at[1];
    for (int64_t i = 0; i < rows; ++i, from += from_row, to += to_row) {
      if (from_step == 1 && to_step == 1)
        map_row(n, from, 1, table + 128, to, 1);
      else
        map_row(n, from, from_step, table + 128, to, to_step);
    }
  } while (walk_next_outer(&w));
}

#define COPY(type)                                                   \
  do {                                                               \
    const type* from = (const type*)input + w.at[0];                 \
    type* to = (type*)output + w.at[1];                              \
    FOR_EACH(i, n, type, to[i * to_step], from[i * from_step]);      \
  } while (walk_next(&w))

// output = input; extra parameter: bytes of an element.
void net_copy(const int64_t* d, const void* input, void* output) {
  struct walk w;
  d = walk_begin(&w, d, 2);
  const int64_t n = d[0], from_step = d[1], to_step = d[2], bytes = d[3];
  if (from_step == 1 && to_step == 1) {
    do {
      __builtin_memcpy((char*)output + w.at[1] * bytes, (const char*)input + w.at[0] * bytes, (size_t)(n * bytes));
    } while (walk_next(&w));
  } else if (bytes == 1) {
    COPY(int8_t);
  } else if (bytes == 4) {
    COPY(int32_t);
  } else if (bytes == 2) {
    COPY(int16_t);
  } else {
    COPY(int64_t);
  }
}

// output = constant; extra parameters: bytes of an element, the constant.
void net_fill(const int64_t* d, void* output) {
  struct walk w;
  d = walk_begin(&w, d, 1);
  const int64_t n = d[0], step = d[1], bytes = d[2], constant = d[3];
  do {
    char* to = (char*)output + w.at[0] * bytes;
    for (int64_t i = 0; i < n; ++i, to += step * bytes) {
      if (bytes == 1) *to = (char)constant;
      else if (bytes == 4) *(int32_t*)to = (int32_t)constant;
      else if (bytes == 2) *(int16_t*)to = (int16_t)constant;
      else *(int64_t*)to = constant;
    }
  } while (walk_next(&w));
}

// output = sum_table[left_table[left + 128] + right_table[right + 128] + 256]; `tables` has the 256, 256 and 512
// elements of the three. Scales of float32 are in the tables.
void net_add(const int64_t* d, const int8_t* left, const int8_t* right, const int8_t* tables, int8_t* output) {
  struct walk w;
  d = walk_begin(&w, d, 3);
  const int64_t n = d[0], left_step = d[1], right_step = d[2], step = d[3];
  const int8_t* left_table = tables + 128;
  const int8_t* right_table = tables + 256 + 128;
  const int8_t* sum_table = tables + 512 + 256;
  do {
    const int8_t* a = left + w.at[0];
    const int8_t* b = right + w.at[1];
    int8_t* to = output + w.at[2];
    FOR_EACH(i, n, int8_t, to[i * step], sum_table[left_table[a[i * left_step]] + right_table[b[i * right_step]]]);
  } while (walk_next(&w));
}

// Statements for k = 0...7, in the order in which they are written: the core issues in order, and each waits for the one of the
// same k before it.
#define EIGHT(k, statement)              \
  _Pragma("clang loop unroll(full)") for (int64_t k = 0; k < 8; ++k) { statement; }
#define IN_ORDER(code, target, ...) __asm__ volatile(code : target : __VA_ARGS__)

// Doubles multiply one a cycle where integers take several. Products are below 2^45 in units of 2^-shift: what is added to the half is
// exact, but where it is so small that the floor is 0 either way. With 24 fraction bits a result is the upper byte of 32 bits, to which
// conversions limit.
enum { FRACTION = 24 };
#define HALF (double)(1 << (FRACTION - 1))
static inline double fraction_factor(int64_t multiplier, int64_t shift) {
  return (double)multiplier / (double)((int64_t)1 << shift) * (1 << FRACTION);
}

INLINE void multiply_row(int64_t n, const int8_t* left, int64_t left_step, const int8_t* right, int64_t right_step,
                         int8_t* to, int64_t step, double factor, int64_t multiplier, int64_t shift) {
  int64_t first = 0;
  for (; first + 8 <= n; first += 8) {
    double x[8], y[8];
    int32_t lane[8];
    EIGHT(k, lane[k] = left[(first + k) * left_step])
    EIGHT(k, IN_ORDER("fcvt.d.w %0, %1", "=f"(x[k]), "r"(lane[k])))
    EIGHT(k, lane[k] = right[(first + k) * right_step])
    EIGHT(k, IN_ORDER("fcvt.d.w %0, %1", "=f"(y[k]), "r"(lane[k])))
    EIGHT(k, IN_ORDER("fmul.d %0, %1, %2", "=f"(x[k]), "f"(x[k]), "f"(factor)))
    EIGHT(k, IN_ORDER("fmadd.d %0, %1, %2, %3", "=f"(x[k]), "f"(x[k]), "f"(y[k]), "f"(HALF)))
    EIGHT(k, IN_ORDER("fcvt.w.d %0, %1, rdn", "=r"(lane[k]), "f"(x[k])))
    EIGHT(k, to[(first + k) * step] = (int8_t)(lane[k] >> FRACTION))
  }
  for (int64_t i = first; i < n; ++i)
    to[i * step] = saturated(rescaled((int64_t)left[i * left_step] * right[i * right_step], multiplier, shift));
}

// output = sat8(left * right * multiplier / 2^shift); extra parameters: multiplier, below 2^31, shift, at most 62.
void net_multiply(const int64_t* d, const int8_t* left, const int8_t* right, int8_t* output) {
  struct walk w;
  d = walk_begin(&w, d, 3);
  const int64_t n = d[0], left_step = d[1], right_step = d[2], step = d[3], multiplier = d[4], shift = d[5];
  const double factor = fraction_factor(multiplier, shift);
  do {
    const int8_t* a = left + w.at[0];
    const int8_t* b = right + w.at[1];
    int8_t* to = output + w.at[2];
    if (left_step == 1 && right_step == 1 && step == 1)
      multiply_row(n, a, 1, b, 1, to, 1, factor, multiplier, shift);
    else
      multiply_row(n, a, left_step, b, right_step, to, step, factor, multiplier, shift);
  } while (walk_next(&w));
}

INLINE void gate_row(int64_t n, const int8_t* left, int64_t left_step, const int8_t* right, int64_t right_step, int8_t* to,
                     int64_t step, const double* scaled, const int8_t* table, int64_t multiplier, int64_t shift) {
  int64_t first = 0;
  for (; first + 8 <= n; first += 8) {
    double x[8], y[8];
    int32_t lane[8];
    EIGHT(k, lane[k] = right[(first + k) * right_step])
    EIGHT(k, IN_ORDER("fcvt.d.w %0, %1", "=f"(y[k]), "r"(lane[k])))
    EIGHT(k, lane[k] = left[(first + k) * left_step])
    EIGHT(k, x[k] = scaled[lane[k]])
    EIGHT(k, IN_ORDER("fmadd.d %0, %1, %2, %3", "=f"(x[k]), "f"(x[k]), "f"(y[k]), "f"(HALF)))
    EIGHT(k, IN_ORDER("fcvt.w.d %0, %1, rdn", "=r"(lane[k]), "f"(x[k])))
    EIGHT(k, to[(first + k) * step] = (int8_t)(lane[k] >> FRACTION))
  }
  for (int64_t i = first; i < n; ++i)
    to[i * step] = saturated(rescaled((int64_t)table[left[i * left_step]] * right[i * right_step], multiplier, shift));
}

// output = sat8(table[left + 128] * right * multiplier / 2^shift); extra parameters as those of net_multiply.
void net_gate(const int64_t* d, const int8_t* left, const int8_t* right, const int8_t* table, int8_t* output) {
  struct walk w;
  d = walk_begin(&w, d, 3);
  const int64_t n = d[0], left_step = d[1], right_step = d[2], step = d[3], multiplier = d[4], shift = d[5];
  const double factor = fraction_factor(multiplier, shift);
  double scaled[256];
  for (int64_t i = 0; i < 256; ++i) scaled[i] = table[i] * factor;
  do {
    const int8_t* a = left + w.at[0];
    const int8_t* b = right + w.at[1];
    int8_t* to = output + w.at[2];
    if (left_step == 1 && right_step == 1 && step == 1)
      gate_row(n, a, 1, b, 1, to, 1, scaled + 128, table + 128, multiplier, shift);
    else
      gate_row(n, a, left_step, b, right_step, to, step, scaled + 128, table + 128, multiplier, shift);
  } while (walk_next(&w));
}

// output = table[left + 128][right + 128]
void net_binary_table(const int64_t* d, const int8_t* left, const int8_t* right, const int8_t* table, int8_t* output) {
  struct walk w;
  d = walk_begin(&w, d, 3);
  const int64_t n = d[0], left_step = d[1], right_step = d[2], step = d[3];
  do {
    const int8_t* a = left + w.at[0];
    const int8_t* b = right + w.at[1];
    int8_t* to = output + w.at[2];
    FOR_EACH(i, n, int8_t, to[i * step], table[(a[i * left_step] + 128) * 256 + b[i * right_step] + 128]);
  } while (walk_next(&w));
}
