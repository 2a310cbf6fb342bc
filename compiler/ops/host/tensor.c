// Products and convolutions that the accelerator cannot compute.
#include "host.h"

enum { SUMS = 2 };

// Stores a result: the sum itself where `relu` is SUMS, else an int8.
static void store(void* output, int64_t at, int32_t sum, int64_t relu, float scale) {
  if (relu == SUMS)
    ((int32_t*)output)[at] = sum;
  else
    ((int8_t*)output)[at] = saturated(requantised(relu && sum < 0 ? 0 : sum, scale));
}

// Walk over the batch (left, right, output); rows, columns, depth; strides: left row and depth, right depth and column,
// output row and column; whether ReLU (2: results are the sums, int32), bits of the scale. `bias` may be null.
void net_matmul(const int64_t* d, const int8_t* left, const int8_t* right, const int32_t* bias, void* output) {
  struct walk w;
  d = walk_begin(&w, d, 3);
  const int64_t rows = d[0], columns = d[1], depth = d[2];
  const float scale = as_float(d[10]);
  do {
    for (int64_t m = 0; m < rows; ++m) {
      for (int64_t n = 0; n < columns; ++n) {
        const int8_t* a = left + w.at[0] + m * d[3];
        const int8_t* b = right + w.at[1] + n * d[6];
        int32_t sum = bias ? bias[n] : 0;
        for (int64_t k = 0; k < depth; ++k, a += d[4], b += d[5]) sum += *a * *b;
        store(output, w.at[2] + m * d[7] + n * d[8], sum, d[9], scale);
      }
    }
  } while (walk_next(&w));
}

// Parameters: N, Q, P, groups, K and C of a group, S, R, height, width; stride, padding, dilation of height and width;
// strides of input (image, row, column, channel), weight (S, R, C, K) and output; whether ReLU (2: sums), bits of the scale.
void net_convolve(const int64_t* d, const int8_t* input, const int8_t* weight, const int32_t* bias, void* output) {
  const int64_t images = d[0], rows = d[1], columns = d[2], groups = d[3], outs = d[4], ins = d[5];
  const int64_t taps_h = d[6], taps_w = d[7], height = d[8], width = d[9];
  const int64_t *from = d + 16, *by = d + 20, *to = d + 24;
  const float scale = as_float(d[29]);
  for (int64_t n = 0; n < images; ++n)
    for (int64_t q = 0; q < rows; ++q)
      for (int64_t p = 0; p < columns; ++p)
        for (int64_t k = 0; k < groups * outs; ++k) {
          int32_t sum = bias ? bias[k] : 0;
          for (int64_t s = 0; s < taps_h; ++s) {
            const int64_t y = q * d[10] + s * d[14] - d[12];
            if (y < 0 || y >= height) continue;
            for (int64_t r = 0; r < taps_w; ++r) {
              const int64_t x = p * d[11] + r * d[15] - d[13];
              if (x < 0 || x >= width) continue;
              const int8_t* a = input + n * from[0] + y * from[1] + x * from[2] + k / outs * ins * from[3];
              const int8_t* b = weight + s * by[0] + r * by[1] + k * by[3];
              for (int64_t c = 0; c < ins; ++c, a += from[3], b += by[2]) sum += *a * *b;
            }
          }
          store(output, n * to[0] + q * to[1] + p * to[2] + k * to[3], sum, d[28], scale);
        }
}
