// What models that are quantised already ask for beyond the array: scales of single channels, zero points, their own limits.
// Every real operation is one of float32, rounded once, as compiler/ops/requantisation.py has it.
#include "host.h"

// Limits of results, less their zero point, and that.
struct limits {
  float low, high;
  int32_t zero;
};

static inline struct limits limits_of(const int64_t* d) {
  return (struct limits){(float)(d[1] - d[0]), (float)(d[2] - d[0]), (int32_t)d[0]};
}

// Limiting comes first: limits are whole numbers, so that rounding leaves a result between them.
INLINE int8_t encoded(float y, struct limits l) {
  int32_t steps;
  y = __builtin_fminf(__builtin_fmaxf(y, l.low), l.high);
  __asm__("fcvt.w.s %0, %1, rne" : "=r"(steps) : "f"(y));
  return (int8_t)(steps + l.zero);
}

INLINE void requantise_row(int64_t n, const int32_t* input, int64_t step, const float* factors, int64_t factor_step,
                           int8_t* to, int64_t to_step, struct limits l) {
  FOR_EACH_BY(8, i, n, int8_t, to[i * to_step], encoded((float)input[i * step] * factors[i * factor_step], l));
}

// output = encoded((input + rows + columns) * factors): walk (input, rows, columns, factors, output), extent and steps of the
// innermost dimension; zero, low, high. `rows` and `columns` may be null.
void net_requantise(const int64_t* d, const int32_t* input, const int32_t* rows, const int32_t* columns,
                    const float* factors, int8_t* output) {
  struct walk w;
  d = walk_begin(&w, d, 5);
  const int64_t n = d[0], step = d[1], row_step = d[2], column_step = d[3], factor_step = d[4], to_step = d[5];
  const struct limits l = limits_of(d + 6);
  do {
    const int32_t* from = input + w.at[0];
    const float* by = factors + w.at[3];
    int8_t* to = output + w.at[4];
    if (rows || columns) {
      const int32_t* a = rows ? rows + w.at[1] : 0;
      const int32_t* b = columns ? columns + w.at[2] : 0;
      for (int64_t i = 0; i < n; ++i) {
        const int64_t sum = (int64_t)from[i * step] + (a ? a[i * row_step] : 0) + (b ? b[i * column_step] : 0);
        to[i * to_step] = encoded((float)sum * by[i * factor_step], l);
      }
    } else if (step == 1 && factor_step == 1 && to_step == 1) {
      requantise_row(n, from, 1, by, 1, to, 1, l);
    } else if (step == 1 && factor_step == 0 && to_step == 1) {
      requantise_row(n, from, 1, by, 0, to, 1, l);
    } else {
      requantise_row(n, from, step, by, factor_step, to, to_step, l);
    }
  } while (walk_next(&w));
}

static inline int8_t shifted(int64_t x, int64_t by, int64_t offset, const int64_t* d) {
  int64_t y = (x * by + offset + (((int64_t)1 << d[0]) >> 1)) >> d[0];
  y = y < d[1] ? d[1] : y;
  return (int8_t)((y > d[2] ? d[2] : y) - d[3]);
}

// output = limited((input * multipliers + offsets) / 2**shift, halves up) - moved: walk (input, multipliers, offsets, output), extent and
// steps of the innermost dimension; shift, low, high, moved, whether `input` is float32 instead of int32.
void net_shift(const int64_t* d, const void* input, const int32_t* multipliers, const int32_t* offsets, int8_t* output) {
  struct walk w;
  d = walk_begin(&w, d, 4);
  const int64_t n = d[0], step = d[1], by_step = d[2], offset_step = d[3], to_step = d[4];
  d += 5;
  do {
    const int32_t *by = multipliers + w.at[1], *offset = offsets + w.at[2];
    int8_t* to = output + w.at[3];
    if (d[4]) {
      const float* from = (const float*)input + w.at[0];
      for (int64_t i = 0; i < n; ++i)
        to[i * to_step] = shifted((int64_t)from[i * step], by[i * by_step], offset[i * offset_step], d);
    } else {
      const int32_t* from = (const int32_t*)input + w.at[0];
      for (int64_t i = 0; i < n; ++i)
        to[i * to_step] = shifted(from[i * step], by[i * by_step], offset[i * offset_step], d);
    }
  } while (walk_next(&w));
}

INLINE void pair_row(int64_t n, const int8_t* left, int64_t left_step, const float* left_table, const int8_t* right,
                     int64_t right_step, const float* right_table, int8_t* to, int64_t to_step, int64_t product,
                     float inside, float ratio, struct limits l) {
  if (product && (inside != 0 || ratio != 1))
    FOR_EACH_BY(8, i, n, int8_t, to[i * to_step],
                encoded(left_table[left[i * left_step]] * right_table[right[i * right_step]] * ratio + inside, l));
  else if (product)
    FOR_EACH_BY(8, i, n, int8_t, to[i * to_step],
                encoded(left_table[left[i * left_step]] * right_table[right[i * right_step]], l));
  else
    FOR_EACH_BY(8, i, n, int8_t, to[i * to_step],
                encoded(left_table[left[i * left_step]] + right_table[right[i * right_step]], l));
}

// output = encoded(tables[left + 128] + tables[256 + right + 128]): walk (left, right, output), extent and steps of the innermost
// dimension; whether a product, what is added to it, bits of what it is multiplied by, zero, low, high.
void net_scaled_pair(const int64_t* d, const int8_t* left, const int8_t* right, const float* tables, int8_t* output) {
  struct walk w;
  d = walk_begin(&w, d, 3);
  const int64_t n = d[0], left_step = d[1], right_step = d[2], to_step = d[3], product = d[4];
  const struct limits l = limits_of(d + 7);
  const float ratio = as_float(d[6]);
  const float *left_table = tables + 128, *right_table = tables + 256 + 128;
  do {
    const int8_t *a = left + w.at[0], *b = right + w.at[1];
    int8_t* to = output + w.at[2];
    if (left_step == 1 && right_step == 1 && to_step == 1)
      pair_row(n, a, 1, left_table, b, 1, right_table, to, 1, product, (float)d[5], ratio, l);
    else
      pair_row(n, a, left_step, left_table, b, right_step, right_table, to, to_step, product, (float)d[5], ratio, l);
  } while (walk_next(&w));
}

// output = offset + factor * sum of a row: walk (input, output); length and step of a row; factor, offset.
void net_row_sums(const int64_t* d, const int8_t* input, int32_t* output) {
  struct walk w;
  d = walk_begin(&w, d, 2);
  const int64_t n = d[0], step = d[1], factor = d[2], offset = d[3];
  do {
    const int8_t* from = input + w.at[0];
    int64_t sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += from[i * step];
    output[w.at[1]] = (int32_t)(sum * factor + offset);
  } while (walk_next(&w));
}

// Averages of windows: N, Q, P, C, height, width; strides of input and output; kernel, stride, padding of height and width;
// the input's zero, the output's zero, low, high; bits of the scales of input and output, by which windows are then added up in real
// numbers, and factors divide, or 0; what is added then. `factors` [Q, P].
void net_window_average(const int64_t* d, const int8_t* input, const float* factors, int8_t* output) {
  const int64_t images = d[0], rows = d[1], columns = d[2], channels = d[3], height = d[4], width = d[5];
  const int64_t *from = d + 6, *to = d + 10;
  const int64_t zero = d[20];
  const struct limits l = limits_of(d + 21);
  const float source_scale = as_float(d[24]), scale = as_float(d[25]), inside_result = (float)d[26];
  for (int64_t n = 0; n < images; ++n)
    for (int64_t q = 0; q < rows; ++q)
      for (int64_t p = 0; p < columns; ++p) {
        const int64_t y = q * d[16] - d[18], x = p * d[17] - d[19];
        const int64_t top = y < 0 ? 0 : y, left = x < 0 ? 0 : x;
        const int64_t bottom = least(y + d[14], height), right = least(x + d[15], width);
        const int64_t inside = bottom > top && right > left ? (bottom - top) * (right - left) : 0;
        const float factor = factors[q * columns + p];
        int8_t* mean = output + n * to[0] + q * to[1] + p * to[2];
        int64_t c = 0;
        if (d[24])
          // four at a time, so that an addition need not wait for the one before it; loops of four are written out by the compiler
          for (; c < channels; c += 4) {
            float real[4] = {0};
            const int64_t lanes = least(4, channels - c);
            for (int64_t i = top; i < bottom; ++i)
              for (int64_t j = left; j < right; ++j) {
                const int8_t* at = input + n * from[0] + i * from[1] + j * from[2] + c * from[3];
                if (lanes == 4)
                  for (int k = 0; k < 4; ++k) real[k] += (float)(int32_t)(at[k * from[3]] - zero) * source_scale;
                else
                  for (int k = 0; k < lanes; ++k) real[k] += (float)(int32_t)(at[k * from[3]] - zero) * source_scale;
              }
            for (int k = 0; k < lanes; ++k)
              mean[(c + k) * to[3]] = encoded(real[k] / factor / scale + inside_result, l);
          }
        for (; c < channels; ++c) {
          int64_t sum = -zero * inside;
          for (int64_t i = top; i < bottom; ++i)
            for (int64_t j = left; j < right; ++j)
              sum += input[n * from[0] + i * from[1] + j * from[2] + c * from[3]];
          mean[c * to[3]] = encoded((float)(int32_t)sum * factor, l);
        }
      }
}

// Softmax of rows: walk (input, output); length, steps of input and output; bits of the scale, zero, low, high.
void net_scaled_softmax(const int64_t* d, const int8_t* input, const float* exponentials, int8_t* output) {
  struct walk w;
  d = walk_begin(&w, d, 2);
  const int64_t n = d[0], from_step = d[1], to_step = d[2];
  const float scale = as_float(d[3]);
  const struct limits l = limits_of(d + 4);
  do {
    const int8_t* from = input + w.at[0];
    int8_t* to = output + w.at[1];
    int64_t largest = -128;
    for (int64_t i = 0; i < n; ++i) largest = from[i * from_step] > largest ? from[i * from_step] : largest;
    float total = 0;
    for (int64_t i = 0; i < n; ++i) total += exponentials[largest - from[i * from_step]];
    for (int64_t i = 0; i < n; ++i)
      to[i * to_step] =
          encoded(exponentials[largest - from[i * from_step]] / total / scale, l);
  } while (walk_next(&w));
}
