// Operators on whole rows. Parameters: walk over the rows, then the elements of a row.
#include "host.h"

// `mask` may be null. Row: extent, strides of input, output and mask; then the numerator.
void net_softmax(const int64_t* d, const int8_t* input, const int32_t* table, const int8_t* mask, int8_t* output) {
  struct walk w;
  d = walk_begin(&w, d, 3);
  const int64_t n = d[0], from_step = d[1], to_step = d[2], mask_step = d[3], numerator = d[4];
  do {
    const int8_t* from = input + w.at[0];
    int8_t* to = output + w.at[1];
    const int8_t* taken = mask ? mask + w.at[2] : 0;
    int64_t largest = -129;
    for (int64_t i = 0; i < n; ++i)
      if ((!taken || taken[i * mask_step]) && from[i * from_step] > largest) largest = from[i * from_step];
    int64_t total = 0;
    for (int64_t i = 0; i < n; ++i)
      if (!taken || taken[i * mask_step]) total += table[largest - from[i * from_step]];
    const int64_t inverse = total ? numerator / total : 0;
    for (int64_t i = 0; i < n; ++i) {
      int64_t result = 0;
      if (!taken || taken[i * mask_step])
        result = (table[largest - from[i * from_step]] * inverse + ((int64_t)1 << 39)) >> 40;
      to[i * to_step] = (int8_t)(result > 127 ? 127 : result);
    }
  } while (walk_next(&w));
}

// Floor of the square root.
static uint64_t square_root(uint64_t x) {
  uint64_t root = 0;
  for (uint64_t bit = (uint64_t)1 << 62; bit; bit >>= 2) {
    if (x >= root + bit) {
      x -= root + bit;
      root = (root >> 1) + bit;
    } else {
      root >>= 1;
    }
  }
  return root;
}

// Walk over the rows and then one within a row, each over input, gain, shift_by and output; extent of the innermost
// dimension and its four strides; elements of a row, whether to centre, epsilon, fraction, shift.
void net_normalise(const int64_t* d, const int8_t* input, const int32_t* gain, const int64_t* shift_by,
                   int8_t* output) {
  struct walk rows, row;
  const int64_t* within = walk_begin(&rows, d, 4);
  const int64_t* step = walk_begin(&row, within, 4);
  const int64_t extent = step[0], n = step[5], centre = step[6], epsilon = step[7], fraction = step[8], shift = step[9];
  const int64_t half = (int64_t)1 << (shift - 1);
  do {
    int64_t sum = 0, squares = 0;
    do {
      const int8_t* from = input + rows.at[0] + row.at[0];
      for (int64_t i = 0; i < extent; ++i, from += step[1]) {
        const int64_t x = *from;
        sum += x;
        squares += x * x;
      }
    } while (walk_next(&row));
    if (!centre) sum = 0;
    const uint64_t variance = (uint64_t)(n * squares - sum * sum + epsilon);
    const uint64_t root = square_root(variance << (2 * fraction));
    const int64_t inverse = ((int64_t)1 << (40 + fraction)) / (int64_t)(root ? root : 1);
    do {
      const int8_t* from = input + rows.at[0] + row.at[0];
      const int32_t* factor = gain + rows.at[1] + row.at[1];
      const int64_t* addend = shift_by + rows.at[2] + row.at[2];
      int8_t* to = output + rows.at[3] + row.at[3];
      for (int64_t i = 0; i < extent; ++i) {
        const int64_t y = ((n * *from - sum) * inverse + (1 << 23)) >> 24;
        *to = saturated((y * *factor + *addend + half) >> shift);
        from += step[1], factor += step[2], addend += step[3], to += step[4];
      }
    } while (walk_next(&row));
  } while (walk_next(&rows));
}

// Walk over the results (input, output), walk within a row (input); function: 0 sum, 1 maximum, 2 minimum;
// multiplier, shift.
void net_reduce(const int64_t* d, const int8_t* input, int8_t* output) {
  struct walk rows, row;
  const int64_t* inner = walk_begin(&rows, d, 2);
  const int64_t* rest = walk_begin(&row, inner, 1);
  const int64_t function = rest[0], multiplier = rest[1], shift = rest[2];
  do {
    int64_t total = function ? input[rows.at[0]] : 0;
    do {
      const int64_t x = input[rows.at[0] + row.at[0]];
      if (function == 0) total += x;
      else if (function == 1 ? x > total : x < total) total = x;
    } while (walk_next(&row));
    output[rows.at[1]] = saturated(rescaled(total, multiplier, shift));
  } while (walk_next(&rows));
}

// Walk over the results (input, output); elements of a row, their stride; whether the last one wins, whether the
// smallest is wanted.
void net_argmax(const int64_t* d, const int8_t* input, int32_t* output) {
  struct walk w;
  d = walk_begin(&w, d, 2);
  const int64_t n = d[0], step = d[1], last = d[2], sign = d[3] ? -1 : 1;
  do {
    const int8_t* from = input + w.at[0];
    int64_t best = 0, most = sign * from[0];
    for (int64_t i = 1; i < n; ++i) {
      const int64_t x = sign * from[i * step];
      if (x > most || (last && x == most)) {
        most = x;
        best = i;
      }
    }
    output[w.at[1]] = (int32_t)best;
  } while (walk_next(&w));
}
