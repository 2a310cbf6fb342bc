// Matrix products whose results are layer norms, softmaxes or I-GELUs of rows, by LOOP_WS: tiles of whole rows of results
// for the first two, any tiles for the third; between them products without activation, which none of it is to reach.
#include "norms.h"

#define I_MOST (3 * DIM)
#define J_MOST (5 * DIM)
#define K_MOST (3 * DIM)
#define TRIALS 16

static int8_t a[I_MOST * K_MOST], b[K_MOST * J_MOST], found[I_MOST * J_MOST], wanted[I_MOST * J_MOST];
static int32_t d[I_MOST * J_MOST], sums[I_MOST * J_MOST];

static void run(int i_size, int j_size, int k_size, int activation, int bias, float scale, float unit) {
  const int rows = activation == LAYERNORM || activation == SOFTMAX;
  config_ex(.dataflow = WEIGHT_STATIONARY, .activation = activation & 3);
  configure_results(activation, (uint32_t)j_size, scale, unit);
  config_ld(.id = 0, .stride = (uint64_t)k_size);
  config_ld(.id = 1, .stride = (uint64_t)j_size);
  config_ld(.id = 2, .stride = (uint64_t)j_size * sizeof(acc_t));
  const int i_all = blocks(i_size), j_all = blocks(j_size), k_all = blocks(k_size);
  const int tile_i = rows ? 1 : random_between(1, least(i_all, 2)), tile_j = rows ? j_all : random_between(1, j_all);
  const int tile_k = random_between(1, k_all);
  for (int i0 = 0; i0 < i_all; i0 += tile_i)
    for (int j0 = 0; j0 < j_all; j0 += tile_j)
      for (int k0 = 0; k0 < k_all; k0 += tile_k) {
        const int i = least(tile_i, i_all - i0), j = least(tile_j, j_all - j0), k = least(tile_k, k_all - k0);
        const int c_at = (i0 * j_size + j0) * DIM;
        loop_ws(.i = i, .j = j, .k = k, .pad_i = i0 + i == i_all ? i_all * DIM - i_size : 0,
                .pad_j = j0 + j == j_all ? j_all * DIM - j_size : 0, .pad_k = k0 + k == k_all ? k_all * DIM - k_size : 0,
                .a = a + (i0 * k_size + k0) * DIM, .b = b + (k0 * j_size + j0) * DIM, .d = bias && k0 == 0 ? d + c_at : 0,
                .c = k0 + k < k_all ? 0 : found + c_at, .a_stride = (uint64_t)k_size, .b_stride = (uint64_t)j_size,
                .d_stride = (uint64_t)j_size, .c_stride = (uint64_t)j_size, .accumulate = bias || k0 > 0,
                .act = activation);
      }
  fence();
}

int main(void) {
  static const int activations[] = {LAYERNORM, SOFTMAX, NO_ACTIVATION, IGELU, SOFTMAX, LAYERNORM, IGELU, RELU};
  for (int trial = 0; trial < TRIALS; ++trial) {
    const int activation = activations[trial % (int)COUNT(activations)];
    const int i_size = random_between(1, I_MOST), j_size = random_between(1, least(J_MOST, ACC_ROWS / 2));
    const int k_size = random_between(1, K_MOST), bias = random_between(0, 1);
    // results of I-GELU are in units of -0.2888 unit^3 / 4 (I-BERT, section 3.3)
    const float unit = activation == SOFTMAX ? 0.0007f : 0.05f;
    const float scale = activation == IGELU ? -0.2888f * unit * unit * unit / 4 / 0.1f
                      : activation == LAYERNORM ? (trial < 8 ? 1.0f : 30.0f) : activation == SOFTMAX ? 1.0f : 0.004f;
    // squares of rows of int32, and I-GELU's third power, must not overflow
    const int few = activation == IGELU ? 3 : activation == LAYERNORM ? 15 : 127;
    for (size_t at = 0; at < sizeof a; ++at) a[at] = (int8_t)random_between(-few, few);
    for (size_t at = 0; at < sizeof b; ++at) b[at] = (int8_t)random_between(-few, few);
    random_words(d, COUNT(d), few * few * 8);
    random_bytes(found, sizeof found);
    memcpy(wanted, found, sizeof found);
    run(i_size, j_size, k_size, activation, bias, scale, unit);
    for (int i = 0; i < i_size; ++i) {
      int32_t* row = sums + i * j_size;
      for (int j = 0; j < j_size; ++j) {
        row[j] = bias ? d[i * j_size + j] : 0;
        for (int k = 0; k < k_size; ++k) row[j] += a[i * k_size + k] * b[k * j_size + j];
        wanted[i * j_size + j] = stored(row[j], float_bits(scale), activation == RELU);
      }
      if (activation > RELU) normalised(row, j_size, activation, scale, unit, wanted + i * j_size);
    }
    check_bytes("results", trial, found, wanted, sizeof found);
  }
  print("normalized matmul: right\n");
  return 0;
}
