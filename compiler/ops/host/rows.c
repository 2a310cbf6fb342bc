// Operators on whole rows. Parameters: walk over the rows, then the elements of a row.
#include "host.h"

INLINE int64_t largest_of(int64_t n, const int8_t* from, int64_t step) {
  int64_t largest = -128, i = 0;
  for (; i + 4 <= n; i += 4) {
    const int64_t a = from[i * step], b = from[(i + 1) * step], c = from[(i + 2) * step], d = from[(i + 3) * step];
    if (RARELY((a > largest) | (b > largest) | (c > largest) | (d > largest))) {
      const int64_t ab = a > b ? a : b, cd = c > d ? c : d;
      largest = ab > cd ? ab : cd;
    }
  }
  for (; i < n; ++i)
    if (from[i * step] > largest) largest = from[i * step];
  return largest;
}

enum { KEPT = 256 };  // exponentials of a row that are kept between the sum and the results

// A row of a softmax; `taken` may be null. The result of the largest element is the largest one, because the table
// falls from its first entry on.
INLINE void softmax_row(int64_t n, const int8_t* from, int64_t from_step, const int8_t* taken, int64_t taken_step,
                        const int32_t* table, int64_t numerator, int8_t* to, int64_t to_step) {
  int64_t largest = taken ? -128 : largest_of(n, from, from_step);
  for (int64_t i = 0; taken && i < n; ++i)
    if (RARELY(from[i * from_step] > largest) && taken[i * taken_step]) largest = from[i * from_step];
  const int32_t* below = table + largest;  // below[-x] belongs to an element x
  int32_t exponentials[KEPT];
  int64_t total = 0, kept = 0;
  for (; !taken && kept + 4 <= least(n, KEPT); kept += 4) {
    const int8_t* x = from + kept * from_step;
    const int32_t a = below[-x[0]], b = below[-x[from_step]], c = below[-x[2 * from_step]], d = below[-x[3 * from_step]];
    exponentials[kept] = a, exponentials[kept + 1] = b, exponentials[kept + 2] = c, exponentials[kept + 3] = d;
    total += ((int64_t)a + b) + ((int64_t)c + d);
  }
  for (int64_t i = kept; i < n; ++i)
    if (!taken || taken[i * taken_step]) total += below[-from[i * from_step]];
  const int64_t inverse = total ? least(numerator / total, 65535) : 0, half = (int64_t)1 << 23;
#define RESULT(exponential) (((exponential) * inverse + half) >> 24)
  if (taken) {
    FOR_EACH(i, n, int8_t, to[i * to_step],
             taken[i * taken_step] ? least(RESULT(below[-from[i * from_step]]), 127) : 0);
  } else if (RESULT(table[0]) <= 127) {
    FOR_EACH(i, kept, int8_t, to[i * to_step], RESULT(exponentials[i]));
    from += kept * from_step, to += kept * to_step;
    FOR_EACH(i, n - kept, int8_t, to[i * to_step], RESULT(below[-from[i * from_step]]));
  } else {  // a row with one large element
    FOR_EACH_SATURATED(i, kept, to[i * to_step], RESULT(exponentials[i]));
    from += kept * from_step, to += kept * to_step;
    FOR_EACH_SATURATED(i, n - kept, to[i * to_step], RESULT(below[-from[i * from_step]]));
  }
#undef RESULT
}

// `mask` may be null. Row: extent, strides of input, output and mask; then the numerator.
void net_softmax(const int64_t* d, const int8_t* input, const int32_t* table, const int8_t* mask, int8_t* output) {
  struct walk w;
  d = walk_begin(&w, d, 3);
  const int64_t n = d[0], from_step = d[1], to_step = d[2], mask_step = d[3], numerator = d[4];
  do {
    const int8_t* from = input + w.at[0];
    int8_t* to = output + w.at[1];
    if (!mask && from_step == 1 && to_step == 1)
      softmax_row(n, from, 1, 0, 0, table, numerator, to, 1);
    else
      softmax_row(n, from, from_step, mask ? mask + w.at[2] : 0, mask_step, table, numerator, to, to_step);
  } while (walk_next(&w));
}

INLINE void sum_row(int64_t n, const int8_t* from, int64_t step, int64_t* sum, int64_t* squares) {
  int64_t s = 0, q = 0;
#pragma clang loop unroll_count(4)
  for (int64_t i = 0; i < n; ++i) {
    const int64_t x = from[i * step];
    s += x;
    q += x * x;
  }
  *sum += s;
  *squares += q;
}

// The elements of a row, normalised to 12 fraction bits by (x * factor + addend) / 2^8; `wide` if that may take more than
// 20 bits and is limited to them.
INLINE void normalise_row(int64_t n, int64_t factor, int64_t addend, int64_t shift, const int8_t* from,
                          int64_t from_step, const int32_t* gain, int64_t gain_step, const int32_t* offset,
                          int64_t offset_step, int8_t* to, int64_t to_step, int wide) {
#define NORMAL(i) ((from[(i) * from_step] * factor + addend) >> 8)
#define RESULT(i, t) (((((t) * gain[(i) * gain_step]) >> (shift - 7)) + offset[(i) * offset_step]) >> 7)
  if (RARELY(wide)) {
    for (int64_t i = 0; i < n; ++i) to[i * to_step] = saturated(RESULT(i, limited(NORMAL(i), 1 << 19)));
    return;
  }
  FOR_EACH_SATURATED(i, n, to[i * to_step], RESULT(i, NORMAL(i)));
#undef NORMAL
#undef RESULT
}

// Walk over the rows and then one within a row, each over input, gain, offset and output; extent of the innermost
// dimension and its four strides; elements of a row, whether to centre, epsilon, shift. Offsets come with 2^6 added, the
// half that rounds.
void net_normalise(const int64_t* d, const int8_t* input, const int32_t* gain, const int32_t* offset, int8_t* output) {
  struct walk rows, row;
  const int64_t* within = walk_begin(&rows, d, 4);
  const int64_t* step = walk_begin(&row, within, 4);
  const int64_t extent = step[0], n = step[5], centre = step[6], epsilon = step[7], shift = step[8];
  const int dense = step[1] == 1 && step[2] == 1 && step[3] == 1 && step[4] == 1;
  do {
    int64_t sum = 0, squares = 0;
    do {
      const int8_t* from = input + rows.at[0] + row.at[0];
      if (dense)
        sum_row(extent, from, 1, &sum, &squares);
      else
        sum_row(extent, from, step[1], &sum, &squares);
    } while (walk_next(&row));
    if (!centre) sum = 0;
    const int64_t found = root_of((uint64_t)(n * squares - sum * sum + epsilon)), root = found ? found : 1;
    const int64_t factor = least((n << 28) / root, (1 << 28) - 1);
    const int64_t mean = least(((sum < 0 ? -sum : sum) << 28) / root, ((int64_t)1 << 36) - 1);
    const int64_t addend = 128 - (sum < 0 ? -mean : mean), most = 1 << 27;
    const int wide = 127 * factor + addend >= most || -128 * factor + addend < -most;
    do {
      const int8_t* from = input + rows.at[0] + row.at[0];
      const int32_t* gains = gain + rows.at[1] + row.at[1];
      const int32_t* offsets = offset + rows.at[2] + row.at[2];
      int8_t* to = output + rows.at[3] + row.at[3];
      if (dense)
        normalise_row(extent, factor, addend, shift, from, 1, gains, 1, offsets, 1, to, 1, wide);
      else
        normalise_row(extent, factor, addend, shift, from, step[1], gains, step[2], offsets, step[3], to, step[4], wide);
    } while (walk_next(&row));
  } while (walk_next(&rows));
}

enum { TOTALS = 64, WORDS = TOTALS / 8 };  // a cache line of neighbouring results

// Sums of up to MOST_ADDED elements for each of TOTALS results, eight elements at a time: each element, as a number from
// 0 to 255, is added to 16 bits of its own, every other one in `even`, the rest in `odd`.
struct sums {
  uint64_t even[WORDS], odd[WORDS];
};
enum { MOST_ADDED = 256 };

INLINE void sums_add(struct sums* s, const int8_t* from) {
  const uint64_t* words = (const uint64_t*)from;
  const uint64_t every_other = 0x00ff00ff00ff00ff;
#pragma clang loop unroll(full)
  for (int64_t i = 0; i < WORDS; ++i) {
    const uint64_t x = words[i] ^ 0x8080808080808080;
    s->even[i] += x & every_other;
    s->odd[i] += x >> 8 & every_other;
  }
}

// Moves the sums of `count` elements to the totals.
static void sums_flush(struct sums* s, int64_t count, int64_t* totals) {
  for (int64_t i = 0; i < WORDS; ++i) {
    for (int64_t k = 0; k < 4; ++k) {
      totals[8 * i + 2 * k] += (int64_t)(s->even[i] >> 16 * k & 0xffff) - 128 * count;
      totals[8 * i + 2 * k + 1] += (int64_t)(s->odd[i] >> 16 * k & 0xffff) - 128 * count;
    }
    s->even[i] = s->odd[i] = 0;
  }
}

// Adds (or takes the largest, smallest of) one element to each of `lanes` totals.
INLINE void reduce_into(int64_t* totals, int64_t lanes, const int8_t* from, int64_t step, int64_t function) {
  if (function == 0)
    FOR_EACH(i, lanes, int64_t, totals[i], totals[i] + from[i * step]);
  else if (function == 1)
    FOR_EACH(i, lanes, int64_t, totals[i], totals[i] < from[i * step] ? from[i * step] : totals[i]);
  else
    FOR_EACH(i, lanes, int64_t, totals[i], totals[i] > from[i * step] ? from[i * step] : totals[i]);
}

// Walk over the results (input, output) but the innermost dimension, that one's extent and two strides; walk within a
// row (input) but its innermost dimension, that one's extent and stride; function: 0 sum, 1 maximum, 2 minimum;
// multiplier, shift.
//
// Where neighbouring results read neighbouring elements (averages of images with channels last), many of them advance
// together, so that a line of memory is read once.
void net_reduce(const int64_t* d, const int8_t* input, int8_t* output) {
  struct walk rows, row;
  const int64_t* inner = walk_begin(&rows, d, 2);
  const int64_t results = inner[0], from_step = inner[1], to_step = inner[2];
  const int64_t* rest = walk_begin(&row, inner + 3, 1);
  const int64_t extent = rest[0], step = rest[1], function = rest[2], multiplier = rest[3], shift = rest[4];
  const int64_t most = from_step == 1 ? TOTALS : 1;
  int64_t totals[TOTALS];
  struct sums sums = {{0}, {0}};
  int64_t added = 0;
  do {
    for (int64_t first = 0; first < results; first += most) {
      const int64_t lanes = least(most, results - first);
      const int8_t* from = input + rows.at[0] + first * from_step;
      for (int64_t i = 0; i < lanes; ++i) totals[i] = function ? from[i * from_step] : 0;
      do {
        const int8_t* element = from + row.at[0];
        if (lanes == 1) {
          int64_t total = totals[0];
          for (int64_t i = 0; i < extent; ++i) {
            const int64_t x = element[i * step];
            if (function == 0) total += x;
            else if (RARELY(function == 1 ? x > total : x < total)) total = x;
          }
          totals[0] = total;
        } else {
          for (int64_t i = 0; i < extent; ++i, element += step) {
            if (function || lanes < TOTALS || (uintptr_t)element & 7) {
              reduce_into(totals, lanes, element, 1, function);
              continue;
            }
            sums_add(&sums, element);
            if (++added == MOST_ADDED) sums_flush(&sums, added, totals), added = 0;
          }
        }
      } while (walk_next(&row));
      if (added) sums_flush(&sums, added, totals), added = 0;
      int8_t* to = output + rows.at[1] + first * to_step;
      for (int64_t i = 0; i < lanes; ++i) to[i * to_step] = saturated(rescaled(totals[i], multiplier, shift));
    }
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
