// Commands that depend on each other through local rows, without a fence between them: loads, products, stores and
// copies within the scratchpad on few rows, which overlap in whole or in part. The model executes in program order.
#include "accel.h"

#define BLOCKS 6              // of the scratchpad
#define ROWS (BLOCKS * DIM)
#define ACC_BLOCKS 2
#define COMMANDS 40
#define TRIALS 24

static int8_t rows[ROWS][DIM];
static int32_t sums[ACC_BLOCKS * DIM][DIM];
static int8_t source[COMMANDS][DIM * DIM], found[COMMANDS][DIM * DIM], wanted[COMMANDS][DIM * DIM];

static void load(int command) {
  const int count = random_between(1, DIM), cols = random_between(1, DIM);
  if (random_between(0, 2)) {
    const int first = random_between(0, ROWS - count);
    mvin(source[command], SP(first), cols, count);
    for (int r = 0; r < count; ++r)
      for (int c = 0; c < cols; ++c) rows[first + r][c] = source[command][r * DIM + c];
  } else {
    const int first = random_between(0, ACC_BLOCKS * DIM - count), add = random_between(0, 1);
    mvin2(source[command], add ? ACC_ADD(first) : ACC(first), cols, count);
    for (int r = 0; r < count; ++r)
      for (int c = 0; c < cols; ++c)
        sums[first + r][c] = (add ? sums[first + r][c] : 0) + source[command][r * DIM + c];
  }
}

static void store(int command) {
  const int count = random_between(1, DIM), cols = random_between(1, DIM);
  const int from_sums = random_between(0, 1), first = random_between(0, (from_sums ? ACC_BLOCKS * DIM : ROWS) - count);
  mvout(found[command], from_sums ? ACC(first) : SP(first), cols, count);
  for (int r = 0; r < count; ++r)
    for (int c = 0; c < cols; ++c)
      wanted[command][r * DIM + c] = from_sums ? stored(sums[first + r][c], float_bits(0.01f), 0) : rows[first + r][c];
}

// Operands and result are different blocks: what is read while it is written is not defined.
static void multiply(void) {
  const int a = random_between(0, BLOCKS - 1), b = (a + random_between(1, BLOCKS - 1)) % BLOCKS;
  const int m = random_between(1, DIM), n = random_between(1, DIM), k = random_between(1, DIM);
  const int to_sums = random_between(0, 1), add = random_between(0, 1);
  int to = random_between(0, to_sums ? ACC_BLOCKS - 1 : BLOCKS - 1);
  while (!to_sums && (to == a || to == b)) to = (to + 1) % BLOCKS;
  preload(SP(b * DIM), n, k, to_sums ? add ? ACC_ADD(to * DIM) : ACC(to * DIM) : SP(to * DIM), n, m);
  compute_preloaded(SP(a * DIM), k, m, NONE, n, m);
  for (int r = 0; r < m; ++r)
    for (int c = 0; c < n; ++c) {
      int32_t sum = 0;
      for (int i = 0; i < k; ++i) sum += rows[a * DIM + r][i] * rows[b * DIM + i][c];
      if (to_sums)
        sums[to * DIM + r][c] = (add ? sums[to * DIM + r][c] : 0) + sum;
      else
        rows[to * DIM + r][c] = saturated(sum);
    }
}

static void copy(void) {
  const int count = random_between(1, DIM), cols = random_between(1, DIM), first = random_between(0, ROWS / 2 - count);
  const int to = ROWS / 2 + random_between(0, ROWS / 2 - count);
  mvout_spad(SP(to), 1, SP(first), cols, count);
  for (int r = 0; r < count; ++r)
    for (int c = 0; c < cols; ++c) rows[to + r][c] = rows[first + r][c];
}

int main(void) {
  config_ex(.dataflow = WEIGHT_STATIONARY);
  config_ld(.id = 0, .stride = DIM);
  config_ld(.id = 1, .stride = DIM, .shrink = 1);
  config_ld(.id = 2, .stride = DIM * sizeof(acc_t));
  config_st(.stride = DIM, .scale = float_bits(0.01f));
  random_bytes(rows, sizeof rows);
  random_words(sums[0], ACC_BLOCKS * DIM * DIM, 1 << 14);
  for (int block = 0; block < BLOCKS; ++block) mvin(rows[block * DIM], SP(block * DIM), DIM, DIM);
  for (int block = 0; block < ACC_BLOCKS; ++block) mvin3(sums[block * DIM], ACC(block * DIM), DIM, DIM);
  fence();
  for (int trial = 0; trial < TRIALS; ++trial) {
    random_bytes(source, sizeof source);
    random_bytes(found, sizeof found);
    memcpy(wanted, found, sizeof found);
    for (int command = 0; command < COMMANDS; ++command) switch (random_between(0, 5)) {
        case 0:
        case 1: load(command); break;
        case 2: store(command); break;
        case 3: copy(); break;
        default: multiply();
      }
    fence();
    check_bytes("stores among hazards", trial, found[0], wanted[0], sizeof found);
    for (int block = 0; block < BLOCKS; ++block) mvout(found[block], SP(block * DIM), DIM, DIM);
    fence();
    check_bytes("scratchpad after hazards", trial, found[0], rows[0], ROWS * DIM);
  }
  print("hazards: right\n");
  return 0;
}
