// What loads alone add up in the accumulator: weighted sums of two matrices, sums of many, and averages over all pixels of
// images, a row of channels each, scaled on the way out.
#include "accel.h"

#define ROWS (3 * DIM)
#define COLS (3 * DIM)
#define CHANNELS (4 * DIM)
#define PIXELS 49
#define TRIALS 12

static int8_t a[ROWS][COLS], b[ROWS][COLS], found[ROWS][COLS], wanted[ROWS][COLS];
static int8_t image[PIXELS][CHANNELS], average[CHANNELS], expected[CHANNELS];

static void weighted_sum(int number) {
  static const float scales[] = {1.0f, 0.5f, -0.25f, 2.0f, 0.3f};
  const int rows = random_between(1, ROWS), cols = random_between(1, COLS), relu = random_between(0, 1);
  const int times = random_between(1, 3);
  const uint32_t a_scale = float_bits(scales[random_between(0, 4)]), b_scale = float_bits(scales[random_between(0, 4)]);
  const uint32_t scale = float_bits(scales[random_between(0, 4)]);
  random_bytes(a, sizeof a);
  random_bytes(b, sizeof b);
  random_bytes(found, sizeof found);
  memcpy(wanted, found, sizeof found);
  config_ld(.id = 0, .stride = COLS, .scale = a_scale, .shrink = 1);
  config_ld(.id = 1, .stride = COLS, .scale = b_scale, .shrink = 1);
  config_st(.stride = COLS, .activation = relu, .scale = scale);
  for (int i = 0; i < rows; i += DIM)
    for (int j = 0; j < cols; j += DIM) {
      const int at = (i / DIM * blocks(COLS) + j / DIM) * DIM % (ACC_ROWS - DIM + 1);
      const int n_rows = least(DIM, rows - i), n_cols = least(DIM, cols - j);
      mvin(&a[i][j], ACC(at), n_cols, n_rows);
      for (int n = 0; n < times; ++n) mvin2(&b[i][j], ACC_ADD(at), n_cols, n_rows);
      mvout(&found[i][j], ACC(at), n_cols, n_rows);
    }
  fence();
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < cols; ++j)
      wanted[i][j] = stored(scaled(a[i][j], a_scale) + times * scaled(b[i][j], b_scale), scale, relu);
  check_bytes("weighted sum", number, found[0], wanted[0], sizeof found);
}

static void averages(int number) {
  const int pixels = random_between(1, PIXELS), channels = random_between(1, CHANNELS);
  const uint32_t scale = float_bits(1.0f / (float)pixels);
  random_bytes(image, sizeof image);
  random_bytes(average, sizeof average);
  memcpy(expected, average, sizeof average);
  config_ld(.stride = CHANNELS, .shrink = 1);
  config_st(.stride = CHANNELS, .scale = scale);
  for (int j = 0; j < channels; j += DIM) {
    const int cols = least(DIM, channels - j), at = j % ACC_ROWS;
    for (int pixel = 0; pixel < pixels; ++pixel) mvin(&image[pixel][j], pixel ? ACC_ADD(at) : ACC(at), cols, 1);
    mvout(average + j, ACC(at), cols, 1);
  }
  fence();
  for (int j = 0; j < channels; ++j) {
    int32_t sum = 0;
    for (int pixel = 0; pixel < pixels; ++pixel) sum += image[pixel][j];
    expected[j] = stored(sum, scale, 0);
  }
  check_bytes("average", number, average, expected, sizeof average);
}

int main(void) {
  for (int trial = 0; trial < TRIALS; ++trial) {
    weighted_sum(trial);
    averages(trial);
  }
  print("sums of loads: right\n");
  return 0;
}
