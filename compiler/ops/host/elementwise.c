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

INLINE void multiply_row(int64_t n, const int8_t* left, int64_t left_step, const int8_t* right, int64_t right_step,
                         int8_t* to, int64_t step, int64_t multiplier, int64_t shift) {
  FOR_EACH_SATURATED(i, n, to[i * step],
                     rescaled((int64_t)left[i * left_step] * right[i * right_step], multiplier, shift));
}

// output = sat8(left * right * multiplier / 2^shift); extra parameters: multiplier, shift.
void net_multiply(const int64_t* d, const int8_t* left, const int8_t* right, int8_t* output) {
  struct walk w;
  d = walk_begin(&w, d, 3);
  const int64_t n = d[0], left_step = d[1], right_step = d[2], step = d[3], multiplier = d[4], shift = d[5];
  do {
    const int8_t* a = left + w.at[0];
    const int8_t* b = right + w.at[1];
    int8_t* to = output + w.at[2];
    if (left_step == 1 && right_step == 1 && step == 1)
      multiply_row(n, a, 1, b, 1, to, 1, multiplier, shift);
    else
      multiply_row(n, a, left_step, b, right_step, to, step, multiplier, shift);
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
