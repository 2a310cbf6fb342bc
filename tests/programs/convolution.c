// Convolutions by LOOP_CONV_WS against the direct sum: strides, padding, pooling, dilations of kernel and input, all
// transposed layouts, rotated kernels, depthwise, downsampling, few input channels, channel strides, every tile split.
#include "accel.h"

#define BUFFER (1 << 16)

static int8_t input[BUFFER], weights[BUFFER], found[BUFFER], wanted[BUFFER];
static int32_t bias[4 * DIM];

typedef struct {
  const char* name;
  int batch, rows, cols, in, out, kernel, stride, pad;
  int kernel_dilation, input_dilation;        // 0: 1
  int pool_size, pool_stride, pool_pad;       // stride 0: no pooling
  int wrot180, out_1203, weight_1203, weight_0132, in_3120, depthwise;
  int no_bias, relu, in_gap, out_gap;         // gaps: unused channels between pixels in memory
  int tile_batch, tile_rows, tile_cols, tile_out, tile_kernel_rows, tile_kernel_cols, tile_in;  // 0: all
} layer;

static const layer layers[] = {
    {"one pixel", 1, 1, 1, 1, 1, 1, 1, 0, .relu = 0},
    {"padded", 2, 5, 6, DIM + 3, DIM + 2, 3, 1, 1, .relu = 1},
    {"strided", 1, 9, 8, DIM, 2 * DIM, 3, 2, 1, .no_bias = 1},
    {"strided by 3", 1, 10, 7, 3, DIM, 2, 3, 0, .relu = 0},
    {"wide", 1, 3, 2 * DIM + 3, DIM - 1, DIM, 3, 1, 1, .relu = 0},
    {"large kernel", 1, 6, 6, 2, DIM + 1, 5, 1, 2, .relu = 0},
    {"tiled", 2, 7, 7, 2 * DIM + 1, 2 * DIM + 3, 3, 1, 1, .tile_batch = 1, .tile_rows = 3, .tile_cols = 4,
     .tile_out = DIM, .tile_kernel_rows = 2, .tile_kernel_cols = 2, .tile_in = DIM, .relu = 1},
    {"tiled and strided", 1, 9, 9, DIM + 1, DIM + 1, 3, 2, 1, .tile_rows = 2, .tile_cols = 3, .tile_out = 1,
     .tile_in = DIM},
    {"weights kept", 2, 6, 6, DIM, DIM, 3, 1, 0, .tile_batch = 1, .tile_rows = 2},
    {"input kept", 1, 5, 5, DIM, 3 * DIM, 3, 1, 1, .tile_out = DIM},
    {"channel strides", 1, 5, 5, DIM + 1, DIM + 2, 3, 1, 1, .in_gap = 5, .out_gap = 3},
    {"pooled", 1, 6, 6, DIM, DIM + 1, 3, 1, 1, .pool_size = 2, .pool_stride = 2},
    {"pooled with padding", 1, 7, 8, 5, DIM, 3, 1, 1, .pool_size = 3, .pool_stride = 2, .pool_pad = 1, .relu = 1},
    {"pooled, overlapping", 2, 5, 6, DIM, 2 * DIM, 2, 1, 0, .pool_size = 3, .pool_stride = 1, .pool_pad = 1},
    {"pooled and tiled", 1, 8, 8, DIM + 2, DIM + 2, 3, 1, 1, .pool_size = 2, .pool_stride = 2, .tile_rows = 2,
     .tile_cols = 3, .tile_out = DIM, .tile_in = DIM},
    {"pooled, strided", 1, 9, 9, 4, DIM, 3, 2, 1, .pool_size = 3, .pool_stride = 2, .pool_pad = 1},
    {"dilated kernel", 1, 8, 8, DIM + 1, DIM, 3, 1, 2, .kernel_dilation = 2},
    {"dilated kernel, tiled", 1, 9, 7, DIM, DIM, 3, 1, 1, .kernel_dilation = 2, .tile_rows = 3, .tile_out = 3},
    {"dilated input", 1, 4, 4, DIM, DIM + 1, 3, 1, 1, .input_dilation = 2},
    {"dilated input, no padding", 2, 4, 3, DIM + 2, DIM, 2, 1, 0, .input_dilation = 2, .tile_in = DIM},
    {"dilated input, rotated", 1, 4, 4, DIM, DIM, 3, 1, 2, .input_dilation = 2, .wrot180 = 1},
    {"rotated", 1, 6, 5, DIM + 1, DIM, 3, 1, 1, .wrot180 = 1, .tile_kernel_rows = 2},
    {"output 1203", 3, 4, 5, DIM, DIM + 2, 3, 1, 1, .out_1203 = 1},
    {"weights 1203", 1, 5, 5, DIM + 1, DIM + 1, 3, 1, 1, .weight_1203 = 1, .tile_in = DIM},
    {"weights 0132", 1, 5, 5, DIM + 1, DIM + 1, 3, 1, 1, .weight_0132 = 1, .tile_in = DIM, .tile_out = DIM},
    {"weights 0132, rotated", 1, 5, 5, DIM, DIM, 3, 1, 1, .weight_0132 = 1, .wrot180 = 1},
    {"input 3120", 5, 4, 4, 3, DIM, 3, 1, 1, .in_3120 = 1},
    {"input 3120, many images", DIM + 1, 3, 3, 2, 3, 2, 1, 0, .in_3120 = 1},
    {"input 3120, dilated kernel", 3, 6, 6, 2, DIM, 3, 1, 1, .in_3120 = 1, .kernel_dilation = 2},
    {"depthwise", 1, 6, 6, 5, 5, 3, 1, 1, .depthwise = 1, .relu = 1},
    {"depthwise, strided", 2, 7, 7, 3, 3, 3, 2, 1, .depthwise = 1},
    {"depthwise, pooled", 1, 6, 6, 3, 3, 3, 1, 1, .depthwise = 1, .pool_size = 2, .pool_stride = 2},
    {"downsampled", 1, 6, 2 * DIM, DIM + 1, DIM + 1, 1, 2, 0, .relu = 0},
    {"first layer", 1, 9, 9, 3, DIM, 5, 2, 2, .relu = 0},
    {"first layer, pooled", 1, 11, 11, 3, DIM, 7, 2, 3, .pool_size = 3, .pool_stride = 2, .pool_pad = 1},
    {"first layer, one channel", 1, 5, DIM + 5, 1, DIM, 4, 1, 0, .tile_kernel_cols = 3},
};

static int dilated(int size, int dilation) { return size + (dilation - 1) * (size - 1); }
static int nonzero(int value, int otherwise) { return value ? value : otherwise; }

// 1x1 with stride 2: only every second row and column is loaded.
static int downsamples(const layer* l) {
  return l->stride == 2 && l->kernel == 1 && !l->pad && !l->pool_stride && l->rows % 2 == 0 && l->cols % 2 == 0;
}

static uint32_t scale_of(const layer* l) {
  const int terms = l->kernel * l->kernel * (l->depthwise ? 1 : l->in);
  return float_bits(0.02f / (float)(terms > 64 ? 8 : terms > 8 ? 3 : 1));
}

// One output of the convolution, before pooling.
static int8_t direct(const layer* l, int b, int row, int col, int out) {
  int32_t sum = l->no_bias ? 0 : bias[out];
  const int step = nonzero(l->input_dilation, 1), spread = nonzero(l->kernel_dilation, 1), k = l->kernel;
  for (int kr = 0; kr < k; ++kr)
    for (int kc = 0; kc < k; ++kc) {
      const int r = row * l->stride + kr * spread - l->pad, c = col * l->stride + kc * spread - l->pad;
      if (r < 0 || c < 0 || r % step || c % step || r / step >= l->rows || c / step >= l->cols) continue;
      const int wr = l->wrot180 ? k - 1 - kr : kr, wc = l->wrot180 ? k - 1 - kc : kc;
      const int pixel = (b * l->rows + r / step) * l->cols + c / step;
      if (l->depthwise) {
        sum += input[pixel * (l->in + l->in_gap) + out] * weights[(out * k + wr) * k + wc];
        continue;
      }
      for (int in = 0; in < l->in; ++in) {
        const int x = l->in_3120 ? ((in * l->rows + r / step) * l->cols + c / step) * l->batch + b
                                 : pixel * (l->in + l->in_gap) + in;
        const int w = l->weight_1203   ? (in * k * k + wr * k + wc) * l->out + out
                      : l->weight_0132 ? ((wr * k + wc) * l->out + out) * l->in + in
                                       : ((wr * k + wc) * l->in + in) * l->out + out;
        sum += input[x] * weights[w];
      }
    }
  return stored(sum, scale_of(l), l->relu);
}

typedef struct {
  int rows, cols, pool_rows, pool_cols;  // of the output before and after pooling
} shape;

static shape output_shape(const layer* l) {
  const int step = nonzero(l->input_dilation, 1), extent = dilated(l->kernel, nonzero(l->kernel_dilation, 1));
  shape s = {(dilated(l->rows, step) + 2 * l->pad - extent) / l->stride + 1,
             (dilated(l->cols, step) + 2 * l->pad - extent) / l->stride + 1, 0, 0};
  s.pool_rows = l->pool_stride ? (s.rows + 2 * l->pool_pad - l->pool_size) / l->pool_stride + 1 : s.rows;
  s.pool_cols = l->pool_stride ? (s.cols + 2 * l->pool_pad - l->pool_size) / l->pool_stride + 1 : s.cols;
  return s;
}

static void compute(const layer* l, shape s) {
  for (int b = 0; b < l->batch; ++b)
    for (int row = 0; row < s.pool_rows; ++row)
      for (int col = 0; col < s.pool_cols; ++col)
        for (int out = 0; out < l->out; ++out) {
          int value = -128;
          if (!l->pool_stride) value = direct(l, b, row, col, out);
          for (int wr = 0; l->pool_stride && wr < l->pool_size; ++wr)
            for (int wc = 0; wc < l->pool_size; ++wc) {
              const int r = row * l->pool_stride + wr - l->pool_pad, c = col * l->pool_stride + wc - l->pool_pad;
              const int inside = r >= 0 && c >= 0 && r < s.rows && c < s.cols;
              value = most(value, inside ? direct(l, b, r, c, out) : 0);
            }
          const int at = l->out_1203 ? ((row * s.pool_cols + col) * l->batch + b) * l->out + out
                                     : ((b * s.pool_rows + row) * s.pool_cols + col) * (l->out + l->out_gap) + out;
          wanted[at] = (int8_t)value;
        }
}

// Where a tile begins and how long it is, in each dimension that is split.
typedef struct {
  int b, row, col, out, kr, kc, in;
} origin;
typedef origin extent;

static void run_tile(const layer* l, shape s, origin at, extent size, int a_half, int b_half, int load_a, int load_b) {
  const int step = nonzero(l->input_dilation, 1), spread = nonzero(l->kernel_dilation, 1), k = l->kernel;
  const int pool_stride = nonzero(l->pool_stride, 1), pool_size = nonzero(l->pool_size, 1);
  const int in_stride = l->in + l->in_gap, out_stride = l->out + l->out_gap;
  loop_conv_tile t = {.batch_size = l->batch, .in_row_dim = l->rows, .in_col_dim = l->cols, .in_channels = l->in,
                      .out_channels = l->out, .out_row_dim = s.rows, .out_col_dim = s.cols,
                      .pool_out_row_dim = s.pool_rows, .pool_out_col_dim = s.pool_cols, .stride = l->stride,
                      .padding = l->pad, .kernel_dim = k, .kernel_dilation = spread, .pool_size = pool_size,
                      .pool_stride = pool_stride, .pool_padding = l->pool_pad, .in_stride = in_stride,
                      .weight_stride = l->depthwise ? 1 : l->out, .out_stride = out_stride, .batches = size.b,
                      .porows = size.row, .pocols = size.col, .pochs = size.out, .krows = size.kr, .kcols = size.kc,
                      .kchs = size.in, .no_bias = l->no_bias, .no_pool = !l->pool_stride, .downsample = downsamples(l),
                      .wrot180 = l->wrot180, .input_dilated = step == 2, .activation = l->relu,
                      .trans_output_1203 = l->out_1203, .trans_weight_1203 = l->weight_1203,
                      .trans_weight_0132 = l->weight_0132, .trans_input_3120 = l->in_3120, .depthwise = l->depthwise,
                      .a_spad_id = a_half, .b_spad_id = b_half};
  // rows and columns of the output before pooling that the tile needs, and what of them lies outside
  const int orow = at.row * pool_stride - l->pool_pad, ocol = at.col * pool_stride - l->pool_pad;
  const int orows = (size.row - 1) * pool_stride + pool_size, ocols = (size.col - 1) * pool_stride + pool_size;
  t.pupad = most(0, -orow);
  t.plpad = most(0, -ocol);
  t.pdpad = most(0, orow + orows - s.rows);
  t.prpad = most(0, ocol + ocols - s.cols);
  t.orows = orows - t.pupad - t.pdpad;
  t.ocols = ocols - t.plpad - t.prpad;
  // the same for the input, as large as the unroller takes it to be
  const int row = most(orow, 0) * l->stride + at.kr * spread - l->pad;
  const int col = most(ocol, 0) * l->stride + at.kc * spread - l->pad;
  const int rows = t.orows * l->stride + dilated(size.kr, spread) - 1;
  const int cols = t.ocols * l->stride + dilated(size.kc, spread) - 1;
  t.upad = most(0, -row);
  t.lpad = most(0, -col);
  t.dpad = most(0, row + rows - dilated(l->rows, step));
  t.rpad = most(0, col + cols - dilated(l->cols, step));
  const int r = (row + t.upad) / step, c = (col + t.lpad) / step;
  const int kr = l->wrot180 ? k - at.kr - size.kr : at.kr, kc = l->wrot180 ? k - at.kc - size.kc : at.kc;
  t.input = !load_a ? 0
            : l->in_3120 ? input + ((at.in * l->rows + r) * l->cols + c) * l->batch + at.b
                         : input + ((at.b * l->rows + r) * l->cols + c) * in_stride + at.in;
  t.weights = !load_b ? 0
              : l->depthwise   ? weights + (at.out * k + kr) * k + kc
              : l->weight_1203 ? weights + (at.in * k * k + kr * k + kc) * l->out + at.out
              : l->weight_0132 ? weights + ((kr * k + kc) * l->out + at.out) * l->in + at.in
                               : weights + ((kr * k + kc) * l->in + at.in) * l->out + at.out;
  const int first = at.kr == 0 && at.kc == 0 && (at.in == 0 || l->depthwise);
  const int last = at.kr + size.kr == k && at.kc + size.kc == k && (at.in + size.in == l->in || l->depthwise);
  t.bias = first ? bias + at.out : 0;  // without bias any address but 0 asks for zeros
  t.output = !last ? 0
             : l->out_1203 ? found + ((at.row * s.pool_cols + at.col) * l->batch + at.b) * l->out + at.out
                           : found + ((at.b * s.pool_rows + at.row) * s.pool_cols + at.col) * out_stride + at.out;
  const int ordinary = !(l->out_1203 || l->weight_1203 || l->weight_0132 || l->in_3120 || l->wrot180 || downsamples(l) ||
                         step > 1 || spread > 1);
  t.max_pixels_per_row = ordinary && size.in <= DIM ? least(size.kc, DIM / size.in) : 1;
  const int a_rows = blocks(l->in_3120 ? size.b : size.in) * (l->in_3120 ? size.in : size.b) * rows * cols;
  const int b_rows = (l->weight_0132 ? blocks(size.in) * size.out : blocks(size.out) * size.in) * size.kr * size.kc;
  check(l->name, 1, a_rows + b_rows <= SP_ROWS / 2, 1);
  check(l->name, 2, blocks(size.out) * size.b * t.orows * t.ocols <= ACC_ROWS / 2, 1);
  run_loop_conv(&t);
}

static void run(const layer* l, shape s) {
  config_ex(.dataflow = WEIGHT_STATIONARY, .a_stride = l->stride >> downsamples(l),
            .c_stride = nonzero(l->input_dilation, 1), .a_transpose = l->in_3120, .b_transpose = l->weight_0132);
  config_st(.stride = (uint32_t)(l->out_1203 ? l->batch * l->out : l->out + l->out_gap), .activation = l->relu,
            .scale = scale_of(l));
  const extent all = {l->batch, s.pool_rows, s.pool_cols, l->out, l->kernel, l->kernel, l->in};
  const extent tile = {nonzero(l->tile_batch, all.b), nonzero(l->tile_rows, all.row), nonzero(l->tile_cols, all.col),
                       l->depthwise ? 1 : nonzero(l->tile_out, all.out), nonzero(l->tile_kernel_rows, all.kr),
                       nonzero(l->tile_kernel_cols, all.kc), l->depthwise ? 1 : nonzero(l->tile_in, all.in)};
  const int in_tiles = (all.in + tile.in - 1) / tile.in * ((all.kr + tile.kr - 1) / tile.kr) *
                       ((all.kc + tile.kc - 1) / tile.kc);
  // operands of at most two tiles stay, one in each half of the scratchpad
  const int keep_b = !l->depthwise && in_tiles * ((all.out + tile.out - 1) / tile.out) <= 2;
  const int keep_a = !l->depthwise && in_tiles * ((all.b + tile.b - 1) / tile.b) *
                                              ((all.row + tile.row - 1) / tile.row) *
                                              ((all.col + tile.col - 1) / tile.col) <= 2;
  origin at;
  for (at.b = 0; at.b < all.b; at.b += tile.b)
    for (at.row = 0; at.row < all.row; at.row += tile.row)
      for (at.col = 0; at.col < all.col; at.col += tile.col)
        for (at.out = 0; at.out < all.out; at.out += tile.out)
          for (at.kr = 0; at.kr < all.kr; at.kr += tile.kr)
            for (at.kc = 0; at.kc < all.kc; at.kc += tile.kc)
              for (at.in = 0; at.in < (l->depthwise ? 1 : all.in); at.in += tile.in) {
                const extent size = {least(tile.b, all.b - at.b), least(tile.row, all.row - at.row),
                                     least(tile.col, all.col - at.col), least(tile.out, all.out - at.out),
                                     least(tile.kr, all.kr - at.kr), least(tile.kc, all.kc - at.kc),
                                     least(tile.in, all.in - at.in)};
                const int a_half = keep_a ? 1 + (at.kr + at.kc + at.in + at.b + at.row + at.col > 0) : 0;
                const int b_half = keep_b ? 1 + (at.kr + at.kc + at.in + at.out > 0) : 0;
                origin from = at;
                if (l->depthwise) from.in = at.out;
                run_tile(l, s, from, size, a_half, b_half, !(keep_a && at.out > 0),
                         !(keep_b && at.b + at.row + at.col > 0));
              }
  fence();
}

int main(void) {
  for (int i = 0; i < (int)COUNT(layers); ++i) {
    const layer* l = &layers[i];
    const shape s = output_shape(l);
    const int inputs = l->batch * l->rows * l->cols * (l->in + l->in_gap);
    const int outputs = l->batch * s.pool_rows * s.pool_cols * (l->out + l->out_gap);
    const int weight_count = l->kernel * l->kernel * l->out * (l->depthwise ? 1 : l->in);
    check(l->name, 0, inputs <= BUFFER && outputs + 64 <= BUFFER && weight_count <= BUFFER, 1);
    random_bytes(input, (size_t)inputs);
    random_bytes(weights, (size_t)weight_count);
    random_words(bias, COUNT(bias), 1 << 12);
    random_bytes(found, (size_t)outputs + 64);
    memcpy(wanted, found, (size_t)outputs + 64);
    run(l, s);
    compute(l, s);
    check_bytes(l->name, i, found, wanted, (size_t)outputs + 64);
  }
  print("convolution: right\n");
  return 0;
}
