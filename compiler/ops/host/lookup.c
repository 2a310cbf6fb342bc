// Tables of embeddings and of rotary position embeddings.
#include "host.h"

// Of elements of a type.
#define EMBED(type)                                                                                 \
  struct walk w;                                                                                    \
  d = walk_begin(&w, d, 2);                                                                         \
  const int64_t n = d[0], from_step = d[1], to_step = d[2], rows = d[3], row_step = d[4];           \
  do {                                                                                              \
    int64_t row = indices[w.at[0]];                                                                 \
    if (row < 0) row += rows;                                                                       \
    row = row < 0 ? 0 : row >= rows ? rows - 1 : row;                                               \
    const type* from = table + row * row_step;                                                      \
    type* to = output + w.at[1];                                                                    \
    if (from_step == 1 && to_step == 1)                                                             \
      __builtin_memcpy(to, from, (size_t)n * sizeof(type));                                         \
    else                                                                                            \
      FOR_EACH(i, n, type, to[i * to_step], from[i * from_step]);                                   \
  } while (walk_next(&w))

// Walk over the indices (indices, output); features, their strides in table and output; rows of the table, their stride.
void net_embed(const int64_t* d, const int32_t* indices, const int8_t* table, int8_t* output) { EMBED(int8_t); }

// The same of elements of 16 bits.
void net_embed_wide(const int64_t* d, const int32_t* indices, const int16_t* table, int16_t* output) {
  EMBED(int16_t);
}

enum { PAIRS = 4 };  // that are turned before the first is stored: loads need not wait for stores, nor for one another

// Turns `pairs` pairs, at most PAIRS.
INLINE void rotate_pairs(int64_t pairs, const int8_t* from, int64_t step, int64_t apart, const int8_t* cosine,
                         int64_t cosine_step, const int8_t* sine, int64_t sine_step, int8_t* to, int64_t to_step,
                         int64_t to_apart, float scale) {
  int64_t first[PAIRS], second[PAIRS];
  uint64_t range = 0;
  for (int64_t i = 0; i < pairs; ++i) {
    const int32_t a = from[i * step], b = from[i * step + apart], c = cosine[i * cosine_step], s = sine[i * sine_step];
    first[i] = requantised(a * c - b * s, scale);
    second[i] = requantised(b * c + a * s, scale);
    range |= (uint64_t)(first[i] + 128) | (uint64_t)(second[i] + 128);
  }
  if (RARELY(range > 255))
    for (int64_t i = 0; i < pairs; ++i) first[i] = saturated(first[i]), second[i] = saturated(second[i]);
  for (int64_t i = 0; i < pairs; ++i) {
    to[i * to_step] = (int8_t)first[i];
    to[i * to_step + to_apart] = (int8_t)second[i];
  }
}

INLINE void rotate_row(int64_t n, const int8_t* from, int64_t step, int64_t apart, const int8_t* cosine,
                       int64_t cosine_step, const int8_t* sine, int64_t sine_step, int8_t* to, int64_t to_step,
                       int64_t to_apart, float scale) {
  for (; n >= PAIRS; n -= PAIRS) {
    rotate_pairs(PAIRS, from, step, apart, cosine, cosine_step, sine, sine_step, to, to_step, to_apart, scale);
    from += PAIRS * step, cosine += PAIRS * cosine_step, sine += PAIRS * sine_step, to += PAIRS * to_step;
  }
  for (; n > 0; --n) {
    rotate_pairs(1, from, step, apart, cosine, cosine_step, sine, sine_step, to, to_step, to_apart, scale);
    from += step, cosine += cosine_step, sine += sine_step, to += to_step;
  }
}

// Walk over the rows (input, cosine, sine, output); pairs in a row; strides from pair to pair of the four; distance of
// the elements of a pair in input and output; bits of the scale.
void net_rotate(const int64_t* d, const int8_t* input, const int8_t* cosine, const int8_t* sine, int8_t* output) {
  struct walk w;
  d = walk_begin(&w, d, 4);
  const int64_t n = d[0];
  const float scale = as_float(d[7]);
  do {
    const int8_t* from = input + w.at[0];
    const int8_t *c = cosine + w.at[1], *s = sine + w.at[2];
    int8_t* to = output + w.at[3];
    if (d[1] == 1 && d[2] == 1 && d[3] == 1 && d[4] == 1)
      rotate_row(n, from, 1, d[5], c, 1, s, 1, to, 1, d[6], scale);
    else
      rotate_row(n, from, d[1], d[5], c, d[2], s, d[3], to, d[4], d[6], scale);
  } while (walk_next(&w));
}
