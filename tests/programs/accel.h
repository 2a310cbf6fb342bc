// The accelerator's commands for C programs, over the generated gemmini_params.h. Named arguments: config_ld(.stride = 64).
// Sizes are in elements, memory strides in bytes, local addresses in rows.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "gemmini_params.h"
#include "runtime.h"

#define SP_ROWS (BANK_NUM * BANK_ROWS)

// Local addresses.
#define SP(row) ((uint32_t)(row))
#define ACC(row) (0x80000000u | (uint32_t)(row))      // overwrite, or scaled read
#define ACC_ADD(row) (0xc0000000u | (uint32_t)(row))  // add to what is there
#define ACC_RAW(row) (0xa0000000u | (uint32_t)(row))  // unscaled read
#define NONE 0xffffffffu                              // no operand: zeros, or a result that is dropped

enum { OUTPUT_STATIONARY, WEIGHT_STATIONARY };
enum { NO_ACTIVATION, RELU };

#define COMMAND(funct, a, b) \
  __asm__ volatile(".insn r 0x7b, 3, %0, x0, %1, %2" : : "i"(funct), "r"((uint64_t)(a)), "r"((uint64_t)(b)) : "memory")

static inline void fence(void) { __asm__ volatile("fence" : : : "memory"); }
static inline void flush(void) { COMMAND(7, 0, 0); }

static inline uint64_t operand(uint32_t address, int cols, int rows) {
  return (uint64_t)rows << 48 | (uint64_t)cols << 32 | address;
}

typedef struct {
  int dataflow, activation, shift, a_stride, c_stride, a_transpose, b_transpose, only_strides;
} execute_config;
static inline void configure_execute(execute_config c) {
  COMMAND(0,
          (uint64_t)float_bits(1.0f) << 32 | (uint64_t)c.a_stride << 16 | (uint64_t)c.b_transpose << 9 |
              (uint64_t)c.a_transpose << 8 | (uint64_t)c.only_strides << 7 | (uint64_t)c.activation << 3 |
              (uint64_t)c.dataflow << 2,
          (uint64_t)c.c_stride << 48 | (uint64_t)c.shift);
}
#define config_ex(...) \
  configure_execute((execute_config){.dataflow = WEIGHT_STATIONARY, .a_stride = 1, .c_stride = 1, __VA_ARGS__})

typedef struct {
  int id, shrink, block_stride, pixel_repeats;
  uint64_t stride;
  uint32_t scale;
} load_config;
static inline void configure_load(load_config c) {
  COMMAND(0,
          (uint64_t)c.scale << 32 | (uint64_t)c.block_stride << 16 | (uint64_t)c.pixel_repeats << 8 |
              (uint64_t)c.id << 3 | (uint64_t)c.shrink << 2 | 1,
          c.stride);
}
#define config_ld(...) \
  configure_load((load_config){.block_stride = DIM, .pixel_repeats = 1, .scale = 0x3f800000, __VA_ARGS__})

typedef struct {
  int activation, pool_stride, pool_size, upad, lpad, pool_out_dim, porows, pocols, orows, ocols;
  uint32_t stride, scale;
} store_config;
static inline void configure_store(store_config c) {
  COMMAND(0,
          (uint64_t)c.ocols << 56 | (uint64_t)c.orows << 48 | (uint64_t)c.pocols << 40 | (uint64_t)c.porows << 32 |
              (uint64_t)c.pool_out_dim << 24 | (uint64_t)c.lpad << 10 | (uint64_t)c.upad << 8 |
              (uint64_t)c.pool_size << 6 | (uint64_t)c.pool_stride << 4 | (uint64_t)c.activation << 2 | 2,
          (uint64_t)c.scale << 32 | c.stride);
}
#define config_st(...) configure_store((store_config){.scale = 0x3f800000, __VA_ARGS__})
#define KEEP_SCALE 0xffffffffu

static inline void mvin(const void* from, uint32_t to, int cols, int rows) { COMMAND(2, from, operand(to, cols, rows)); }
static inline void mvin2(const void* from, uint32_t to, int cols, int rows) { COMMAND(1, from, operand(to, cols, rows)); }
static inline void mvin3(const void* from, uint32_t to, int cols, int rows) { COMMAND(14, from, operand(to, cols, rows)); }
static inline void mvin_as(int id, const void* from, uint32_t to, int cols, int rows) {
  if (id == 0) mvin(from, to, cols, rows);
  if (id == 1) mvin2(from, to, cols, rows);
  if (id == 2) mvin3(from, to, cols, rows);
}
static inline void mvout(void* to, uint32_t from, int cols, int rows) { COMMAND(3, to, operand(from, cols, rows)); }
// From local memory to scratchpad rows `stride` apart.
static inline void mvout_spad(uint32_t to, int stride, uint32_t from, int cols, int rows) {
  COMMAND(23, (uint64_t)stride << 32 | to, operand(from, cols, rows));
}

static inline void preload(uint32_t bd, int bd_cols, int bd_rows, uint32_t c, int c_cols, int c_rows) {
  COMMAND(6, operand(bd, bd_cols, bd_rows), operand(c, c_cols, c_rows));
}
static inline void compute_preloaded(uint32_t a, int a_cols, int a_rows, uint32_t bd, int bd_cols, int bd_rows) {
  COMMAND(4, operand(a, a_cols, a_rows), operand(bd, bd_cols, bd_rows));
}
static inline void compute_accumulated(uint32_t a, int a_cols, int a_rows, uint32_t bd, int bd_cols, int bd_rows) {
  COMMAND(5, operand(a, a_cols, a_rows), operand(bd, bd_cols, bd_rows));
}

// C (I x J) = A (I x K) * B (K x J) + D on one tile; I, J and K in blocks, strides in elements.
typedef struct {
  int i, j, k, pad_i, pad_j, pad_k;
  const void *a, *b, *d;
  void* c;
  uint64_t a_stride, b_stride, d_stride, c_stride;
  int a_transpose, b_transpose, full_c, low_d, accumulate, act, a_spad_id, b_spad_id, is_resadd;
} loop_ws_tile;
static inline void run_loop_ws(loop_ws_tile t) {
  COMMAND(9, (uint64_t)t.pad_k << 32 | (uint64_t)t.pad_j << 16 | (uint64_t)t.pad_i,
          (uint64_t)t.k << 32 | (uint64_t)t.j << 16 | (uint64_t)t.i);
  COMMAND(10, t.a, t.b);
  COMMAND(11, t.d, t.c);
  COMMAND(12, t.a_stride, t.b_stride);
  COMMAND(13, t.d_stride, t.c_stride);
  COMMAND(8,
          (uint64_t)t.a_spad_id << 18 | (uint64_t)t.b_spad_id << 16 | (uint64_t)t.act << 8 | (uint64_t)t.low_d << 2 |
              (uint64_t)t.full_c << 1 | (uint64_t)t.accumulate,
          (uint64_t)t.is_resadd << 2 | (uint64_t)t.b_transpose << 1 | (uint64_t)t.a_transpose);
}
#define loop_ws(...) run_loop_ws((loop_ws_tile){__VA_ARGS__})

// One tile of a convolution: sizes of the layer, then of the tile (ISA specification, section 8).
typedef struct {
  int batch_size, in_row_dim, in_col_dim, in_channels, out_channels, out_row_dim, out_col_dim;
  int pool_out_row_dim, pool_out_col_dim, stride, padding, kernel_dim, kernel_dilation;
  int pool_size, pool_stride, pool_padding, in_stride, weight_stride, out_stride;
  int batches, porows, pocols, pochs, krows, kcols, kchs, orows, ocols;
  int lpad, rpad, upad, dpad, plpad, prpad, pupad, pdpad;
  const void *weights, *bias, *input;
  void* output;
  int no_bias, no_pool, downsample, wrot180, input_dilated, activation;
  int trans_output_1203, trans_weight_1203, trans_weight_0132, trans_input_3120;
  int depthwise, max_pixels_per_row, a_spad_id, b_spad_id;
} loop_conv_tile;
static inline void run_loop_conv(const loop_conv_tile* t) {
  COMMAND(16,
          (uint64_t)t->out_channels << 48 | (uint64_t)t->in_channels << 32 | (uint64_t)t->in_row_dim << 16 |
              (uint64_t)t->batch_size,
          (uint64_t)t->padding << 56 | (uint64_t)t->stride << 48 | (uint64_t)t->out_col_dim << 32 |
              (uint64_t)t->pool_out_row_dim << 16 | (uint64_t)t->out_row_dim);
  COMMAND(17,
          (uint64_t)t->kernel_dim << 48 | (uint64_t)t->pool_out_col_dim << 32 | (uint64_t)t->pool_size << 16 |
              (uint64_t)t->pool_stride << 8 | (uint64_t)t->pool_padding,
          (uint64_t)t->batches << 48 | (uint64_t)t->porows << 32 | (uint64_t)t->pocols << 16 | (uint64_t)t->pochs);
  COMMAND(18, (uint64_t)t->krows << 48 | (uint64_t)t->kcols << 32 | (uint64_t)t->kchs << 16 | (uint64_t)t->lpad,
          (uint64_t)t->rpad << 48 | (uint64_t)t->upad << 32 | (uint64_t)t->dpad << 24 | (uint64_t)t->plpad << 16 |
              (uint64_t)t->in_col_dim);
  COMMAND(19,
          (uint64_t)t->orows << 48 | (uint64_t)t->prpad << 32 | (uint64_t)t->pupad << 21 | (uint64_t)t->pdpad << 10 |
              (uint64_t)t->kernel_dilation,
          (uint64_t)t->in_stride << 48 | (uint64_t)t->weight_stride << 32 | (uint64_t)t->out_stride << 16 |
              (uint64_t)t->ocols);
  COMMAND(20, t->weights, t->output);
  COMMAND(21, t->bias, t->input);
  COMMAND(15,
          (uint64_t)t->a_spad_id << 18 | (uint64_t)t->b_spad_id << 16 | (uint64_t)t->max_pixels_per_row << 8 |
              (uint64_t)t->depthwise << 6 | (uint64_t)t->trans_input_3120 << 5 | (uint64_t)t->trans_weight_0132 << 4 |
              (uint64_t)t->trans_weight_1203 << 3 | (uint64_t)t->trans_output_1203 << 2 | (uint64_t)t->wrot180 << 1 |
              (uint64_t)t->no_bias,
          (uint64_t)t->activation << 3 | (uint64_t)t->input_dilated << 2 | (uint64_t)t->downsample << 1 |
              (uint64_t)t->no_pool);
}

// COUNTER_OP: returns the addressed counter as it was before.
enum { COUNTER_RESET = 1, COUNTER_LEAVE_SNAPSHOT = 2, COUNTER_SNAPSHOT = 4, COUNTER_CONFIGURE = 8 };
static inline uint64_t counter_operation(int actions, int index, int event, int external) {
  uint64_t value;
  __asm__ volatile(".insn r 0x7b, 7, 126, %0, %1, x0"
                   : "=r"(value)
                   : "r"((uint64_t)external << 31 | (uint64_t)event << 12 | (uint64_t)index << 4 | (uint64_t)actions)
                   : "memory");
  return value;
}
static inline uint64_t counter_read(int index) { return counter_operation(0, index, 0, 0); }
