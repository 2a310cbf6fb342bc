// What programs may rely on between accelerator and host core: a fence makes stores visible and orders memory accesses
// of the accelerator; loads see what the core has written; registers of command operands may change at once.
#include "accel.h"

#define ROUNDS 40

static int8_t ring[4][DIM * DIM], expected[DIM * DIM];

int main(void) {
  config_ex(.dataflow = WEIGHT_STATIONARY);
  config_ld(.stride = DIM);
  config_st(.stride = DIM);
  // the core writes, the accelerator copies from buffer to buffer, the core reads
  random_bytes(ring[0], sizeof ring[0]);
  memcpy(expected, ring[0], sizeof expected);
  for (int round = 0; round < ROUNDS; ++round) {
    int8_t *from = ring[round % 4], *to = ring[(round + 1) % 4];
    const int row = round * DIM % SP_ROWS;
    mvin(from, SP(row), DIM, DIM);
    mvout(to, SP(row), DIM, DIM);
    fence();
    if (round % 3 == 0) check_bytes("copied", round, to, expected, sizeof expected);
    for (int i = 0; i < 3; ++i) {
      const int at = random_between(0, DIM * DIM - 1);
      to[at] = expected[at] = (int8_t)random_between(-128, 127);
    }
  }
  check_bytes("copied at last", ROUNDS, ring[ROUNDS % 4], expected, sizeof expected);
  // a flush and idle fences change nothing
  flush();
  fence();
  fence();
  mvout(ring[0], SP((ROUNDS - 1) * DIM % SP_ROWS), DIM, DIM);
  fence();
  // the cycle counter runs while the core waits for the accelerator
  uint64_t before, after, instructions_before, instructions_after;
  __asm__ volatile("csrr %0, cycle\n csrr %1, instret" : "=r"(before), "=r"(instructions_before));
  for (int i = 0; i < 8; ++i) mvin(ring[0], SP(i * DIM), DIM, DIM);
  fence();
  __asm__ volatile("csrr %0, cycle\n csrr %1, instret" : "=r"(after), "=r"(instructions_after));
  check("cycles pass", 0, after > before && after - before >= instructions_after - instructions_before, 1);
  print("visibility: right\n");
  return 0;
}
