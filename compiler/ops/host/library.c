// Softmax, normalisation and tables as plain loops, an element after the other, as the C code of Gemmini's library
// computes them on the host core: what programs of its path call. Parameters and results are those of the functions of
// rows.c and elementwise.c that they stand for.
#include "host.h"

// output = table[input + 128]
void library_map(const int64_t* d, const int8_t* input, const int8_t* table, int8_t* output) {
  struct walk w;
  d = walk_begin(&w, d, 2);
  const int64_t n = d[0], from_step = d[1], to_step = d[2];
  do {
    const int8_t* from = input + w.at[0];
    int8_t* to = output + w.at[1];
    for (int64_t i = 0; i < n; ++i) to[i * to_step] = table[from[i * from_step] + 128];
  } while (walk_next(&w));
}

// Three passes over a row: its largest element, the sum of the exponentials, the results.
void library_softmax(const int64_t* d, const int8_t* input, const int32_t* table, const int8_t* mask, int8_t* output) {
  struct walk w;
  d = walk_begin(&w, d, 3);
  const int64_t n = d[0], from_step = d[1], to_step = d[2], mask_step = d[3], numerator = d[4];
  do {
    const int8_t* from = input + w.at[0];
    const int8_t* taken = mask ? mask + w.at[2] : 0;
    int8_t* to = output + w.at[1];
    int64_t largest = -128, total = 0;
    for (int64_t i = 0; i < n; ++i)
      if ((!taken || taken[i * mask_step]) && from[i * from_step] > largest) largest = from[i * from_step];
    for (int64_t i = 0; i < n; ++i)
      if (!taken || taken[i * mask_step]) total += table[largest - from[i * from_step]];
    const int64_t inverse = total ? least(numerator / total, 65535) : 0;
    for (int64_t i = 0; i < n; ++i) {
      const int64_t part = !taken || taken[i * mask_step] ? table[largest - from[i * from_step]] : 0;
      to[i * to_step] = saturated((part * inverse + (1 << 23)) >> 24);
    }
  } while (walk_next(&w));
}

// Three passes over a row: its sum, that of the squares, the results.
void library_normalise(const int64_t* d, const int8_t* input, const int32_t* gain, const int32_t* offset, int8_t* output) {
  struct walk rows, row;
  const int64_t* within = walk_begin(&rows, d, 4);
  const int64_t* step = walk_begin(&row, within, 4);
  const int64_t extent = step[0], n = step[5], centre = step[6], epsilon = step[7], shift = step[8];
  do {
    int64_t sum = 0, squares = 0;
    do {
      const int8_t* from = input + rows.at[0] + row.at[0];
      for (int64_t i = 0; centre && i < extent; ++i) sum += from[i * step[1]];
    } while (walk_next(&row));
    do {
      const int8_t* from = input + rows.at[0] + row.at[0];
      for (int64_t i = 0; i < extent; ++i) squares += from[i * step[1]] * from[i * step[1]];
    } while (walk_next(&row));
    const int64_t found = root_of((uint64_t)(n * squares - sum * sum + epsilon)), root = found ? found : 1;
    const int64_t factor = least((n << 28) / root, (1 << 28) - 1);
    const int64_t mean = least(((sum < 0 ? -sum : sum) << 28) / root, ((int64_t)1 << 36) - 1);
    const int64_t addend = 128 - (sum < 0 ? -mean : mean);
    do {
      const int8_t* from = input + rows.at[0] + row.at[0];
      const int32_t* gains = gain + rows.at[1] + row.at[1];
      const int32_t* offsets = offset + rows.at[2] + row.at[2];
      int8_t* to = output + rows.at[3] + row.at[3];
      for (int64_t i = 0; i < extent; ++i) {
        const int64_t normal = limited((from[i * step[1]] * factor + addend) >> 8, 1 << 19);
        to[i * step[4]] = saturated((((normal * gains[i * step[2]]) >> (shift - 7)) + offsets[i * step[3]]) >> 7);
      }
    } while (walk_next(&row));
  } while (walk_next(&rows));
}
