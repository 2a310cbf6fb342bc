// What a quantised model leaves in real numbers: float32 in memory, each result rounded once from float64 operations that
// compiler/ops/elementary.py and compiler/ops/floating.py do in the same order.
#include "real.h"

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
