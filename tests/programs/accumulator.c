// Moves between main memory and the accumulator: full and input width, accumulation, zeros, scales and ReLU of loads
// and stores, and the scale of scratchpad loads.
#include "accel.h"

#define ROWS (4 * DIM)
#define TRIALS 60
#define WIDE_BYTES (MAX_BLOCK_LEN * DIM)
#define PITCH (MAX_BLOCK_LEN_ACC * DIM + 3)  // longest row of full width, elements

static int32_t model[ROWS][DIM];
static int32_t source[DIM * PITCH];
static int32_t found[DIM * (DIM + 3)], wanted[DIM * (DIM + 3)];
static uint32_t store_scale = 0x3f800000;  // of the last configuration
static int8_t narrow[DIM * (WIDE_BYTES + 5)], found8[DIM * (WIDE_BYTES + 5)], wanted8[DIM * (WIDE_BYTES + 5)];

// Powers of two, their neighbours, one and its, ordinary factors, negative, subnormal and huge ones.
static const uint32_t scales[] = {
    0x3f800000, 0x3f000000, 0x3e800000, 0x3f7fffff, 0x3f800001, 0x40000000, 0x3c23d70a, 0x3dcccccd, 0x40490fdb,
    0xbf800000, 0xbe99999a, 0x37000000, 0x33800000, 0x00000001, 0x00000000, 0x5f000000, 0x38d1b717, 0x3b808081,
};

static uint32_t any_scale(void) {
  if (random_between(0, 3)) return scales[random_between(0, (int)COUNT(scales) - 1)];
  return (uint32_t)random_between(0x36, 0x41) << 24 | (uint32_t)random_between(0, 0xffffff);
}

static void start_with_known_rows(void) {
  config_ld(.stride = DIM * sizeof(acc_t));
  for (int row = 0; row < ROWS; row += DIM) {
    random_words(model[row], DIM * DIM, 1 << 24);
    mvin(model[row], ACC(row), DIM, DIM);
  }
  fence();
}

static void load(void) {
  const int id = random_between(0, 2), rows = random_between(1, DIM), add = random_between(0, 1);
  const int shrink = random_between(0, 1), zeros = !shrink && random_between(0, 5) == 0;
  const int cols = random_between(1, shrink ? most(DIM, least(WIDE_BYTES, 4 * DIM)) : MAX_BLOCK_LEN_ACC * DIM);
  const int block_stride = random_between(rows, DIM), pitch = random_between(cols, shrink ? WIDE_BYTES + 5 : PITCH);
  const int first = random_between(0, ROWS - rows - (blocks(cols) - 1) * block_stride);
  const uint32_t scale = shrink ? any_scale() : 0x3f800000;
  const int stride = random_between(0, 4) ? pitch : 0;
  config_ld(.id = id, .stride = (uint64_t)stride * (shrink ? 1 : sizeof(acc_t)), .shrink = shrink,
            .block_stride = block_stride, .scale = scale);
  const void* from = zeros ? 0 : shrink ? (const void*)narrow : (const void*)source;
  mvin_as(id, from, add ? ACC_ADD(first) : ACC(first), cols, rows);
  for (int row = 0; row < rows; ++row)
    for (int col = 0; col < cols; ++col) {
      const int at = row * stride + col;
      const int32_t value = zeros ? 0 : shrink ? scaled(narrow[at], scale) : source[at];
      int32_t* to = &model[first + row + col / DIM * block_stride][col % DIM];
      *to = (int32_t)((add ? (uint32_t)*to : 0) + (uint32_t)value);
    }
}

static void store_raw(int number) {
  const int rows = random_between(1, DIM), cols = random_between(1, DIM), first = random_between(0, ROWS - rows);
  const int pitch = random_between(cols, DIM + 3);
  random_words(found, COUNT(found), 1 << 30);
  memcpy(wanted, found, sizeof found);
  config_st(.stride = (uint32_t)(pitch * (int)sizeof(acc_t)),
            .activation = random_between(0, 1), .scale = store_scale = any_scale());
  mvout(found, ACC_RAW(first), cols, rows);
  for (int row = 0; row < rows; ++row)
    for (int col = 0; col < cols; ++col) wanted[row * pitch + col] = model[first + row][col];
  fence();
  check_words("raw store", number, found, wanted, COUNT(found));
}

static void store_scaled(int number) {
  const int rows = random_between(1, DIM), cols = random_between(1, least(WIDE_BYTES, ROWS / DIM * DIM));
  const int first = random_between(0, ROWS - blocks(cols) * DIM), pitch = random_between(cols, WIDE_BYTES + 5);
  const int relu = random_between(0, 1), keep = random_between(0, 3) == 0;
  random_bytes(found8, sizeof found8);
  memcpy(wanted8, found8, sizeof found8);
  if (!keep) store_scale = any_scale();
  config_st(.stride = (uint32_t)pitch, .activation = relu, .scale = keep ? KEEP_SCALE : store_scale);
  mvout(found8, ACC(first), cols, rows);
  for (int row = 0; row < rows; ++row)
    for (int col = 0; col < cols; ++col)
      wanted8[row * pitch + col] = stored(model[first + row + col / DIM * DIM][col % DIM], store_scale, relu);
  fence();
  check_bytes("scaled store", number, found8, wanted8, sizeof found8);
}

// All int8 values by every scale on the way into the scratchpad.
static void scaled_loads(void) {
  static int8_t values[256], result[256];
  for (int i = 0; i < 256; ++i) values[i] = (int8_t)(i - 128);
  config_st(.stride = DIM);
  for (int i = 0; i < (int)COUNT(scales) + 8; ++i) {
    const uint32_t scale = i < (int)COUNT(scales) ? scales[i] : any_scale();
    config_ld(.stride = DIM, .scale = scale);
    for (int at = 0; at < 256; at += DIM * DIM) {
      const int rows = least(DIM, (256 - at) / DIM);
      mvin(values + at, SP(at / DIM), DIM, rows);
      mvout(result + at, SP(at / DIM), DIM, rows);
    }
    fence();
    for (int j = 0; j < 256; ++j) check("scaled load", i, result[j], scaled(values[j], scale));
  }
}

int main(void) {
  start_with_known_rows();
  for (int trial = 0; trial < TRIALS; ++trial) {
    random_words(source, COUNT(source), random_between(0, 1) ? 1 << 30 : 300);
    random_bytes(narrow, sizeof narrow);
    for (int loads = random_between(1, 3); loads; --loads) load();
    store_raw(trial);
    store_scaled(trial);
  }
#ifdef HAS_MVIN_SCALE
  scaled_loads();
#endif
  print("accumulator: right\n");
  return 0;
}
