// A snapshot taken while loads and stores alternate stays as it is; what counted on meanwhile shows once it is left.
#include "accel.h"

enum { LD_ACTIVE = 9, LD_COUNT = 1, N = 8 };

static int8_t source[N * DIM * DIM] __attribute__((aligned(128))), target[N * DIM * DIM] __attribute__((aligned(128)));

static void move(void) {
  for (int i = 0; i < N; ++i) {
    mvin(source + i * DIM * DIM, SP(i * DIM), DIM, DIM);
    mvout(target + i * DIM * DIM, SP(i * DIM), DIM, DIM);
  }
}

int main(void) {
  counter_operation(COUNTER_CONFIGURE, 0, LD_ACTIVE, 0);
  check("configured", 0, (int64_t)counter_read(0), 0);
  config_ld(.stride = DIM);
  config_st(.stride = DIM);
  move();
  const int64_t before = (int64_t)counter_read(0);
  counter_operation(COUNTER_SNAPSHOT, 0, 0, 0);
  const int64_t taken = (int64_t)counter_read(0);
  fence();
  check("counted", 0, before > 0, 1);
  check("snapshot", 0, (int64_t)counter_read(0), taken);
  counter_operation(COUNTER_LEAVE_SNAPSHOT, 0, 0, 0);
  const int64_t after = (int64_t)counter_read(0);
  // on small arrays little is left to do by then
  check("counted on", 0, after >= taken + (DIM < 16 ? 0 : 10), 1);

  counter_operation(COUNTER_RESET, 0, 0, 0);
  check("reset", 0, (int64_t)counter_read(0), 0);
  counter_operation(COUNTER_CONFIGURE, 7, LD_COUNT, 1);
  move();
  // read and taken by one command
  const int64_t entries = (int64_t)counter_operation(COUNTER_SNAPSHOT, 7, 0, 0);
  check("entries", 0, entries >= (DIM < 16 ? 0 : 3), 1);
  check("entries in the snapshot", 0, (int64_t)counter_read(7), entries);
  fence();
  check("entries still", 0, (int64_t)counter_read(7), entries);
  counter_operation(COUNTER_RESET, 0, 0, 0);
  check("reset again", 0, (int64_t)counter_read(7), 0);
  print("snapshot: right\n");
  return 0;
}
