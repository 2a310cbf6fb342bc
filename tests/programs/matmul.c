// Matrix products on one block: both dataflows, all legal transposes, biases, strides, partial sizes, shifts, ReLU,
// kept weights and sums, results in either memory.
#include "accel.h"

#define TRIALS 120
#define A_ROW 0
#define B_ROW (4 * DIM)
#define D_ROW (6 * DIM)
#define C_ROW (8 * DIM)
#define STEPS 3

static int8_t a[STEPS][DIM][DIM], b[STEPS][DIM][DIM], d[DIM][DIM], found8[2 * DIM][DIM], wanted8[2 * DIM][DIM];
static int32_t before[2 * DIM][DIM], found[2 * DIM][DIM], wanted[2 * DIM][DIM];

// An m x n matrix (transposed in memory if so asked) to local rows `stride` apart.
static void put(int8_t matrix[DIM][DIM], int m, int n, int transposed, int row, int stride) {
  int8_t (*stored_as)[DIM] = matrix;
  static int8_t turned[16][DIM][DIM];  // as many as can be in flight between two fences
  static int next;
  if (transposed) {
    stored_as = turned[next++ % 16];
    for (int i = 0; i < DIM; ++i)
      for (int j = 0; j < DIM; ++j) stored_as[j][i] = matrix[i][j];
  }
  const int rows = transposed ? n : m, cols = transposed ? m : n;
  config_ld(.stride = DIM);
  if (stride == 1) {
    mvin(stored_as, SP(row), cols, rows);
    return;
  }
  for (int i = 0; i < rows; ++i) mvin(stored_as[i], SP(row + i * stride), cols, 1);
}

static void randomise(void) {
  random_bytes(a, sizeof a);
  random_bytes(b, sizeof b);
  random_bytes(d, sizeof d);
  random_bytes(wanted8, sizeof wanted8);
  random_words(before[0], 2 * DIM * DIM, 1 << 20);
  memcpy(wanted, before, sizeof before);
  config_ld(.stride = DIM);
  for (int row = 0; row < 2 * DIM; row += DIM) mvin(wanted8[row], SP(C_ROW + row), DIM, DIM);
  config_ld(.stride = DIM * sizeof(acc_t));
  for (int row = 0; row < 2 * DIM; row += DIM) mvin(before[row], ACC(row), DIM, DIM);
}

// Compares the whole destination, with what was there before.
static void compare(const char* what, int number, int to_accumulator) {
  config_st(.stride = to_accumulator ? DIM * sizeof(acc_t) : DIM);
  for (int row = 0; row < 2 * DIM; row += DIM)
    if (to_accumulator)
      mvout(found[row], ACC_RAW(row), DIM, DIM);
    else
      mvout(found8[row], SP(C_ROW + row), DIM, DIM);
  fence();
  if (to_accumulator)
    check_words(what, number, found[0], wanted[0], 2 * DIM * DIM);
  else
    check_bytes(what, number, found8[0], wanted8[0], 2 * DIM * DIM);
}

static void weight_stationary(int number) {
  const int turn = random_between(0, 2), a_transpose = turn == 1, b_transpose = turn == 2;
  const int a_stride = random_between(1, 3), c_stride = random_between(1, 2), relu = random_between(0, 1);
  const int i = random_between(1, DIM), j = random_between(1, DIM), k = random_between(1, DIM);
  const int with_d = random_between(0, 1), place = random_between(0, 2);  // 0 scratchpad, 1 overwrite, 2 accumulate
  randomise();
  config_ex(.dataflow = WEIGHT_STATIONARY, .activation = relu, .a_stride = a_stride, .c_stride = c_stride,
            .a_transpose = a_transpose, .b_transpose = b_transpose);
  put(b[0], k, j, b_transpose, B_ROW, 1);
  put(a[0], i, k, a_transpose, A_ROW, a_stride);
  put(d, i, j, 0, D_ROW, 1);
  fence();  // a transposed operand is guarded by its logical rows only
  const uint32_t to = place == 0 ? SP(C_ROW) : place == 1 ? ACC(0) : ACC_ADD(0);
  preload(SP(B_ROW), j, k, to, j, i);
  compute_preloaded(SP(A_ROW), k, i, with_d ? SP(D_ROW) : NONE, j, i);
  // again with the weights kept, into the same rows
  const int again = place == 2 && random_between(0, 1);
  if (again) {
    preload(NONE, j, k, to, j, i);
    compute_accumulated(SP(A_ROW), k, i, NONE, j, i);
  }
  for (int r = 0; r < i; ++r)
    for (int c = 0; c < j; ++c) {
      int32_t product = 0;
      for (int n = 0; n < k; ++n) product += a[0][r][n] * b[0][n][c];
      const int32_t sum = product + (with_d ? d[r][c] : 0);
      if (place == 0) {
        const int8_t value = saturated(sum);
        wanted8[r * c_stride][c] = relu && value < 0 ? 0 : value;
      } else {
        wanted[r * c_stride][c] = (place == 2 ? before[r * c_stride][c] : 0) + sum + (again ? product : 0);
      }
    }
  compare("weight-stationary", number, place != 0);
}

static void output_stationary(int number) {
  const int turn = random_between(0, 2), a_transpose = turn != 0, b_transpose = turn == 2;
  const int a_stride = random_between(1, 3), relu = random_between(0, 1), shift = random_between(0, 9);
  const int i = random_between(1, DIM), j = random_between(1, DIM), steps = random_between(1, STEPS);
  const int with_d = random_between(0, 1), place = random_between(0, 2);
  static int32_t sum[DIM][DIM];
  randomise();
  config_ex(.dataflow = OUTPUT_STATIONARY, .activation = relu, .a_stride = a_stride, .shift = shift,
            .a_transpose = a_transpose, .b_transpose = b_transpose);
  put(d, i, j, 0, D_ROW, 1);
  for (int r = 0; r < DIM; ++r)
    for (int c = 0; c < DIM; ++c) sum[r][c] = with_d ? d[r][c] : 0;
  const uint32_t to = place == 0 ? SP(C_ROW) : place == 1 ? ACC(0) : ACC_ADD(0);
  for (int step = 0; step < steps; ++step) {
    const int k = random_between(1, DIM);
    put(a[step], i, k, a_transpose, A_ROW, a_stride);
    put(b[step], k, j, b_transpose, B_ROW, 1);
    fence();
    preload(step == 0 && with_d ? SP(D_ROW) : NONE, j, i, step == steps - 1 ? to : NONE, j, i);
    if (step == 0)
      compute_preloaded(SP(A_ROW), k, i, SP(B_ROW), j, k);
    else
      compute_accumulated(SP(A_ROW), k, i, SP(B_ROW), j, k);
    for (int r = 0; r < i; ++r)
      for (int c = 0; c < j; ++c)
        for (int n = 0; n < k; ++n) sum[r][c] += a[step][r][n] * b[step][n][c];
  }
  for (int r = 0; r < i; ++r)
    for (int c = 0; c < j; ++c) {
      const int64_t shifted = rounded_shift(sum[r][c], shift);
      if (place == 0)
        wanted8[r][c] = relu && shifted < 0 ? 0 : saturated(shifted);
      else
        wanted[r][c] = (place == 2 ? before[r][c] : 0) + (int32_t)shifted;
    }
  compare("output-stationary", number, place != 0);
}

int main(void) {
  for (int trial = 0; trial < TRIALS; ++trial) {
    weight_stationary(trial);
    output_stationary(trial);
  }
  print("matmul: right\n");
  return 0;
}
