// Moves between main memory and the scratchpad: every stride and width, three load states, zeros, pixel repeats.
// A model of the scratchpad rows in use goes along; every store is compared byte by byte with what must not change, too.
#include "accel.h"

#define ROWS ((2 * MAX_BLOCK_LEN + 2) * DIM)  // local rows in use
#define WIDE (MAX_BLOCK_LEN * DIM)
#define STRIDE (WIDE + 24)    // of the largest memory block, bytes
#define TRIALS 48

static int8_t model[ROWS][DIM];
static int8_t source[(DIM + 1) * STRIDE], found[(DIM + 1) * STRIDE], wanted[(DIM + 1) * STRIDE];
static int base;

static void start_with_known_rows(void) {
  config_ld(.stride = DIM);
  for (int row = 0; row < ROWS; row += DIM) {
    random_bytes(model[row], DIM * DIM);
    mvin(model[row], SP(base + row), DIM, DIM);
  }
  fence();
}

static void load(int repeats_allowed) {
  const int id = random_between(0, 2), rows = random_between(1, DIM);
  const int repeats = repeats_allowed && DIM > 2 ? random_between(2, DIM / 2) : 1;
  const int cols = repeats > 1 ? random_between(1, DIM / repeats) : random_between(1, WIDE);
  const int block_stride = random_between(rows, 2 * DIM);
  const int last = rows + (blocks(cols) - 1) * block_stride;
  const int first = random_between(repeats - 1, ROWS - last);
  const int stride = random_between(0, 3) ? random_between(cols, STRIDE) : 0;
  const int offset = random_between(0, DIM), zeros = random_between(0, 7) == 0;
  config_ld(.id = id, .stride = (uint64_t)stride, .block_stride = block_stride, .pixel_repeats = repeats);
  mvin_as(id, zeros ? 0 : source + offset, SP(base + first), cols, rows);
  for (int row = 0; row < rows; ++row)
    for (int col = 0; col < cols; ++col)
      for (int copy = 0; copy < repeats; ++copy)
        model[first + row + col / DIM * block_stride - copy][col % DIM + copy * cols] =
            zeros ? 0 : source[offset + row * stride + col];
}

static void store(int number) {
  const int rows = random_between(1, DIM), cols = random_between(1, WIDE);
  const int first = random_between(0, ROWS - blocks(cols) * DIM), stride = random_between(cols, STRIDE);
  const int offset = random_between(0, DIM);
  random_bytes(found, sizeof found);
  memcpy(wanted, found, sizeof found);
  config_st(.stride = (uint32_t)stride);
  mvout(found + offset, SP(base + first), cols, rows);
  for (int row = 0; row < rows; ++row)
    for (int col = 0; col < cols; ++col)
      wanted[offset + row * stride + col] = model[first + row + col / DIM * DIM][col % DIM];
  fence();
  check_bytes("store", number, found, wanted, sizeof found);
}

int main(void) {
  const int bases[] = {0, SP_ROWS / 2 - DIM, SP_ROWS - ROWS};  // ends of the memory, and across banks and halves
  for (int i = 0; i < (int)COUNT(bases); ++i) {
    base = bases[i];
    start_with_known_rows();
    for (int trial = 0; trial < TRIALS; ++trial) {
      random_bytes(source, sizeof source);
      for (int loads = random_between(1, 4); loads; --loads) load(0);
      store(trial);
    }
  }
#ifdef HAS_FIRST_LAYER_OPTIMIZATIONS
  base = 0;
  for (int trial = 0; trial < TRIALS / 2; ++trial) {
    start_with_known_rows();
    random_bytes(source, sizeof source);
    load(1);
    fence();  // loads with repeats are not guarded at the end of their range
    for (int i = 0; i < 4; ++i) store(TRIALS + trial);
  }
#endif
  print("moves: right\n");
  return 0;
}
