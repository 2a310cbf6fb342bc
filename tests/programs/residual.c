// Residual addition by LOOP_WS: C = scale * (a_scale * A + b_scale * B), tile after tile, with and without ReLU.
#include "accel.h"

#define I_MOST (4 * DIM)
#define J_MOST (4 * DIM)
#define TRIALS 16

static int8_t a[I_MOST * (J_MOST + 9) + DIM * J_MOST], b[I_MOST * (J_MOST + 9) + DIM * J_MOST];
static int8_t found[I_MOST * (J_MOST + 9)], wanted[I_MOST * (J_MOST + 9)];

int main(void) {
  const uint32_t scales[] = {float_bits(1.0f), float_bits(0.5f), float_bits(-0.7f), float_bits(1.9f), float_bits(0.03f)};
  for (int trial = 0; trial < TRIALS; ++trial) {
    const int rows = random_between(1, I_MOST), cols = random_between(1, J_MOST), pitch = cols + random_between(0, 9);
    int tile_i = random_between(1, blocks(rows)), tile_j = random_between(1, blocks(cols));
    while (tile_i * tile_j * DIM > ACC_ROWS / 2) --*(tile_i > tile_j ? &tile_i : &tile_j);
    const int relu = random_between(0, 1);
    const uint32_t a_scale = scales[random_between(0, 4)], b_scale = scales[random_between(0, 4)];
    const uint32_t scale = scales[random_between(0, 4)];
    random_bytes(a, sizeof a);
    random_bytes(b, sizeof b);
    random_bytes(found, sizeof found);
    memcpy(wanted, found, sizeof found);
    config_ld(.id = 0, .stride = (uint64_t)pitch, .scale = a_scale, .shrink = 1);
    config_ld(.id = 1, .stride = (uint64_t)pitch, .scale = b_scale, .shrink = 1);
    config_st(.stride = (uint32_t)pitch, .activation = relu, .scale = scale);
    for (int i = 0; i < blocks(rows); i += tile_i)
      for (int j = 0; j < blocks(cols); j += tile_j) {
        const int at = (i * pitch + j) * DIM, end_i = least(i + tile_i, blocks(rows)),
                  end_j = least(j + tile_j, blocks(cols));
        loop_ws(.i = end_i - i, .j = end_j - j, .pad_i = end_i == blocks(rows) ? end_i * DIM - rows : 0,
                .pad_j = end_j == blocks(cols) ? end_j * DIM - cols : 0, .a = a + at, .b = b + at, .c = found + at,
                .a_stride = (uint64_t)pitch, .b_stride = (uint64_t)pitch, .c_stride = (uint64_t)pitch, .is_resadd = 1);
      }
    fence();
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < cols; ++j) {
        const int at = i * pitch + j;
        wanted[at] = stored(scaled(a[at], a_scale) + scaled(b[at], b_scale), scale, relu);
      }
    check_bytes("residual addition", trial, found, wanted, sizeof wanted);
  }
  print("residual: right\n");
  return 0;
}
