// Performance counters: what must be exact (requests, bytes, configuration, snapshot, reset), and what must be true of
// the rest (busy units were busy, idle ones were not).
#include "accel.h"

enum { LD_ONLY = 1, ST_ONLY, EX_ONLY, LD_ACTIVE = 9, ST_ACTIVE = 12, EX_ACTIVE = 24, STATION_ACTIVE = 42 };
enum { LD_COUNT = 1, ST_COUNT, EX_COUNT, BYTES_READ, BYTES_WRITTEN, READ_LATENCY, WRITE_LATENCY };

static int8_t source[8 * DIM * DIM] __attribute__((aligned(128))), target[8 * DIM * DIM] __attribute__((aligned(128)));

static void configure(int index, int event, int external) {
  counter_operation(COUNTER_CONFIGURE, index, event, external);
}

static int same(const int8_t* a, const int8_t* b, size_t count) {
  while (count && *a++ == *b++) --count;
  return count == 0;
}
static int is_positive(uint64_t value) { return value > 0; }

int main(void) {
  random_bytes(source, sizeof source);
  config_ex(.dataflow = WEIGHT_STATIONARY);
  config_ld(.stride = DIM);
  config_st(.stride = DIM);
  counter_operation(COUNTER_RESET, 0, 0, 0);
  configure(0, LD_ACTIVE, 0);
  configure(1, ST_ACTIVE, 0);
  configure(2, EX_ACTIVE, 0);
  configure(3, BYTES_READ, 1);
  configure(4, BYTES_WRITTEN, 1);
  configure(5, STATION_ACTIVE, 0);
  configure(6, READ_LATENCY, 1);
  configure(7, 0, 0);  // no event
  fence();
  // idle: nothing counts but what the counter operations themselves do
  for (int i = 0; i < 5; ++i) check("idle", i, (int64_t)counter_read(i), 0);

  for (int i = 0; i < 8; ++i) mvin(source + i * DIM * DIM, SP(i * DIM), DIM, DIM);
  fence();
  check("loads were active", 0, is_positive(counter_read(0)), 1);
  check("no store was", 0, (int64_t)counter_read(1), 0);
  check("no product was", 0, (int64_t)counter_read(2), 0);
  // requests may be larger than what is asked for, never smaller
  const int64_t read = (int64_t)counter_read(3);
  check("bytes were read", 0, read >= 8 * DIM * DIM && read % 4 == 0, 1);
  check("no byte was written", 0, (int64_t)counter_read(4), 0);
  check("the station was in use", 0, is_positive(counter_read(5)), 1);
  check("reads took time", 0, is_positive(counter_read(6)), 1);
  check("no event", 0, (int64_t)counter_read(7), 0);

  // a snapshot stays while counting goes on
  counter_operation(COUNTER_SNAPSHOT, 0, 0, 0);
  const int64_t written = (int64_t)counter_read(4);
  for (int i = 0; i < 8; ++i) mvout(target + i * DIM * DIM, SP(i * DIM), DIM, DIM);
  fence();
  check("snapshot of bytes", 0, (int64_t)counter_read(4), written);
  check("snapshot of activity", 0, (int64_t)counter_read(1), 0);
  counter_operation(COUNTER_LEAVE_SNAPSHOT, 0, 0, 0);
  check("stores were active", 0, is_positive(counter_read(1)), 1);
  check("bytes written", 0, (int64_t)counter_read(4), 8 * DIM * DIM);
  check("stored", 0, same(source, target, sizeof source), 1);

  // products
  preload(SP(0), DIM, DIM, ACC(0), DIM, DIM);
  compute_preloaded(SP(DIM), DIM, DIM, NONE, DIM, DIM);
  fence();
  check("a product was", 0, is_positive(counter_read(2)), 1);

  // configuring one counter makes it zero and leaves the others
  configure(0, ST_ACTIVE, 0);
  check("configured anew", 0, (int64_t)counter_read(0), 0);
  check("another", 0, is_positive(counter_read(1)), 1);
  counter_operation(COUNTER_RESET, 0, 0, 0);
  for (int i = 0; i < 8; ++i)
    if (i != 5) check("reset", i, (int64_t)counter_read(i), 0);
  // events are still selected after it
  mvout(target, SP(0), DIM, DIM);
  fence();
  check("counts again", 0, is_positive(counter_read(0)) && is_positive(counter_read(1)), 1);
  check("bytes again", 0, (int64_t)counter_read(4), DIM * DIM);
  print("counters: right\n");
  return 0;
}
