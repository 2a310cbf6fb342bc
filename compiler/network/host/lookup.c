// Tables of embeddings and of rotary position embeddings.
#include "host.h"

// Walk over the indices (indices, output); features, their strides in table and output; rows of the table, their stride.
void net_embed(const int64_t* d, const int32_t* indices, const int8_t* table, int8_t* output) {
  struct walk w;
  d = walk_begin(&w, d, 2);
  const int64_t n = d[0], from_step = d[1], to_step = d[2], rows = d[3], row_step = d[4];
  do {
    int64_t row = indices[w.at[0]];
    if (row < 0) row += rows;
    row = row < 0 ? 0 : row >= rows ? rows - 1 : row;
    const int8_t* from = table + row * row_step;
    int8_t* to = output + w.at[1];
    if (from_step == 1 && to_step == 1)
      __builtin_memcpy(to, from, (size_t)n);
    else
      FOR_EACH(i, n, int8_t, to[i * to_step], from[i * from_step]);
  } while (walk_next(&w));
}

// Walk over the rows (input, cosine, sine, output); pairs in a row; strides from pair to pair of the four; distance of
// the elements of a pair in input and output; shift.
void net_rotate(const int64_t* d, const int8_t* input, const int32_t* cosine, const int32_t* sine, int8_t* output) {
  struct walk w;
  d = walk_begin(&w, d, 4);
  const int64_t n = d[0], shift = d[7], half = (int64_t)1 << (shift - 1);
  do {
    for (int64_t i = 0; i < n; ++i) {
      const int8_t* from = input + w.at[0] + i * d[1];
      const int64_t c = cosine[w.at[1] + i * d[2]], s = sine[w.at[2] + i * d[3]];
      int8_t* to = output + w.at[3] + i * d[4];
      const int64_t a = from[0], b = from[d[5]];
      to[0] = saturated((a * c - b * s + half) >> shift);
      to[d[6]] = saturated((b * c + a * s + half) >> shift);
    }
  } while (walk_next(&w));
}
