// Products whose results overwrite their own operands, without a fence between them: the same two blocks multiplied many
// times in a row, results over A, over B and over D, whole and in part, in both dataflows, between products that read
// what they leave. The model reads all operands of a product before it writes its result.
#include "accel.h"

#define BLOCKS 4
#define ROWS (BLOCKS * DIM)
#define TRIALS 30
#define PRODUCTS 12

static int8_t rows[ROWS][DIM], found[ROWS][DIM];

typedef struct {
  int row, rows, cols;  // local rows from there on
} block;

static block some_block(int n_rows, int n_cols, int reach) { return (block){random_between(0, ROWS - reach), n_rows, n_cols}; }

// result = A * B + D, saturated; no D: row -1
static void multiply(block a, block b, block d, block to, int shift, int relu) {
  static int8_t result[DIM][DIM];
  for (int r = 0; r < to.rows; ++r)
    for (int c = 0; c < to.cols; ++c) {
      int32_t sum = d.row >= 0 && r < d.rows && c < d.cols ? rows[d.row + r][c] : 0;
      for (int k = 0; k < least(a.cols, b.rows); ++k)
        if (r < a.rows && c < b.cols) sum += rows[a.row + r][k] * rows[b.row + k][c];
      result[r][c] = saturated(rounded_shift(sum, shift));
      if (relu && result[r][c] < 0) result[r][c] = 0;
    }
  for (int r = 0; r < to.rows; ++r)
    for (int c = 0; c < to.cols; ++c) rows[to.row + r][c] = result[r][c];
}

static void start(void) {
  random_bytes(rows, sizeof rows);
  for (int row = 0; row < ROWS; row += DIM) mvin(rows[row], SP(row), DIM, DIM);
}

static void compare(const char* what, int number) {
  for (int row = 0; row < ROWS; row += DIM) mvout(found[row], SP(row), DIM, DIM);
  fence();
  check_bytes(what, number, found[0], rows[0], sizeof found);
}

// A matrix times the identity, plus it, back into the matrix, ten times; then what is left of it, over itself.
static void identities(int dataflow) {
  const block first = {0, DIM, DIM}, matrix = {DIM, DIM, DIM}, none = {-1, 0, 0};
  config_ex(.dataflow = dataflow);
  random_bytes(rows, sizeof rows);
  for (int r = 0; r < DIM; ++r)
    for (int c = 0; c < DIM; ++c) rows[r][c] = r == c;
  for (int row = 0; row < ROWS; row += DIM) mvin(rows[row], SP(row), DIM, DIM);
  for (int i = 0; i < 10; ++i) {  // the matrix times the identity, plus it: whichever of the two stays in the array
    preload(SP(0), DIM, DIM, SP(DIM), DIM, DIM);
    compute_preloaded(SP(DIM), DIM, DIM, SP(0), DIM, DIM);
    multiply(matrix, first, first, matrix, 0, 0);
  }
  compare("ten times in a row", dataflow);
  preload(SP(DIM), DIM, DIM, SP(DIM), DIM, DIM);
  compute_preloaded(SP(DIM), DIM, DIM, NONE, DIM, DIM);
  if (dataflow == OUTPUT_STATIONARY)
    multiply(matrix, (block){0, 0, 0}, matrix, matrix, 0, 0);
  else
    multiply(matrix, matrix, none, matrix, 0, 0);
  compare("a matrix over itself", dataflow);
}

static void output_stationary(int number) {
  const int turn = random_between(0, 2), a_transpose = turn != 0, b_transpose = turn == 2;
  const int shift = random_between(0, 9), relu = random_between(0, 1);
  start();
  config_ex(.dataflow = OUTPUT_STATIONARY, .activation = relu, .shift = shift, .a_transpose = a_transpose,
            .b_transpose = b_transpose);
  for (int product = 0; product < PRODUCTS; ++product) {
    const int i = random_between(1, DIM), j = random_between(1, DIM), k = random_between(1, DIM);
    const int with_d = random_between(0, 1);
    const block a = some_block(i, k, DIM), b = some_block(k, j, DIM), d = some_block(i, j, DIM), free = some_block(i, j, DIM);
    const block over[] = {a, b, d, free};
    const int to = least(ROWS - DIM, over[random_between(0, 3)].row + random_between(0, 1) * random_between(0, DIM));
    preload(with_d ? SP(d.row) : NONE, j, i, SP(to), j, i);
    compute_preloaded(SP(a.row), k, i, SP(b.row), j, k);
    // operands that are transposed lie the other way round: the model turns them
    static int8_t kept[ROWS][DIM];
    memcpy(kept, rows, sizeof rows);
    static int8_t result[DIM][DIM];
    for (int r = 0; r < i; ++r)
      for (int c = 0; c < j; ++c) {
        int32_t sum = with_d ? kept[d.row + r][c] : 0;
        for (int n = 0; n < k; ++n)
          sum += (a_transpose ? kept[a.row + n][r] : kept[a.row + r][n]) *
                 (b_transpose ? kept[b.row + c][n] : kept[b.row + n][c]);
        result[r][c] = saturated(rounded_shift(sum, shift));
        if (relu && result[r][c] < 0) result[r][c] = 0;
      }
    for (int r = 0; r < i; ++r)
      for (int c = 0; c < j; ++c) rows[to + r][c] = result[r][c];
  }
  compare("output-stationary", number);
}

// Results over weights anywhere, over rows of A and D that have been read: their own and those before.
static void weight_stationary(int number) {
  start();
  config_ex(.dataflow = WEIGHT_STATIONARY, .activation = number % 2);
  for (int product = 0; product < PRODUCTS; ++product) {
    const int i = random_between(1, DIM), j = random_between(1, DIM), k = random_between(1, DIM);
    block a = some_block(i, k, DIM), b = some_block(k, j, DIM), d = some_block(i, j, DIM), none = {-1, 0, 0};
    const int choice = random_between(0, 2), with_d = choice == 1 || random_between(0, 1);
    int to = choice == 0 ? a.row : choice == 1 ? d.row : b.row;
    to = most(0, to - random_between(0, 1) * random_between(0, DIM));
    // no row of the result may fall on a later one of A or D
    if (to > a.row && to < a.row + i) a.row = to;
    if (with_d && to > d.row && to < d.row + i) d.row = to;
    preload(SP(b.row), j, k, SP(to), j, i);
    compute_preloaded(SP(a.row), k, i, with_d ? SP(d.row) : NONE, j, i);
    multiply(a, b, with_d ? d : none, (block){to, i, j}, 0, number % 2);
  }
  compare("weight-stationary", number);
}

int main(void) {
  config_ld(.stride = DIM);
  config_st(.stride = DIM);
  identities(OUTPUT_STATIONARY);
  identities(WEIGHT_STATIONARY);
  for (int trial = 0; trial < TRIALS; ++trial) {
    output_stationary(trial);
    weight_stationary(trial);
  }
  print("in place: right\n");
  return 0;
}
