// Operators on whole rows. Parameters: walk over the rows, then the elements of a row.
#include "host.h"

// `volatile` has all loads begin before the first comparison waits for one.
INLINE int64_t largest_of(int64_t n, const int8_t* from, int64_t step, int64_t largest) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    int64_t x[8];
    for (int64_t k = 0; k < 8; ++k) x[k] = *(const volatile int8_t*)(from + (i + k) * step);
    for (int64_t k = 0; k < 8; ++k)
      if (RARELY(x[k] > largest)) largest = x[k];
  }
  for (; i < n; ++i)
    if (RARELY(from[i * step] > largest)) largest = from[i * step];
  return largest;
}

// A row of a softmax; `taken` may be null. The result of the largest element is the largest one, because the table
// falls from its first entry on.
INLINE void softmax_row(int64_t n, const int8_t* from, int64_t from_step, const int8_t* taken, int64_t taken_step,
                        const int32_t* table, int64_t numerator, int8_t* to, int64_t to_step) {
  int64_t largest = taken ? -128 : largest_of(n, from, from_step, -128);
  for (int64_t i = 0; taken && i < n; ++i)
    if (RARELY(from[i * from_step] > largest) && taken[i * taken_step]) largest = from[i * from_step];
  const int32_t* below = table + largest;  // below[-x] belongs to an element x
  int64_t total = 0;
  for (int64_t i = 0; i < n; ++i)
    if (!taken || taken[i * taken_step]) total += below[-from[i * from_step]];
  const int64_t inverse = total ? least(numerator / total, 65535) : 0, half = (int64_t)1 << 23;
#define RESULT(exponential) (((exponential) * inverse + half) >> 24)
  if (taken)
    FOR_EACH(i, n, int8_t, to[i * to_step],
             taken[i * taken_step] ? least(RESULT(below[-from[i * from_step]]), 127) : 0);
  else if (RESULT(table[0]) <= 127)
    FOR_EACH(i, n, int8_t, to[i * to_step], RESULT(below[-from[i * from_step]]));
  else  // a row with one large element
    FOR_EACH_SATURATED(i, n, to[i * to_step], RESULT(below[-from[i * from_step]]));
}

enum { KEPT = 1024 };  // exponentials of a row that are kept between the sum and the results
enum { SHORT = 16 };   // rows that are no faster by eights

// The exponentials of eight neighbours: of the k-th one in the lower half of pair k, of the (k + 4)-th in the upper.
INLINE int64_t exponentials_of(const int8_t* x, const int32_t* below, uint32_t* pairs) {
  const uint32_t a = below[-x[0]], b = below[-x[1]], c = below[-x[2]], d = below[-x[3]];
  const uint32_t e = below[-x[4]], f = below[-x[5]], g = below[-x[6]], h = below[-x[7]];
  pairs[0] = a, pairs[2] = b, pairs[4] = c, pairs[6] = d;
  pairs[1] = e, pairs[3] = f, pairs[5] = g, pairs[7] = h;
  return (((int64_t)a + b) + ((int64_t)c + d)) + (((int64_t)e + f) + ((int64_t)g + h));
}

// Stores the results of the products in `pair`, and makes the product of the next pair. Multipliers like Rocket's take one product
// at a time, the longer the larger the first factor is, and their products reach the registers in a cycle in which nothing else does:
// while a byte is stored.
#define NEXT_RESULTS(at, pair, next)                                                                                 \
  {                                                                                                                  \
    uint64_t lower;                                                                                                  \
    __asm__ volatile("add %1, %1, %3\n srli %0, %1, 24\n sb %0, %4\n srli %1, %1, 56\n sb %1, %5\n mul %1, %6, %2"   \
                     : "=&r"(lower), "+&r"(pair)                                                                     \
                     : "r"(next), "r"(half), "m"(to[at]), "m"(to[(at) + 4]), "r"(inverse)                            \
                     : "memory");                                                                                    \
  }

// Results of `n` kept exponentials, a multiple of 8: two products at a time, of which none is above 127, so that nothing
// carries from the lower half to the upper.
INLINE void results_of(int64_t n, const uint64_t* pairs, uint64_t inverse, int8_t* to) {
  const uint64_t half = 0x0080000000800000;
  uint64_t a = pairs[0] * inverse, b = pairs[1] * inverse, c = pairs[2] * inverse, d = pairs[3] * inverse;
  for (int8_t* end = to + n; to < end; to += 8) {
    pairs += 4;  // behind the last ones is room, and what is there does not count
    const uint64_t p = pairs[0], q = pairs[1], r = pairs[2], s = pairs[3];
    NEXT_RESULTS(0, a, p);
    NEXT_RESULTS(1, b, q);
    NEXT_RESULTS(2, c, r);
    NEXT_RESULTS(3, d, s);
  }
}
#undef NEXT_RESULTS

// A row with one large element.
static APART void limited_results(int64_t n, const int8_t* from, const int32_t* below, int64_t inverse, int8_t* to) {
  const int64_t half = (int64_t)1 << 23;
  FOR_EACH_SATURATED(i, n, to[i], RESULT(below[-from[i]]));
}

// A row of a softmax whose elements and results are neighbours, and all take part; in `pairs` is room for what is kept.
static APART void softmax_of_neighbours(int64_t n, const int8_t* from, const int32_t* table, int64_t numerator, int8_t* to,
                                        uint64_t* pairs) {
  const int32_t* below = table + largest_of(n, from, 1, -128);
  int64_t total = 0;
  const int64_t first = least(n, -(uintptr_t)to & 7), kept = least(n - first, KEPT) & -8;  // results are stored by words
  for (int64_t i = 0; i < first; ++i) total += below[-from[i]];
  for (int64_t i = 0; i < kept; i += 8) total += exponentials_of(from + first + i, below, (uint32_t*)pairs + i);
  for (int64_t i = first + kept; i < n; ++i) total += below[-from[i]];
  const int64_t inverse = total ? least(numerator / total, 65535) : 0, half = (int64_t)1 << 23;
  if (RARELY(RESULT(table[0]) > 127)) {
    limited_results(n, from, below, inverse, to);
    return;
  }
  for (int64_t i = 0; i < first; ++i) to[i] = (int8_t)RESULT(below[-from[i]]);
  if (kept) results_of(kept, pairs, (uint64_t)inverse, to + first);
  for (int64_t i = first + kept; i < n; ++i) to[i] = (int8_t)RESULT(below[-from[i]]);
}

static APART void softmax_of_all_neighbours(struct walk* w, int64_t n, const int8_t* input, const int32_t* table,
                                            int64_t numerator, int8_t* output) {
  const int64_t rows = walk_inner(w), from_row = walk_step(w, 0), to_row = walk_step(w, 1);
  uint64_t pairs[KEPT / 2 + 4];
  do {
    const int8_t* from = input + w->at[0];
    int8_t* to = output + w->at[1];
    for (int64_t i = 0; i < rows; ++i, from += from_row, to += to_row) {
      if (n < SHORT)
        softmax_row(n, from, 1, 0, 0, table, numerator, to, 1);
      else
        softmax_of_neighbours(n, from, table, numerator, to, pairs);
    }
  } while (walk_next_outer(w));
}

// Statements for eight neighbours from i on, or for fewer at the end of a row.
#define EACH(k, count, statement) \
  for (int64_t k = 0; k < (count); ++k) { statement; }
#define BY_EIGHTS(body)                        \
  do {                                         \
    int64_t i = 0;                             \
    for (; i + 8 <= n; i += 8) body(8);        \
    for (; i < n; ++i) body(1);                \
  } while (0)

// A row of which those elements take part whose `taken` is not 0: without branches, as numbers from 0 on that are 0 for all
// others. In `kept` is room for the exponentials.
static APART void masked_softmax_row(int64_t n, const int8_t* from, const int8_t* taken, const int32_t* table, int64_t numerator,
                                     int8_t* to, int32_t* kept) {
  int64_t x[8], part[8], largest = 0, total = 0;
#define READ(count)                                                                  \
  EACH(k, count, x[k] = *(const volatile int8_t*)(from + i + k))                     \
  EACH(k, count, part[k] = -(int64_t)(0 != *(const volatile int8_t*)(taken + i + k))) \
  EACH(k, count, x[k] = (x[k] + 128) & part[k])
#define LARGEST(count) { READ(count) EACH(k, count, if (RARELY(x[k] > largest)) largest = x[k]) }
  BY_EIGHTS(LARGEST);
  const int32_t* below = table + largest;
#define EXPONENTIALS(count)                                \
  {                                                        \
    READ(count)                                            \
    EACH(k, count, x[k] = below[-x[k]])                    \
    EACH(k, count, x[k] &= part[k])                        \
    EACH(k, count, kept[i + k] = (int32_t)x[k])            \
    EACH(k, count, total += x[k])                          \
  }
  BY_EIGHTS(EXPONENTIALS);
  const int64_t inverse = total ? least(numerator / total, 65535) : 0, half = (int64_t)1 << 23;
  if (RARELY(RESULT((int64_t)table[0]) > 127))
    FOR_EACH(i, n, int8_t, to[i], least(RESULT((int64_t)kept[i]), 127));
  else
    FOR_EACH(i, n, int8_t, to[i], RESULT((int64_t)kept[i]));
#undef READ
#undef LARGEST
#undef EXPONENTIALS
}
#undef BY_EIGHTS
#undef EACH
#undef RESULT

static APART void masked_softmax_of_neighbours(struct walk* w, int64_t n, const int8_t* input, const int32_t* table,
                                               int64_t numerator, const int8_t* mask, int8_t* output) {
  const int64_t rows = walk_inner(w), from_row = walk_step(w, 0), to_row = walk_step(w, 1), mask_row = walk_step(w, 2);
  int32_t kept[KEPT];
  do {
    const int8_t *from = input + w->at[0], *taken = mask + w->at[2];
    int8_t* to = output + w->at[1];
    for (int64_t i = 0; i < rows; ++i, from += from_row, to += to_row, taken += mask_row)
      masked_softmax_row(n, from, taken, table, numerator, to, kept);
  } while (walk_next_outer(w));
}

// `mask` may be null. Row: extent, strides of input, output and mask; then the numerator.
void net_softmax(const int64_t* d, const int8_t* input, const int32_t* table, const int8_t* mask, int8_t* output) {
  struct walk w;
  d = walk_begin(&w, d, 3);
  const int64_t n = d[0], from_step = d[1], to_step = d[2], mask_step = d[3], numerator = d[4];
  if (!mask && from_step == 1 && to_step == 1) {
    softmax_of_all_neighbours(&w, n, input, table, numerator, output);
    return;
  }
  if (mask && from_step == 1 && to_step == 1 && mask_step == 1 && n <= KEPT) {
    masked_softmax_of_neighbours(&w, n, input, table, numerator, mask, output);
    return;
  }
  do {
    softmax_row(n, input + w.at[0], from_step, mask ? mask + w.at[2] : 0, mask_step, table, numerator,
                output + w.at[1], to_step);
  } while (walk_next(&w));
}

// x * y + z, rounded once. Here and below `volatile` keeps the order of operations that hides their latencies.
INLINE double product_sum(double x, double y, double z) {
  double sum;
  __asm__ volatile("fmadd.d %0, %1, %2, %3" : "=f"(sum) : "f"(x), "f"(y), "f"(z));
  return sum;
}

// Sum and sum of squares of a row. Host cores have a pipelined multiplier of floating-point numbers, and often none of
// integers; sums of fewer than 2^53 are exact in it.
INLINE void sum_row(int64_t n, const int8_t* from, int64_t step, int64_t* sum, int64_t* squares) {
  enum { LANES = 8 };
  int64_t total = 0, i = 0;
  double sums[LANES / 2] = {0};
  for (; i + LANES <= n; i += LANES) {
    int32_t x[LANES];
    double y[LANES];
    for (int64_t k = 0; k < LANES; ++k) x[k] = from[(i + k) * step];
    for (int64_t k = 0; k < LANES; ++k) y[k] = x[k];
    for (int64_t k = 0; k < LANES; ++k) total += x[k];
    for (int64_t k = 0; k < LANES; ++k) sums[k % (LANES / 2)] = product_sum(y[k], y[k], sums[k % (LANES / 2)]);
  }
  for (; i < n; ++i) {
    const int32_t x = from[i * step];
    total += x;
    sums[0] += (double)(x * x);
  }
  *sum += total;
  *squares += (int64_t)((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

// What the elements x of a row become: x * factor + addend, rounded down by 8 bits, are normalised elements with 12
// fraction bits; `wide` if that may take more than 20 bits and is limited to them.
enum { SIDE_BY_SIDE = 8 };
struct normal {
  int64_t factor, addend;
  int wide;
};

INLINE struct normal normal_of(int64_t n, int64_t sum, int64_t squares, int64_t epsilon) {
  const int64_t found = root_of((uint64_t)(n * squares - sum * sum + epsilon)), root = found ? found : 1;
  const int64_t factor = least((n << 28) / root, (1 << 28) - 1);
  const int64_t mean = least(((sum < 0 ? -sum : sum) << 28) / root, ((int64_t)1 << 36) - 1);
  const int64_t addend = 128 - (sum < 0 ? -mean : mean), most = 1 << 27;
  return (struct normal){factor, addend, 127 * factor + addend >= most || -128 * factor + addend < -most};
}

static double power_of_two(int64_t exponent) {
  const uint64_t bits = (uint64_t)(1023 + exponent) << 52;
  double value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

// x + y rounded down, and x - y: with y = 1.5 * 2^(52 + k) one after the other round x down to a multiple of 2^k.
INLINE double sum_down(double x, double y) {
  double sum;
  __asm__ volatile("fadd.d %0, %1, %2, rdn" : "=f"(sum) : "f"(x), "f"(y));
  return sum;
}
INLINE double difference(double x, double y) {
  double rest;
  __asm__ volatile("fsub.d %0, %1, %2" : "=f"(rest) : "f"(x), "f"(y));
  return rest;
}

// x rounded down, limited to 32 bits.
INLINE int32_t limited_down(double x) {
  int32_t limited;
  __asm__ volatile("fcvt.w.d %0, %1, rdn" : "=r"(limited) : "f"(x));
  return limited;
}

// Elements x side by side to results y, either of as many rows (their factors and addends differ) or of as many columns
// (gains and offsets do). Elements count in units of 2^(shift - 24) of normalised ones, so that a result is the upper byte of
// 32 bits; all sums are exact.
INLINE void normalise_elements(int64_t count, int by_rows, const int32_t* elements, const double* factors,
                               const double* addends, double large, const double* gains, const double* offsets,
                               int32_t* results) {
  double x[SIDE_BY_SIDE];
  for (int64_t k = 0; k < count; ++k) x[k] = elements[k];
  for (int64_t k = 0; k < count; ++k) x[k] = product_sum(x[k], factors[by_rows ? k : 0], addends[by_rows ? k : 0]);
  for (int64_t k = 0; k < count; ++k) x[k] = sum_down(x[k], large);
  for (int64_t k = 0; k < count; ++k) x[k] = difference(x[k], large);
  for (int64_t k = 0; k < count; ++k) x[k] = product_sum(x[k], gains[by_rows ? 0 : k], offsets[by_rows ? 0 : k]);
  for (int64_t k = 0; k < count; ++k) results[k] = limited_down(x[k]);
}

INLINE double scaled_offset(int64_t offset) { return (double)(offset << 17); }

// Column i of rows side by side: gains and offsets are fetched and converted once.
#define COLUMN(i)                                                                                    \
  do {                                                                                               \
    const double g = gain[i], o = scaled_offset(offset[i]);                                          \
    int32_t x[SIDE_BY_SIDE];                                                                         \
    for (int64_t k = 0; k < SIDE_BY_SIDE; ++k) x[k] = from[k][i];                                    \
    normalise_elements(SIDE_BY_SIDE, 1, x, factors, addends, large, &g, &o, x);                      \
    for (int64_t k = 0; k < SIDE_BY_SIDE; ++k) to[k][i] = (int8_t)(x[k] >> 24);                      \
  } while (0)

// Rows of neighbours that share gains and offsets, from_row and to_row apart.
static APART void normalise_side_by_side(int64_t n, const struct normal* normals, int64_t shift, const int8_t* input,
                                         int64_t from_row, const int32_t* gain, const int32_t* offset, int8_t* output,
                                         int64_t to_row) {
  enum { ROWS = SIDE_BY_SIDE, COLUMNS = 4 };
  const int8_t* from[ROWS];
  int8_t* to[ROWS];
  double factors[ROWS], addends[ROWS];
  const double unit = power_of_two(16 - shift), large = 1.5 * power_of_two(76 - shift);
  for (int64_t k = 0; k < ROWS; ++k) {
    factors[k] = (double)normals[k].factor * unit, addends[k] = (double)normals[k].addend * unit;
    from[k] = input + k * from_row, to[k] = output + k * to_row;
  }
  for (; n >= COLUMNS; n -= COLUMNS) {
    COLUMN(0);
    COLUMN(1);
    COLUMN(2);
    COLUMN(3);
    for (int64_t k = 0; k < ROWS; ++k) from[k] += COLUMNS, to[k] += COLUMNS;
    gain += COLUMNS, offset += COLUMNS;
  }
  for (int64_t i = 0; i < n; ++i) COLUMN(i);
}

// Rows so many bytes apart take each other's places in a cache of 16 KiB with four ways, those of inputs and results together.
enum { CONFLICTING = 2048, LINE = 64, LINE_WORDS = LINE / 8 };

// A line of each of the rows that go together, whose places are so many words apart.
INLINE void copy_lines(const uint64_t* from, int64_t from_row, uint64_t* to, int64_t to_row) {
  for (const uint64_t* end = from + SIDE_BY_SIDE * from_row; from != end; from += from_row, to += to_row)
    FOR_EACH_BY(LINE_WORDS, i, LINE_WORDS, uint64_t, to[i], from[i]);
}

// The same of whole lines of rows that conflict, which go by way of lines that do not.
static APART void normalise_lines(int64_t n, const struct normal* normals, int64_t shift, const int8_t* input, int64_t from_row,
                                  const int32_t* gain, const int32_t* offset, int8_t* output, int64_t to_row) {
  enum { ROWS = SIDE_BY_SIDE, COLUMNS = 4 };
  uint64_t lines[ROWS * LINE_WORDS];
  double factors[ROWS], addends[ROWS];
  const double unit = power_of_two(16 - shift), large = 1.5 * power_of_two(76 - shift);
  for (int64_t k = 0; k < ROWS; ++k)
    factors[k] = (double)normals[k].factor * unit, addends[k] = (double)normals[k].addend * unit;
  for (; n > 0; n -= LINE, input += LINE, output += LINE) {
    copy_lines((const uint64_t*)input, from_row / 8, lines, LINE_WORDS);
    for (int64_t first = 0; first < LINE; first += COLUMNS, gain += COLUMNS, offset += COLUMNS) {
      int8_t(*from)[LINE] = (int8_t(*)[LINE])((int8_t*)lines + first), (*to)[LINE] = from;
      COLUMN(0);
      COLUMN(1);
      COLUMN(2);
      COLUMN(3);
    }
    copy_lines(lines, LINE_WORDS, (uint64_t*)output, to_row / 8);
  }
}
#undef COLUMN

// A row by itself.
INLINE void normalise_row(int64_t n, struct normal normal, int64_t shift, const int8_t* from, int64_t from_step,
                          const int32_t* gain, int64_t gain_step, const int32_t* offset, int64_t offset_step, int8_t* to,
                          int64_t to_step) {
  enum { COLUMNS = SIDE_BY_SIDE };
  const double unit = power_of_two(16 - shift), large = 1.5 * power_of_two(76 - shift);
  const double factor = (double)normal.factor * unit, addend = (double)normal.addend * unit;
#define COLUMNS_OF(count)                                                                            \
  do {                                                                                               \
    int32_t x[COLUMNS];                                                                              \
    double g[COLUMNS], o[COLUMNS];                                                                   \
    for (int64_t k = 0; k < (count); ++k) x[k] = from[k * from_step];                                \
    for (int64_t k = 0; k < (count); ++k) g[k] = gain[k * gain_step];                                \
    for (int64_t k = 0; k < (count); ++k) o[k] = scaled_offset(offset[k * offset_step]);             \
    normalise_elements(count, 0, x, &factor, &addend, large, g, o, x);                               \
    for (int64_t k = 0; k < (count); ++k) to[k * to_step] = (int8_t)(x[k] >> 24);                    \
    from += (count) * from_step, to += (count) * to_step;                                            \
    gain += (count) * gain_step, offset += (count) * offset_step;                                    \
  } while (0)
  for (; n >= COLUMNS; n -= COLUMNS) COLUMNS_OF(COLUMNS);
  for (; n > 0; --n) COLUMNS_OF(1);
#undef COLUMNS_OF
}

// The same of a row in integers, with normalised elements limited.
static void normalise_wide(int64_t n, struct normal normal, int64_t shift, const int8_t* from, int64_t from_step,
                           const int32_t* gain, int64_t gain_step, const int32_t* offset, int64_t offset_step,
                           int8_t* to, int64_t to_step) {
  for (int64_t i = 0; i < n; ++i) {
    const int64_t t = limited((from[i * from_step] * normal.factor + normal.addend) >> 8, 1 << 19);
    to[i * to_step] = saturated((((t * gain[i * gain_step]) >> (shift - 7)) + offset[i * offset_step]) >> 7);
  }
}

// Rows of neighbours that share gains and offsets, as many as go together, from_row and to_row apart.
INLINE void normalise_together(int64_t n, const struct normal* normals, int64_t shift, const int8_t* from,
                               int64_t from_row, const int32_t* gain, const int32_t* offset, int8_t* to, int64_t to_row) {
  int wide = 0;
  for (int64_t k = 0; k < SIDE_BY_SIDE; ++k) wide |= normals[k].wide;
  const int apart = (from_row | to_row) & (CONFLICTING - 1), line = (n | (uintptr_t)from | (uintptr_t)to) & (LINE - 1);
  if (!wide && !apart && !line)
    normalise_lines(n, normals, shift, from, from_row, gain, offset, to, to_row);
  else if (!wide)
    normalise_side_by_side(n, normals, shift, from, from_row, gain, offset, to, to_row);
  else
    for (int64_t k = 0; k < SIDE_BY_SIDE; ++k)
      normalise_wide(n, normals[k], shift, from + k * from_row, 1, gain, 1, offset, 1, to + k * to_row, 1);
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
  if (dense && row.rank == 0 && rows.rank == 1 && rows.strides[1] == 0 && rows.strides[2] == 0) {
    const int64_t from_row = rows.strides[0], to_row = rows.strides[3];
    int64_t left = rows.shape[0];
    for (; left >= SIDE_BY_SIDE; left -= SIDE_BY_SIDE) {
      struct normal normals[SIDE_BY_SIDE];
      for (int64_t k = 0; k < SIDE_BY_SIDE; ++k) {
        int64_t sum = 0, squares = 0;
        sum_row(n, input + k * from_row, 1, &sum, &squares);
        normals[k] = normal_of(n, centre ? sum : 0, squares, epsilon);
      }
      normalise_together(n, normals, shift, input, from_row, gain, offset, output, to_row);
      input += SIDE_BY_SIDE * from_row, output += SIDE_BY_SIDE * to_row;
    }
    if (left == 0) return;
    rows.shape = &left;
  }
  do {
    int64_t sum = 0, squares = 0;
    do {
      const int8_t* from = input + rows.at[0] + row.at[0];
      if (dense)
        sum_row(extent, from, 1, &sum, &squares);
      else
        sum_row(extent, from, step[1], &sum, &squares);
    } while (walk_next(&row));
    const struct normal normal = normal_of(n, centre ? sum : 0, squares, epsilon);
    do {
      const int8_t* from = input + rows.at[0] + row.at[0];
      const int32_t* gains = gain + rows.at[1] + row.at[1];
      const int32_t* offsets = offset + rows.at[2] + row.at[2];
      int8_t* to = output + rows.at[3] + row.at[3];
      if (RARELY(normal.wide))
        normalise_wide(extent, normal, shift, from, step[1], gains, step[2], offsets, step[3], to, step[4]);
      else if (dense)
        normalise_row(extent, normal, shift, from, 1, gains, 1, offsets, 1, to, 1);
      else
        normalise_row(extent, normal, shift, from, step[1], gains, step[2], offsets, step[3], to, step[4]);
    } while (walk_next(&row));
  } while (walk_next(&rows));
}

// Columns of rows whose sums and sums of squares are known: how many rows and columns, from row to row of input, output, sums
// and sums of squares; whether to centre, epsilon, shift, elements of a row. Offsets as above.
void net_normalise_by(const int64_t* d, const int8_t* input, const int32_t* sums, const int32_t* squares,
                      const int32_t* gain, const int32_t* offset, int8_t* output) {
  const int64_t rows = d[0], n = d[1], from_row = d[2], to_row = d[3];
  const int64_t centre = d[6], epsilon = d[7], shift = d[8], count = d[9];
  struct normal normals[SIDE_BY_SIDE];
  for (int64_t left = rows; left > 0; left -= SIDE_BY_SIDE) {
    const int64_t together = least(left, SIDE_BY_SIDE);
    for (int64_t k = 0; k < together; ++k, sums += d[4], squares += d[5])
      normals[k] = normal_of(count, centre ? *sums : 0, *squares, epsilon);
    if (together == SIDE_BY_SIDE)
      normalise_together(n, normals, shift, input, from_row, gain, offset, output, to_row);
    else
      for (int64_t k = 0; k < together; ++k) {
        const int8_t* from = input + k * from_row;
        int8_t* to = output + k * to_row;
        if (RARELY(normals[k].wide))
          normalise_wide(n, normals[k], shift, from, 1, gain, 1, offset, 1, to, 1);
        else
          normalise_row(n, normals[k], shift, from, 1, gain, 1, offset, 1, to, 1);
      }
    input += SIDE_BY_SIDE * from_row, output += SIDE_BY_SIDE * to_row;
  }
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
