// Layer norm and softmax of a matrix of int32 by normaliser commands alone: rows in pairs, a statistics slot each; rows
// that are longer than a store moves, and stores of several blocks.
#include "norms.h"

#define ROWS (2 * DIM + 1)
#define MOST_COLS (6 * DIM)
#define TRIALS 10

static int32_t x[ROWS * MOST_COLS];
static int8_t found[ROWS * MOST_COLS], wanted[ROWS * MOST_COLS];

static void run(int rows, int cols, int activation, float scale, float unit) {
  static const int passes[2][3][2] = {{{NORM_SUM, NORM_MEAN}, {NORM_VARIANCE, NORM_INV_STDDEV}, {NORM_STORE, NORM_STORE}},
                                      {{NORM_MAX, NORM_MAX}, {NORM_SUM_EXP, NORM_INV_SUM_EXP}, {NORM_STORE, NORM_STORE}}};
  const int piece = MAX_BLOCK_LEN * DIM;
  configure_results(activation, (uint32_t)cols, scale, unit);
  config_ld(.stride = (uint64_t)cols * sizeof(acc_t));
  for (int i = 0; i < rows; i += DIM) {
    const int some = least(DIM, rows - i);
    for (int j = 0; j < cols; j += DIM) mvin(x + i * cols + j, ACC(j), least(DIM, cols - j), some);
    for (int row = 0; row < some; row += NORM_STAT_IDS)
      for (int pass = 0; pass < 3; ++pass)
        for (int id = 0; id < least(NORM_STAT_IDS, some - row); ++id) {
          config_norm(.stat_id = id, .set_stats_id_only = 1);
          for (int j = 0; j < cols; j += piece) {
            const int last = j + piece >= cols;
            const int command = passes[activation == SOFTMAX][pass][last];
            mvout(found + (i + row + id) * cols + j, NORM(command, ACC(j + row + id)), least(piece, cols - j), 1);
          }
        }
  }
  fence();
}

// Rows whose results lie in the middle of two integers: to the even one, whatever the sign. Literal values, no model.
static void ties(void) {
  static const int32_t row[] = {-3, 3, -1, 1, -3, 3, -1, 1, 5, -5, 0, 0, 1, -1, 0, 0};  // mean 0, variance 5: deviation 2
  static const int8_t normal[] = {-2, 2, 0, 0, -2, 2, 0, 0, 2, -2, 0, 0, 0, 0, 0, 0};
  static const int8_t thrice[] = {-4, 4, -2, 2, -4, 4, -2, 2, 8, -8, 0, 0, 2, -2, 0, 0};  // 3 / 2 of the element
  for (int trial = 0; trial < 2; ++trial) {
    for (int j = 0; j < (int)COUNT(row); ++j) x[j] = row[j];
    run(1, COUNT(row), LAYERNORM, trial ? 3.0f : 1.0f, 1.0f);
    check_bytes("layer norm of ties", trial, found, trial ? thrice : normal, COUNT(row));
  }
}

int main(void) {
  ties();
  for (int trial = 0; trial < TRIALS; ++trial) {
    const int rows = trial == 0 ? ROWS : random_between(1, ROWS), cols = trial == 0 ? MOST_COLS : random_between(1, MOST_COLS);
    const int activation = trial % 2 ? SOFTMAX : LAYERNORM;
    const float scale = trial % 4 < 2 ? 1.0f : activation == SOFTMAX ? 0.7f : 25.0f, unit = trial % 3 ? 0.004f : 0.05f;
    random_words(x, (size_t)(rows * cols), activation == SOFTMAX && trial % 3 == 0 ? 12000 : 1500);
    if (trial == 4)
      for (int j = 0; j < cols; ++j) x[j] = 77;  // no variance
    random_bytes(found, sizeof found);
    memcpy(wanted, found, sizeof found);
    run(rows, cols, activation, scale, unit);
    for (int i = 0; i < rows; ++i) normalised(x + i * cols, cols, activation, scale, unit, wanted + i * cols);
    check_bytes(activation == SOFTMAX ? "softmax" : "layer norm", trial, found, wanted, sizeof found);
  }
  print("layer norm: right\n");
  return 0;
}
