// Windows over images with channels last. Operands of images have four strides: image, row, column, channel.
#include "host.h"

struct image_walk {
  int64_t images, rows, columns, channels;  // of the result
  int64_t height, width;                    // of the input
  const int64_t* from;                      // strides
  const int64_t* to;
};

// Parameters: result's four extents, input's height and width, strides of input and output.
static const int64_t* image_begin(struct image_walk* w, const int64_t* d) {
  w->images = d[0], w->rows = d[1], w->columns = d[2], w->channels = d[3];
  w->height = d[4], w->width = d[5];
  w->from = d + 6;
  w->to = d + 10;
  return d + 14;
}

// First and last+1 tap of a window that is inside the image, when it begins at `start`.
static inline void taps_inside(int64_t start, int64_t taps, int64_t dilation, int64_t size, int64_t* first,
                               int64_t* last) {
  *first = start < 0 ? (-start + dilation - 1) / dilation : 0;
  *last = start < size ? least(taps, (size - 1 - start) / dilation + 1) : 0;
}

// Further parameters: kernel, stride, padding, dilation, each of height and width.
void net_max_pool(const int64_t* d, const int8_t* input, int8_t* output) {
  struct image_walk w;
  d = image_begin(&w, d);
  for (int64_t n = 0; n < w.images; ++n) {
    for (int64_t q = 0; q < w.rows; ++q) {
      const int64_t top = q * d[2] - d[4];
      int64_t s0, s1;
      taps_inside(top, d[0], d[6], w.height, &s0, &s1);
      for (int64_t p = 0; p < w.columns; ++p) {
        const int64_t left = p * d[3] - d[5];
        int64_t r0, r1;
        taps_inside(left, d[1], d[7], w.width, &r0, &r1);
        const int8_t* from = input + n * w.from[0] + (top + s0 * d[6]) * w.from[1] + (left + r0 * d[7]) * w.from[2];
        int8_t* to = output + n * w.to[0] + q * w.to[1] + p * w.to[2];
        const int64_t row_step = d[6] * w.from[1], column_step = d[7] * w.from[2];
        for (int64_t c = 0; c < w.channels; ++c, from += w.from[3], to += w.to[3]) {
          int8_t most = -128;
          const int8_t* row = from;
          for (int64_t s = s0; s < s1; ++s, row += row_step) {
            const int8_t* one = row;
            for (int64_t r = r0; r < r1; ++r, one += column_step) most = *one > most ? *one : most;
          }
          *to = most;
        }
      }
    }
  }
}

// Further parameters: kernel, stride, padding, strides of the factors by result row and column, shift.
void net_average_pool(const int64_t* d, const int8_t* input, const int32_t* factor, int8_t* output) {
  struct image_walk w;
  d = image_begin(&w, d);
  const int64_t shift = d[8];
  for (int64_t n = 0; n < w.images; ++n) {
    for (int64_t q = 0; q < w.rows; ++q) {
      const int64_t top = q * d[2] - d[4];
      int64_t s0, s1;
      taps_inside(top, d[0], 1, w.height, &s0, &s1);
      for (int64_t p = 0; p < w.columns; ++p) {
        const int64_t left = p * d[3] - d[5];
        int64_t r0, r1;
        taps_inside(left, d[1], 1, w.width, &r0, &r1);
        const int64_t multiplier = factor[q * d[6] + p * d[7]];
        const int8_t* from = input + n * w.from[0] + (top + s0) * w.from[1] + (left + r0) * w.from[2];
        int8_t* to = output + n * w.to[0] + q * w.to[1] + p * w.to[2];
        for (int64_t c = 0; c < w.channels; ++c, from += w.from[3], to += w.to[3]) {
          int64_t sum = 0;
          const int8_t* row = from;
          for (int64_t s = s0; s < s1; ++s, row += w.from[1]) {
            const int8_t* one = row;
            for (int64_t r = r0; r < r1; ++r, one += w.from[2]) sum += *one;
          }
          *to = saturated(rescaled(sum, multiplier, shift));
        }
      }
    }
  }
}

// Further parameters: strides of `rows` and of `columns` (of an entry and of its three numbers).
void net_resize(const int64_t* d, const int8_t* input, const int32_t* rows, const int32_t* columns, int8_t* output) {
  struct image_walk w;
  d = image_begin(&w, d);
  const int64_t one = 1 << 11;
  for (int64_t n = 0; n < w.images; ++n) {
    const int8_t* image = input + n * w.from[0];
    for (int64_t q = 0; q < w.rows; ++q) {
      const int32_t* row = rows + q * d[0];
      const int8_t* above = image + row[0] * w.from[1];
      const int8_t* below = image + row[d[1]] * w.from[1];
      const int64_t f = row[2 * d[1]];
      for (int64_t p = 0; p < w.columns; ++p) {
        const int32_t* column = columns + p * d[2];
        const int64_t left = column[0] * w.from[2], right = column[d[3]] * w.from[2], g = column[2 * d[3]];
        int8_t* to = output + n * w.to[0] + q * w.to[1] + p * w.to[2];
        for (int64_t c = 0; c < w.channels; ++c, to += w.to[3]) {
          const int64_t at = c * w.from[3];
          const int64_t top = above[left + at] * (one - g) + above[right + at] * g;
          const int64_t bottom = below[left + at] * (one - g) + below[right + at] * g;
          *to = saturated((top * (one - f) + bottom * f + ((int64_t)1 << 21)) >> 22);
        }
      }
    }
  }
}
