// Output-stationary products of many blocks in explicit commands: sums stay in the array over the whole depth, sizes are no
// multiples of it, biases are preloaded, results go to the accumulator or, shifted and saturated, to the scratchpad, from
// where the next product takes them. Nothing but the hardware keeps loads, products and stores in order.
#include "accel.h"

#define M 3
#define TRIALS 10

static int8_t a[M * DIM][M * DIM], b[M * DIM][M * DIM], c[M * DIM][M * DIM], d[M * DIM][M * DIM];
static int8_t found[M * DIM][M * DIM], wanted[M * DIM][M * DIM], middle[M * DIM][M * DIM];

enum { NO_BIAS, A_AT, B_AT, C_AT, D_AT, MIDDLE_AT };
static uint32_t at(int which, int i, int j) { return SP((((which - 1) * M + i) * M + j) * DIM); }
static int part(int size, int block) { return least(DIM, size - block * DIM); }

static void load(int8_t matrix[M * DIM][M * DIM], int which, int rows, int cols) {
  for (int i = 0; i < blocks(rows); ++i)
    for (int j = 0; j < blocks(cols); ++j)
      mvin(&matrix[i * DIM][j * DIM], at(which, i, j), part(cols, j), part(rows, i));
}

// Block (i, j) of left * right, of some depth, plus a bias if there is one; the sums go to `to`.
static void block_product(int left, int right, int bias, int i, int j, int m, int n, int k, uint32_t to) {
  for (int step = 0; step < blocks(k); ++step) {
    const int last = step == blocks(k) - 1;
    preload(step == 0 && bias != NO_BIAS ? at(bias, i, j) : NONE, part(n, j), part(m, i), last ? to : NONE, part(n, j), part(m, i));
    const uint32_t x = at(left, i, step), y = at(right, step, j);
    if (step == 0)
      compute_preloaded(x, part(k, step), part(m, i), y, part(n, j), part(k, step));
    else
      compute_accumulated(x, part(k, step), part(m, i), y, part(n, j), part(k, step));
  }
}

static void multiply(int8_t x[M * DIM][M * DIM], int8_t y[M * DIM][M * DIM], int8_t bias[M * DIM][M * DIM], int m, int n,
                     int k, int shift, int8_t to[M * DIM][M * DIM]) {
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      int32_t sum = bias ? bias[i][j] : 0;
      for (int step = 0; step < k; ++step) sum += x[i][step] * y[step][j];
      to[i][j] = saturated(rounded_shift(sum, shift));
    }
}

int main(void) {
  check("room", 0, 5 * M * M * DIM <= SP_ROWS && M * M * DIM <= ACC_ROWS, 1);
  for (int trial = 0; trial < TRIALS; ++trial) {
    const int m = random_between(1, M * DIM), n = random_between(1, M * DIM), k = random_between(1, M * DIM);
    const int p = random_between(1, M * DIM), shift = random_between(0, 7), with_d = random_between(0, 1);
    for (size_t n_th = 0; n_th < sizeof a; ++n_th) {  // sums must stay within 20 bits
      (&a[0][0])[n_th] = (int8_t)random_between(-20, 20);
      (&b[0][0])[n_th] = (int8_t)random_between(-20, 20);
      (&c[0][0])[n_th] = (int8_t)random_between(-20, 20);
    }
    random_bytes(d, sizeof d);
    random_bytes(found, sizeof found);
    memcpy(wanted, found, sizeof found);
    config_ex(.dataflow = OUTPUT_STATIONARY, .shift = shift);
    config_ld(.stride = M * DIM);
    config_st(.stride = M * DIM);
    load(a, A_AT, m, k);
    load(b, B_AT, k, n);
    load(d, D_AT, m, n);
    load(c, C_AT, n, p);
    for (int i = 0; i < blocks(m); ++i)
      for (int j = 0; j < blocks(n); ++j)
        block_product(A_AT, B_AT, with_d ? D_AT : NO_BIAS, i, j, m, n, k, at(MIDDLE_AT, i, j));
    for (int i = 0; i < blocks(m); ++i)
      for (int j = 0; j < blocks(p); ++j) {
        const int row = (i * M + j) * DIM;
        block_product(MIDDLE_AT, C_AT, NO_BIAS, i, j, m, p, n, ACC(row));
        mvout(&found[i * DIM][j * DIM], ACC(row), part(p, j), part(m, i));
      }
    fence();
    multiply(a, b, with_d ? d : 0, m, n, k, shift, middle);
    multiply(middle, c, 0, m, p, n, shift, wanted);
    check_bytes("a product of products", trial, found[0], wanted[0], sizeof found);
  }
  print("tiled outputs: right\n");
  return 0;
}
