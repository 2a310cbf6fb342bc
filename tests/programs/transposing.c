// Matrices transposed on their way through the array: A, B or both against an identity, in both dataflows, block by block
// to the mirrored place, within the scratchpad and through the accumulator; and twice, which gives the matrix back.
#include "accel.h"

#define N 3  // blocks of a side
#define SIDE (N * DIM)
#define IDENTITY 0
#define FROM DIM                       // the matrix, block (i, j) at FROM + (i * N + j) * DIM
#define TO (FROM + N * N * DIM)
#define TRIALS 6

static int8_t matrix[SIDE][SIDE], wanted[SIDE][SIDE], found[SIDE][SIDE];

static uint32_t at(int base, int i, int j) { return SP(base + (i * N + j) * DIM); }

static void store(const char* what, int number, int base) {
  config_st(.stride = SIDE);
  for (int i = 0; i < N; ++i)
    for (int j = 0; j < N; ++j) mvout(&found[i * DIM][j * DIM], at(base, i, j), DIM, DIM);
  fence();
  check_bytes(what, number, found[0], wanted[0], sizeof found);
}

// Every block to the mirrored place: as A by the identity's columns, or as B by its rows.
static void turn(int dataflow, int as_b, int from, int to) {
  config_ex(.dataflow = dataflow, .a_transpose = !as_b || dataflow == OUTPUT_STATIONARY, .b_transpose = as_b);
  for (int i = 0; i < N; ++i)
    for (int j = 0; j < N; ++j) {
      const uint32_t block = at(from, i, j);
      const uint32_t stationary = dataflow == OUTPUT_STATIONARY ? NONE : as_b ? block : SP(IDENTITY);
      const uint32_t streamed = as_b ? SP(IDENTITY) : block;
      preload(stationary, DIM, DIM, at(to, j, i), DIM, DIM);
      compute_preloaded(streamed, DIM, DIM, dataflow == WEIGHT_STATIONARY ? NONE : as_b ? block : SP(IDENTITY), DIM, DIM);
    }
}

int main(void) {
  static int8_t identity[DIM][DIM];
  for (int i = 0; i < DIM; ++i) identity[i][i] = 1;
  check("room", 0, TO + N * N * DIM <= SP_ROWS, 1);
  config_ld(.stride = DIM);
  mvin(identity, SP(IDENTITY), DIM, DIM);
  for (int trial = 0; trial < TRIALS; ++trial) {
    const int dataflow = trial % 2 ? WEIGHT_STATIONARY : OUTPUT_STATIONARY, as_b = trial / 2 % 2;
    random_bytes(matrix, sizeof matrix);
    config_ld(.stride = SIDE);
    for (int i = 0; i < N; ++i)
      for (int j = 0; j < N; ++j) mvin(&matrix[i * DIM][j * DIM], at(FROM, i, j), DIM, DIM);
    fence();  // an operand that is transposed is guarded by its logical rows only
    for (int i = 0; i < SIDE; ++i)
      for (int j = 0; j < SIDE; ++j) wanted[j][i] = matrix[i][j];
    turn(dataflow, as_b, FROM, TO);
    store("transposed", trial, TO);
    turn(dataflow, !as_b, TO, FROM);
    memcpy(wanted, matrix, sizeof matrix);
    store("and back", trial, FROM);
  }
  // through the accumulator, where two orientations are added: a matrix and its mirror image
  config_ex(.dataflow = WEIGHT_STATIONARY);
  for (int i = 0; i < N; ++i) {
    preload(SP(IDENTITY), DIM, DIM, ACC(i * DIM), DIM, DIM);
    compute_preloaded(at(FROM, i, i), DIM, DIM, NONE, DIM, DIM);
  }
  config_ex(.dataflow = WEIGHT_STATIONARY, .a_transpose = 1);
  for (int i = 0; i < N; ++i) {
    preload(SP(IDENTITY), DIM, DIM, ACC_ADD(i * DIM), DIM, DIM);
    compute_preloaded(at(FROM, i, i), DIM, DIM, NONE, DIM, DIM);
  }
  random_bytes(found, sizeof found);
  memcpy(wanted, found, sizeof found);
  for (int i = 0; i < N; ++i) {
    mvout(&found[i * DIM][i * DIM], ACC(i * DIM), DIM, DIM);
    for (int r = i * DIM; r < (i + 1) * DIM; ++r)
      for (int c = i * DIM; c < (i + 1) * DIM; ++c) wanted[r][c] = saturated(matrix[r][c] + matrix[c][r]);
  }
  fence();
  check_bytes("a matrix and its mirror image", 0, found[0], wanted[0], sizeof found);
  print("transposing: right\n");
  return 0;
}
