// Elements chosen by their size or by computed positions, sums of terms; see the classes of compiler/ops for what each computes.
#include "host.h"

// Walk over all but the innermost dimension (input, output), that one's extent and its two strides; whether the input is int32
// (the output is int8, else the other way round), bits of the scale.
void net_convert(const int64_t* d, const void* input, void* output) {
  struct walk w;
  d = walk_begin(&w, d, 2);
  const int64_t n = d[0], from_step = d[1], to_step = d[2], wide = d[3];
  const float scale = as_float(d[4]);
  do {
    if (wide) {
      const int32_t* from = (const int32_t*)input + w.at[0];
      int8_t* to = (int8_t*)output + w.at[1];
      for (int64_t i = 0; i < n; ++i) to[i * to_step] = saturated(requantised(from[i * from_step], scale));
    } else {
      const int8_t* from = (const int8_t*)input + w.at[0];
      int32_t* to = (int32_t*)output + w.at[1];
      for (int64_t i = 0; i < n; ++i) to[i * to_step] = (int32_t)requantised(from[i * from_step], scale);
    }
  } while (walk_next(&w));
}

// Walk over the rows (input, output); elements of a row, their stride; how many are wanted, their stride; whether the smallest.
void net_top(const int64_t* d, const int8_t* input, int32_t* output) {
  struct walk w;
  d = walk_begin(&w, d, 2);
  const int64_t n = d[0], step = d[1], k = d[2], to_step = d[3], sign = d[4] ? 1 : -1;
  int64_t first[257];  // where elements of a rank begin: rank 0 is the first one
  do {
    const int8_t* from = input + w.at[0];
    int32_t* to = output + w.at[1];
    for (int64_t i = 0; i < 257; ++i) first[i] = 0;
#define RANK(x) (sign * (x) + (sign > 0 ? 128 : 127))
    for (int64_t i = 0; i < n; ++i) ++first[RANK(from[i * step]) + 1];
    for (int64_t i = 1; i < 257; ++i) first[i] += first[i - 1];
    for (int64_t i = 0; i < n; ++i) {
      const int64_t at = first[RANK(from[i * step])]++;
      if (at < k) to[at * to_step] = (int32_t)i;
    }
#undef RANK
  } while (walk_next(&w));
}

// Walk over the rows (input, indices, output); elements of a row of the input, of the output; strides of all three; bytes of an
// element.
void net_take(const int64_t* d, const void* input, const int32_t* indices, void* output) {
  struct walk w;
  d = walk_begin(&w, d, 3);
  const int64_t size = d[0], n = d[1], from_step = d[2], index_step = d[3], to_step = d[4], bytes = d[5];
  do {
    const int32_t* index = indices + w.at[1];
    for (int64_t j = 0; j < n; ++j) {
      int64_t i = index[j * index_step];
      if (i < 0) i += size;
      i = i < 0 ? 0 : i >= size ? size - 1 : i;
      const int64_t from = w.at[0] + i * from_step, to = w.at[2] + j * to_step;
      if (bytes == 1)
        ((int8_t*)output)[to] = ((const int8_t*)input)[from];
      else if (bytes == 4)
        ((int32_t*)output)[to] = ((const int32_t*)input)[from];
      else
        ((int16_t*)output)[to] = ((const int16_t*)input)[from];
    }
  } while (walk_next(&w));
}

// Walk over the indices (indices, output); extent and stride of the last dimension; what it is at the index, and elsewhere.
void net_one_hot(const int64_t* d, const int32_t* indices, int8_t* output) {
  struct walk w;
  d = walk_begin(&w, d, 2);
  const int64_t n = d[0], step = d[1];
  const int8_t on = (int8_t)d[2], off = (int8_t)d[3];
  do {
    int8_t* to = output + w.at[1];
    for (int64_t j = 0; j < n; ++j) to[j * step] = off;
    int64_t i = indices[w.at[0]];
    if (i < 0) i += n;
    if (i >= 0 && i < n) to[i * step] = on;
  } while (walk_next(&w));
}

// Parameters: shape of the output (N, Q, P, C), height and width of the input, strides of both; kernel, stride, padding,
// dilation of height and width; what an image, a row, a column and a channel add to a position.
void net_max_positions(const int64_t* d, const int8_t* input, int32_t* output) {
  const int64_t height = d[4], width = d[5];
  const int64_t *from = d + 6, *to = d + 10, *kernel = d + 14, *stride = d + 16, *padding = d + 18, *dilation = d + 20;
  const int64_t* add = d + 22;
  for (int64_t n = 0; n < d[0]; ++n)
    for (int64_t q = 0; q < d[1]; ++q)
      for (int64_t p = 0; p < d[2]; ++p)
        for (int64_t c = 0; c < d[3]; ++c) {
          int64_t best = -129, found = 0;
          for (int64_t s = 0; s < kernel[0]; ++s) {
            const int64_t y = q * stride[0] + s * dilation[0] - padding[0];
            if (y < 0 || y >= height) continue;
            for (int64_t r = 0; r < kernel[1]; ++r) {
              const int64_t x = p * stride[1] + r * dilation[1] - padding[1];
              if (x < 0 || x >= width) continue;
              const int64_t element = input[n * from[0] + y * from[1] + x * from[2] + c * from[3]];
              if (element > best) {
                best = element;
                found = n * add[0] + y * add[1] + x * add[2] + c * add[3];
              }
            }
          }
          output[n * to[0] + q * to[1] + p * to[2] + c * to[3]] = (int32_t)found;
        }
}

// Walk over the elements in their order (input, indices); elements of the output, their stride.
void net_unpool(const int64_t* d, const int8_t* input, const int32_t* indices, int8_t* output) {
  struct walk w;
  d = walk_begin(&w, d, 2);
  const int64_t size = d[0], step = d[1];
  for (int64_t i = 0; i < size; ++i) output[i * step] = 0;
  do {
    int64_t i = indices[w.at[1]];
    if (i < 0) i += size;
    if (i >= 0 && i < size) output[i * step] = input[w.at[0]];
  } while (walk_next(&w));
}

// Walk over the results (input, output); walk within a row (input) but its innermost dimension, that one's extent and stride.
void net_term_sum(const int64_t* d, const int8_t* input, const int64_t* terms, const int64_t* limits, int8_t* output) {
  struct walk rows, row;
  const int64_t* inner = walk_begin(&rows, d, 2);
  const int64_t* rest = walk_begin(&row, inner, 1);
  const int64_t n = rest[0], step = rest[1];
  do {
    int64_t total = 0;
    do {
      const int8_t* from = input + rows.at[0] + row.at[0];
      for (int64_t i = 0; i < n; ++i) total += terms[from[i * step] + 128];
    } while (walk_next(&row));
    int64_t low = 0, high = 255;  // how many limits are at most the total
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (limits[middle] <= total) low = middle + 1;
      else high = middle;
    }
    output[rows.at[1]] = (int8_t)(low - 128);
  } while (walk_next(&rows));
}
