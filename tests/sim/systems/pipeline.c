/* Three units on one product after the other: hart 0 and hart 1 multiply with their accelerators, of side 4 and 2, hart 2
 * adds; others do nothing. What one writes the next reads, once its flag is up. All harts count together, too. */
#include "runtime.h"

#define COMMAND(funct, a, b) \
  __asm__ volatile(".insn r 0x7b, 3, " #funct ", x0, %0, %1" : : "r"((uint64_t)(a)), "r"((uint64_t)(b)) : "memory")
#define FENCE() __asm__ volatile("fence" : : : "memory")
#define OPERAND(local, side) ((uint64_t)(side) << 48 | (uint64_t)(side) << 32 | (uint32_t)(local))
#define SCALE_ONE (0x3f800000ull << 32)

__attribute__((section(".data"))) int8_t a[4][4], b0[4][4], b1[4][4];  /* not cleared at the start */
int8_t c0[4][4], c1[4][4], d[4][4];
volatile uint32_t ready[3][16];
uint64_t count, reserved;

/* c = a * b, weight-stationary, of the first `side` rows and columns; rows are 4 bytes apart. */
static void multiply(const void* left, const void* right, void* to, uint64_t side) {
  const uint32_t sum = 0x80000000u;
  COMMAND(0, SCALE_ONE | 1u << 16 | 1u << 2, 1ull << 48);
  COMMAND(0, SCALE_ONE | side << 16 | 1u << 8 | 1, 4);
  COMMAND(0, 2, SCALE_ONE | 4);
  COMMAND(2, left, OPERAND(0, side));
  COMMAND(2, right, OPERAND(side, side));
  COMMAND(6, OPERAND(side, side), OPERAND(sum, side));
  COMMAND(4, OPERAND(0, side), OPERAND(0xffffffff, side));
  COMMAND(3, to, OPERAND(sum, side));
  FENCE();
}

static void set(int hart) {
  FENCE();
  ready[hart][0] = 1;
}

static void await(int hart) {
  while (!ready[hart][0]) {
  }
  FENCE();
}

int baco_main(int hart) {
  uint64_t id, old, failed;
  if (hart > 2) return 0;
  __asm__ volatile("csrr %0, mhartid" : "=r"(id));
  for (int i = 0; i < 1000; ++i) {
    __asm__ volatile("amoadd.d x0, %0, (%1)" : : "r"(1), "r"(&count) : "memory");
    do {
      __asm__ volatile("lr.d %0, (%2)\naddi %0, %0, 1\nsc.d %1, %0, (%2)"
                       : "=&r"(old), "=&r"(failed) : "r"(&reserved) : "memory");
    } while (failed);
  }
  if (hart == 0) {
    multiply(a, b0, c0, 4);
    set(0);
    await(2);
    return id == 0 && count == 3000 && reserved == 3000 ? 7 : 1;
  }
  if (hart == 1) {
    await(0);
    multiply(c0, b1, c1, 2);
    set(1);
    return id == 1;
  }
  await(1);
  for (int row = 0; row < 4; ++row)
    for (int column = 0; column < 4; ++column) d[row][column] = (int8_t)(c1[row][column] + 1);
  set(2);
  return id == 2;
}
