// Matrix products of many blocks by LOOP_WS: sizes that are no multiples of the array, every tile split, biases of both
// widths (repeated or not), transposes, full results, scale and ReLU, and operands kept in the scratchpad.
#include "accel.h"

#define I_MOST (3 * DIM)
#define J_MOST (3 * DIM)
#define K_MOST (4 * DIM)
#define EXTRA 7  // rows in memory may be longer than the matrix
#define TRIALS 24

static int8_t a[(I_MOST + EXTRA) * (K_MOST + EXTRA)], b[(K_MOST + EXTRA) * (J_MOST + EXTRA) + K_MOST * K_MOST];
static int32_t d[I_MOST * (J_MOST + EXTRA)], found[I_MOST * (J_MOST + EXTRA)], wanted[I_MOST * (J_MOST + EXTRA)];
static int8_t low_d[I_MOST * (J_MOST + EXTRA)], found8[I_MOST * (J_MOST + EXTRA)], wanted8[I_MOST * (J_MOST + EXTRA)];

typedef struct {
  int i, j, k, tile_i, tile_j, tile_k;  // elements, then blocks
  int a_stride, b_stride, d_stride, c_stride;
  int a_transpose, b_transpose, full_c, bias, repeat, low, relu;
  uint32_t scale, b_scale;
} product;

static void run(const product* p) {
  config_ex(.dataflow = WEIGHT_STATIONARY, .a_transpose = p->a_transpose, .b_transpose = p->b_transpose);
  config_st(.stride = (uint32_t)(p->c_stride * (p->full_c ? (int)sizeof(acc_t) : 1)), .activation = p->relu,
            .scale = p->scale);
  config_ld(.id = 0, .stride = (uint64_t)p->a_stride);
  config_ld(.id = 1, .stride = (uint64_t)p->b_stride, .scale = p->b_scale);
  const int d_bytes = p->low ? 1 : (int)sizeof(acc_t);
  config_ld(.id = 2, .stride = p->repeat ? 0 : (uint64_t)(p->d_stride * d_bytes), .shrink = p->low);
  const int i_all = blocks(p->i), j_all = blocks(p->j), k_all = blocks(p->k);
  const int i_tiles = (i_all + p->tile_i - 1) / p->tile_i, j_tiles = (j_all + p->tile_j - 1) / p->tile_j;
  const int k_tiles = (k_all + p->tile_k - 1) / p->tile_k;
  // an operand of at most two tiles stays, one in each half
  const int keep_b = j_tiles * k_tiles <= 2, keep_a = i_tiles * k_tiles <= 2;
  for (int i0 = 0; i0 < i_all; i0 += p->tile_i)
    for (int j0 = 0; j0 < j_all; j0 += p->tile_j)
      for (int k0 = 0; k0 < k_all; k0 += p->tile_k) {
        const int i = least(p->tile_i, i_all - i0), j = least(p->tile_j, j_all - j0), k = least(p->tile_k, k_all - k0);
        const int8_t* from_a = p->a_transpose ? a + (k0 * p->a_stride + i0) * DIM : a + (i0 * p->a_stride + k0) * DIM;
        const int8_t* from_b = p->b_transpose ? b + (j0 * p->b_stride + k0) * DIM : b + (k0 * p->b_stride + j0) * DIM;
        const int d_at = ((p->repeat ? 0 : i0 * p->d_stride) + j0) * DIM;
        const void* from_d = p->low ? (const void*)(low_d + d_at) : (const void*)(d + d_at);
        const int c_at = (i0 * p->c_stride + j0) * DIM;
        loop_ws(.i = i, .j = j, .k = k, .pad_i = i0 + i == i_all ? i_all * DIM - p->i : 0,
                .pad_j = j0 + j == j_all ? j_all * DIM - p->j : 0, .pad_k = k0 + k == k_all ? k_all * DIM - p->k : 0,
                .a = keep_a && j0 ? 0 : from_a, .b = keep_b && i0 ? 0 : from_b, .d = p->bias && k0 == 0 ? from_d : 0,
                .c = k0 + k < k_all ? 0 : p->full_c ? (void*)(found + c_at) : (void*)(found8 + c_at),
                .a_stride = (uint64_t)p->a_stride, .b_stride = (uint64_t)p->b_stride,
                .d_stride = p->repeat ? 0 : (uint64_t)p->d_stride, .c_stride = (uint64_t)p->c_stride,
                .a_transpose = p->a_transpose, .b_transpose = p->b_transpose, .full_c = p->full_c, .low_d = p->low,
                .accumulate = p->bias || k0 > 0, .a_spad_id = keep_a ? 1 + (i0 + k0 > 0) : 0,
                .b_spad_id = keep_b ? 1 + (j0 + k0 > 0) : 0);
      }
  fence();
}

static void compute(const product* p) {
  static int8_t loaded_b[sizeof b];
  for (size_t at = 0; at < sizeof b; ++at) loaded_b[at] = p->b_scale == float_bits(1.0f) ? b[at] : scaled(b[at], p->b_scale);
  for (int i = 0; i < p->i; ++i)
    for (int j = 0; j < p->j; ++j) {
      const int d_at = (p->repeat ? 0 : i * p->d_stride) + j;
      int32_t sum = !p->bias ? 0 : p->low ? low_d[d_at] : d[d_at];
      for (int k = 0; k < p->k; ++k)
        sum += a[p->a_transpose ? k * p->a_stride + i : i * p->a_stride + k] *
               loaded_b[p->b_transpose ? j * p->b_stride + k : k * p->b_stride + j];
      wanted[i * p->c_stride + j] = sum;
      wanted8[i * p->c_stride + j] = stored(sum, p->scale, p->relu);
    }
}

int main(void) {
  for (int trial = 0; trial < TRIALS; ++trial) {
    const int turn = random_between(0, 2);
    product p = {.i = random_between(1, I_MOST), .j = random_between(1, J_MOST), .k = random_between(1, K_MOST)};
    if (trial == 0) p.i = p.j = p.k = 2 * DIM;
    p.a_transpose = turn == 1;
    p.b_transpose = turn == 2;
    p.a_stride = (p.a_transpose ? p.i : p.k) + random_between(0, EXTRA);
    p.b_stride = (p.b_transpose ? p.k : p.j) + random_between(0, EXTRA);
    p.d_stride = p.j + random_between(0, EXTRA);
    p.c_stride = p.j + random_between(0, EXTRA);
    p.tile_i = random_between(1, blocks(p.i));
    p.tile_j = random_between(1, blocks(p.j));
    p.tile_k = random_between(1, blocks(p.k));
    while (p.tile_i * p.tile_j * DIM > ACC_ROWS / 2) --*(p.tile_i > p.tile_j ? &p.tile_i : &p.tile_j);
    while ((p.tile_i + p.tile_j) * p.tile_k * DIM > SP_ROWS / 2) --p.tile_k;
    p.bias = random_between(0, 2) > 0;
    p.repeat = random_between(0, 1);
    p.low = random_between(0, 1);
    p.full_c = random_between(0, 2) == 0;
    p.relu = random_between(0, 1);
    p.scale = random_between(0, 3) ? float_bits(0.001f) + (uint32_t)random_between(0, 0xfffff) : float_bits(1.0f);
#ifdef HAS_MVIN_SCALE
    p.b_scale = random_between(0, 3) ? float_bits(1.0f) : float_bits(-0.3f);
#else
    p.b_scale = float_bits(1.0f);
#endif
    random_bytes(a, sizeof a);
    random_bytes(b, sizeof b);
    random_words(d, COUNT(d), 1 << 16);
    random_bytes(low_d, sizeof low_d);
    random_words(found, COUNT(found), 1 << 30);
    random_bytes(found8, sizeof found8);
    memcpy(wanted, found, sizeof found);
    memcpy(wanted8, found8, sizeof found8);
    run(&p);
    compute(&p);
    if (p.full_c)
      check_words("full result", trial, found, wanted, COUNT(wanted));
    else
      check_bytes("scaled result", trial, found8, wanted8, sizeof wanted8);
  }
  print("tiled matmul: right\n");
  return 0;
}
