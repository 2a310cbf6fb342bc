/* C = A * B on one block, checked on the host core: exit code 0, or 1 plus the first wrong element's index. */
#include "commands.h"

#ifndef DIM
#define DIM 4
#endif

static int8_t a[DIM][DIM], b[DIM][DIM], c[DIM][DIM] __attribute__((aligned(64)));

static uint64_t shape(uint64_t local) { return ((uint64_t)DIM << 48) | ((uint64_t)DIM << 32) | local; }

int main(void) {
  for (int i = 0; i < DIM; ++i)
    for (int j = 0; j < DIM; ++j) {
      a[i][j] = (int8_t)(i - 2 * j);
      b[i][j] = (int8_t)(3 * i - j + 1);
      c[i][j] = 99;
    }
  const uint64_t one = 0x3f800000ull << 32;
  COMMAND(0, one | (1 << 16) | (1 << 2), 1ull << 48);   /* config_ex: weight-stationary, strides 1 */
  COMMAND(0, one | (DIM << 16) | 1, DIM);               /* config_ld */
  COMMAND(0, 2, one | DIM);                             /* config_st */
  COMMAND(2, a, shape(0));
  COMMAND(2, b, shape(DIM));
  COMMAND(6, shape(DIM), shape(0x80000000));            /* preload B, result to the accumulator */
  COMMAND(4, shape(0), shape(0xffffffff));
  COMMAND(3, c, shape(0x80000000));
  FENCE();
  for (int i = 0; i < DIM; ++i)
    for (int j = 0; j < DIM; ++j) {
      int sum = 0;
      for (int k = 0; k < DIM; ++k) sum += a[i][k] * b[k][j];
      int8_t wanted = sum > 127 ? 127 : sum < -128 ? -128 : (int8_t)sum;
      if (c[i][j] != wanted) return 1 + i * DIM + j;
    }
  print("matmul is right\n");
  return 0;
}
