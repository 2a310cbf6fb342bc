// What the phases of our LOOP_CONV_WS unroller send, in the order of their Verilog: see baco_loop_conv_setup.v for the names.
#include <algorithm>

#include "timed_loop_conv.h"

namespace baco {

struct TimedLoopConv::Layout {
  uint64_t weights_addr, output_addr, bias_addr, input_addr;
  uint32_t batches, ochs, ichs, krows, kcols, orows, ocols, in_channels, weight_stride, out_stride;
  uint32_t stride, dilation, upad, lpad, pool_out_rows, pool_out_cols, pool_out_col_dim;
  uint32_t pool_size, pool_stride, pool_upad, pool_lpad, activation, pixels;
  bool no_bias, rotated, o1203, w1203, w0132, i3120, depthwise, no_pool, downsample, dilated, weights_packed;
  uint32_t kernel_chs, kernel_line, kernel_block, weights_rows, image_out, block_out, image_in, block_in, icols;
  uint32_t weight_col, weight_row, weight_plane, in_pixel, in_line, in_image, out_pixel, out_line, out_image;
  int rows_inside, cols_inside, pad_up, pad_down, pad_left, pad_right;
  uint32_t input_start, weights_start, acc_start;
};

namespace {

constexpr uint32_t kOne = 0x3f800000u;  // scale 1

Command configure_loads(uint32_t state, uint64_t block_stride, uint32_t pixels, uint32_t stride) {
  return make(kConfig, uint64_t{kOne} << 32 | (block_stride & 0xffff) << 16 | uint64_t{pixels} << 8 | state << 3 | 1, stride);
}

uint64_t operand(uint32_t local, uint32_t rows, uint32_t cols) {
  return encode_operand(local, static_cast<int>(rows), static_cast<int>(cols));
}

}  // namespace

TimedLoopConv::Tile TimedLoopConv::unroll(uint64_t rs1, uint64_t rs2) const {
  const auto one = [this](unsigned config, int high, int low) { return static_cast<uint32_t>(bits(rs1_[config - 1], high, low)); };
  const auto two = [this](unsigned config, int high, int low) { return static_cast<uint32_t>(bits(rs2_[config - 1], high, low)); };
  Layout l{};
  l.in_channels = one(1, 47, 32);
  const uint32_t in_row_dim = one(1, 31, 16), batch_size = one(1, 15, 0), out_channels = one(1, 63, 48);
  l.stride = two(1, 55, 48);
  const uint32_t out_col_dim = two(1, 47, 32), pool_out_row_dim = two(1, 31, 16), out_row_dim = two(1, 15, 0);
  const uint32_t kernel_dim = one(2, 63, 48);
  l.pool_out_col_dim = one(2, 47, 32);
  l.pool_size = one(2, 23, 16);
  l.pool_stride = one(2, 15, 8);
  l.batches = two(2, 63, 48);
  l.pool_out_rows = two(2, 47, 32);
  l.pool_out_cols = two(2, 31, 16);
  l.ochs = two(2, 15, 0);
  l.krows = one(3, 63, 48);
  l.kcols = one(3, 47, 32);
  l.ichs = one(3, 31, 16);
  l.lpad = one(3, 15, 0);
  const uint32_t rpad = two(3, 63, 48), dpad = two(3, 31, 24), in_col_dim = two(3, 15, 0);
  l.upad = two(3, 47, 32);
  l.pool_lpad = two(3, 23, 16);
  l.orows = one(4, 63, 48);
  l.pool_upad = one(4, 28, 21);
  l.dilation = one(4, 9, 0);
  const uint32_t in_stride = two(4, 63, 48);
  l.weight_stride = two(4, 47, 32);
  l.out_stride = two(4, 31, 16);
  l.ocols = two(4, 15, 0);
  l.weights_addr = rs1_[4];
  l.output_addr = rs2_[4];
  l.bias_addr = rs1_[5];
  l.input_addr = rs2_[5];
  l.no_bias = bit(rs1, 0);
  if (config_.training_convs) {
    l.rotated = bit(rs1, 1);
    l.o1203 = bit(rs1, 2);
    l.w1203 = bit(rs1, 3);
    l.w0132 = bit(rs1, 4);
    l.i3120 = bit(rs1, 5);
    l.dilated = bit(rs2, 2);
  }
  l.depthwise = config_.depthwise_convs && bit(rs1, 6);
  l.pixels = config_.first_layer ? std::max<uint32_t>(1, static_cast<uint32_t>(bits(rs1, 15, 8))) : 1;
  l.no_pool = !config_.max_pool || bit(rs2, 0);
  l.downsample = bit(rs2, 1);
  l.weights_packed = config_.packed_weights && bit(rs2, 5);
  l.activation = static_cast<uint32_t>(bits(rs2, 4, 3));

  const int dil = l.dilated, ds = l.downsample;
  const auto und = [dil](uint32_t pad) { return (static_cast<int>(pad) + dil) >> dil; };
  const auto blocks = [this](uint32_t channels) { return (channels + dim_ - 1) / dim_; };
  l.pad_up = und(l.upad);
  l.pad_down = und(dpad);
  l.pad_left = und(l.lpad);
  l.pad_right = und(rpad);
  l.kernel_chs = l.w0132 ? l.ochs : l.ichs;
  l.kernel_line = l.kernel_chs * l.kcols;
  l.kernel_block = l.kernel_line * l.krows;
  l.weights_rows = l.kernel_block * blocks(l.w0132 ? l.ichs : l.ochs);
  l.weight_col = (l.depthwise ? 1 : l.w1203 || l.w0132 ? out_channels : l.in_channels) *
                 (l.depthwise || l.w1203 ? 1 : l.w0132 ? l.in_channels : l.weight_stride);
  l.weight_row = l.weight_col * kernel_dim;
  l.weight_plane = l.weight_row * kernel_dim;
  l.image_out = l.orows * l.ocols;
  l.block_out = l.image_out * l.batches;
  const int rows_in = static_cast<int>(l.orows * l.stride + l.dilation * (l.krows - 1));
  const int cols_in = static_cast<int>(l.ocols * l.stride + l.dilation * (l.kcols - 1));
  l.rows_inside = (rows_in - static_cast<int>(l.upad + dpad) + dil) >> dil;
  l.cols_inside = (cols_in - static_cast<int>(l.lpad + rpad) + dil) >> dil;
  const int rows_all = l.dilated ? l.rows_inside + l.pad_up + l.pad_down : rows_in;
  const int cols_all = l.dilated ? l.cols_inside + l.pad_left + l.pad_right : cols_in;
  l.icols = static_cast<uint32_t>(cols_all >> ds);
  l.image_in = static_cast<uint32_t>(rows_all >> ds) * l.icols;
  l.block_in = l.image_in * (l.i3120 ? l.ichs : l.batches);
  l.in_pixel = l.i3120 ? l.batches : in_stride;
  l.in_line = l.in_pixel * in_col_dim;
  l.in_image = l.in_line * in_row_dim;
  const bool turned = l.o1203 && l.no_pool;
  l.out_pixel = turned ? batch_size * out_channels : l.out_stride;
  l.out_line = l.out_pixel * (l.no_pool ? out_col_dim : l.pool_out_col_dim);
  l.out_image = turned ? out_channels : l.out_line * (l.no_pool ? out_row_dim : pool_out_row_dim);

  Tile tile;
  tile.tag = tag_;
  tile.acc_half = half_;
  const uint64_t b_id = bits(rs1, 17, 16), a_id = bits(rs1, 19, 18);
  tile.input_half = a_id == 0 ? tag_ : a_id & 2;
  tile.weights_half = b_id == 0 ? tag_ : b_id & 2;
  l.input_start = tile.input_half ? sp_half_ : 0;
  l.weights_start = (tile.weights_half ? 2 * sp_half_ : sp_half_) - l.weights_rows;
  l.acc_start = half_ ? acc_half_ : 0;
  tile.bias = l.bias_addr != 0;
  tile.weights = l.weights_addr != 0;
  tile.input = l.input_addr != 0;
  tile.output = l.output_addr != 0;
  tile.rotated = l.rotated;
  tile.dilated = l.dilated;
  tile.pooled = !l.no_pool;
  tile.strides = l.i3120;
  tile.configure = make(kConfig, uint64_t{l.image_in & 0xffff} << 16 | 1u << 7, uint64_t{l.image_out & 0xffff} << 48);
  if (tile.bias) unroll_bias(l, tile);
  if (tile.weights) unroll_weights(l, tile);
  if (tile.input) unroll_input(l, tile);
  unroll_products(l, tile);
  if (tile.output) unroll_stores(l, tile);
  return tile;
}

void TimedLoopConv::unroll_bias(const Layout& l, Tile& tile) const {
  std::vector<Step>& steps = tile.steps[kBias];
  const uint32_t wide = acc_blocks_ * dim_;
  steps.push_back({configure_loads(2, l.block_out, 1, 0)});
  for (uint32_t och = 0; och < l.ochs; och += wide) {
    uint32_t pixel = 0;
    for (uint32_t row = 0; row < l.batches * l.orows; ++row)
      for (uint32_t col = 0; col < l.ocols; col += dim_) {
        const uint32_t cols = std::min(dim_, l.ocols - col);
        const uint32_t local = kFlagAccumulator | (l.acc_start + och / dim_ * l.block_out + pixel);
        steps.push_back({make(kMvin3, l.no_bias ? 0 : l.bias_addr + och * 4, operand(local, cols, std::min(wide, l.ochs - och))),
                         och / wide, pixel});
        pixel += cols;
      }
  }
}

void TimedLoopConv::unroll_weights(const Layout& l, Tile& tile) const {
  std::vector<Step>& steps = tile.steps[kWeights];
  const uint32_t stride = l.depthwise ? 1 : l.w1203 ? l.weight_plane : l.w0132 ? l.in_channels : l.weight_stride;
  const unsigned halved = l.weights_packed;
  steps.push_back({configure_loads(1, l.kernel_block, 1, stride * element_bytes_ >> halved)});
  steps.back().command.rs1 |= uint64_t{halved} << 5;
  const uint32_t wide = blocks_ * dim_, most_outs = l.w0132 ? dim_ : wide, most_ins = l.w0132 ? wide : dim_;
  const bool inner_rows = l.w0132 && !l.w1203;  // rows of a load are `stride` apart, its columns adjacent
  const uint32_t in_step = l.depthwise ? 0 : inner_rows ? wide : stride * dim_;
  const uint32_t out_step = l.depthwise ? 0 : inner_rows ? stride * dim_ : wide;
  const uint32_t local_in = l.w0132 ? blocks_ * l.kernel_block : dim_, local_out = l.w0132 ? dim_ : blocks_ * l.kernel_block;
  for (uint32_t group = 0; group * most_outs < l.ochs; ++group) {
    const uint32_t outs = std::min(most_outs, l.ochs - group * most_outs);
    uint64_t load = 0;
    for (uint32_t kr = 0; kr < l.krows; ++kr)
      for (uint32_t kc = 0; kc < l.kcols; ++kc)
        for (uint32_t in = 0; in * most_ins < l.ichs; ++in) {
          const uint32_t ins = std::min(most_ins, l.ichs - in * most_ins);
          const uint32_t offset = group * out_step + kr * l.weight_row + kc * l.weight_col + in * in_step;
          const uint32_t local = l.weights_start + group * local_out + (kr * l.kcols + kc) * l.kernel_chs + in * local_in;
          steps.push_back({make(kMvin2, l.weights_addr + (offset * element_bytes_ >> halved), operand(local, l.w0132 ? outs : ins, l.w0132 ? ins : outs)),
                           group, load++});
        }
  }
}

void TimedLoopConv::unroll_input(const Layout& l, Tile& tile) const {
  std::vector<Step>& steps = tile.steps[kInput];
  const int dim = static_cast<int>(dim_), ds = l.downsample;
  steps.push_back({configure_loads(0, l.block_in, l.pixels, (l.in_pixel << ds) * element_bytes_)});
  const uint32_t wide = blocks_ * dim_, ch_step = l.i3120 ? 1 : wide, b_step = l.i3120 ? wide : 1;
  for (uint32_t b = 0; b < l.batches; b += b_step) {
    uint64_t line = 0;
    for (int r = -l.pad_up; r < l.rows_inside + l.pad_down; r += 1 + ds, ++line) {
      int run = 0;
      for (int c = -l.pad_left; c < l.cols_inside + l.pad_right; c += run) {
        const bool within = c >= 0 && c < l.cols_inside, outside = r < 0 || r >= l.rows_inside || !within;
        const int reach = c < 0 ? 0 : within ? l.cols_inside : l.cols_inside + l.pad_right;
        run = std::min(reach - c, within && ds ? 2 * dim : dim);
        for (uint32_t ch = 0; ch < l.ichs; ch += ch_step) {
          const uint32_t offset = l.i3120 ? ch * l.in_image + static_cast<uint32_t>(r) * l.in_line +
                                                static_cast<uint32_t>(c) * l.in_pixel + b
                                          : b * l.in_image + static_cast<uint32_t>(r) * l.in_line +
                                                static_cast<uint32_t>(c) * l.in_pixel + ch;
          const uint32_t place = l.i3120 ? b / dim_ * l.block_in + ch * l.image_in : ch / dim_ * l.block_in + b * l.image_in;
          const uint32_t local = l.input_start + place + static_cast<uint32_t>(line) * l.icols +
                                 static_cast<uint32_t>((c + l.pad_left) >> ds);
          const uint32_t chs = l.i3120 ? std::min(wide, l.batches - b) : std::min(wide, l.ichs - ch);
          steps.push_back({make(kMvin, outside ? 0 : l.input_addr + offset * element_bytes_, operand(local, static_cast<uint32_t>(run >> ds), chs)),
                           b, line});
        }
      }
    }
  }
}

void TimedLoopConv::unroll_products(const Layout& l, Tile& tile) const {
  const uint32_t dil = l.dilated, ds = l.downsample, wide = blocks_ * dim_;
  const uint32_t b_step = l.i3120 ? dim_ : 1, ocol_step = (l.i3120 ? 1 : dim_) << dil;
  for (uint32_t block = 0; block * dim_ < l.ochs; ++block)
    for (uint32_t kr = 0; kr < l.krows; ++kr) {
      for (uint32_t kc = 0; kc < l.kcols; kc += l.pixels)
        for (uint32_t ich = 0; ich < l.ichs; ich += dim_) {
          const uint32_t packed = std::min(l.pixels, l.kcols - kc);
          const uint32_t j = std::min(dim_, l.ochs - block * dim_), k = packed * std::min(dim_, l.ichs - ich);
          const uint32_t kernel_row = l.rotated ? l.krows - 1 - kr : kr, kernel_col = l.rotated ? l.kcols - 1 - kc : kc;
          const uint32_t weights = l.weights_start + (kernel_row * l.kcols + kernel_col) * l.kernel_chs +
                                   (l.w0132 ? ich / dim_ * l.kernel_block + block * dim_ : block * l.kernel_block + ich);
          // loads of weights before these
          const uint64_t positions = kr * l.kcols + kc;
          const uint64_t load = l.w0132 ? positions * ((l.ichs + wide - 1) / wide) + ich / wide
                                        : positions * ((l.ichs + dim_ - 1) / dim_) + ich / dim_;
          const uint32_t first_row = dil & (kr * l.dilation ^ l.upad) & 1, first_col = dil & (kc * l.dilation ^ l.lpad) & 1;
          bool fresh = true;
          if (first_row >= l.orows || first_col >= l.ocols) {
            Product none;
            none.empty = true;
            tile.products.push_back(none);
            continue;
          }
          for (uint32_t b = 0; b < l.batches; b += b_step)
            for (uint32_t orow = first_row; orow < l.orows; orow += 1 + dil)
              for (uint32_t ocol = first_col; ocol < l.ocols; ocol += ocol_step) {
                const uint32_t span = std::min(dim_ << dil, l.ocols - ocol);
                const uint32_t row = (((orow * l.stride + kr * l.dilation) + dil) >> dil) >> ds;
                const uint32_t col = (((ocol * l.stride + kc * l.dilation) + dil) >> dil) >> ds;
                const uint32_t pixel = b * l.image_out + orow * l.ocols + ocol;
                const uint32_t place = l.i3120 ? b / dim_ * l.block_in + ich * l.image_in
                                               : ich / dim_ * l.block_in + b * l.image_in;
                const uint32_t i = l.i3120 ? std::min(dim_, l.batches - b) : (span + dil) >> dil;
                const uint32_t c = kFlagAccumulator | kFlagAccumulate | (l.acc_start + block * l.block_out + pixel);
                Product one;
                one.preload = make(kPreload, operand(fresh ? weights : kGarbageAddress, k, j), operand(c, i, j));
                one.compute = make(fresh ? kComputePreloaded : kComputeAccumulated,
                                   operand(l.input_start + place + row * l.icols + col, i, k), operand(kGarbageAddress, i, j));
                one.block = block;
                one.bias_group = block / acc_blocks_;
                one.pixel = l.i3120 ? ~uint64_t{0} : pixel + span;
                one.weights_group = l.w0132 ? block : block / blocks_;
                one.load = load + (l.w0132 ? 0 : packed - 1);
                one.batch = b;
                one.row = row;
                tile.products.push_back(one);
                fresh = false;
              }
        }
    }
}

void TimedLoopConv::unroll_stores(const Layout& l, Tile& tile) const {
  std::vector<Step>& steps = tile.steps[kStore];
  const uint64_t keep_scale = uint64_t{0xffffffff} << 32;
  if (!l.no_pool)
    steps.push_back({make(kConfig,
                          2 | l.activation << 2 | (l.pool_stride & 3) << 4 | (l.pool_size & 3) << 6 | (l.pool_upad & 3) << 8 |
                              (l.pool_lpad & 3) << 10 | uint64_t{l.pool_out_col_dim & 0xff} << 24 |
                              uint64_t{l.pool_out_rows & 0xff} << 32 | uint64_t{l.pool_out_cols & 0xff} << 40 |
                              uint64_t{l.orows & 0xff} << 48 | uint64_t{l.ocols & 0xff} << 56,
                          keep_scale | l.out_stride * element_bytes_),
                     0, 0, false});
  for (uint32_t block = 0; block * dim_ < l.ochs; ++block) {
    const uint32_t chs = std::min(dim_, l.ochs - block * dim_);
    const auto store = [&](uint32_t offset, uint32_t place, uint32_t rows) {
      const uint32_t local = kFlagAccumulator | (l.acc_start + block * l.block_out + place);
      steps.push_back({make(kMvout, l.output_addr + static_cast<uint32_t>(offset + block * dim_) * element_bytes_, operand(local, rows, chs)), block});
    };
    for (uint32_t b = 0; b < l.batches; ++b) {
      if (!l.no_pool) {
        store(b * l.out_image, b * l.image_out, std::min(dim_, l.ocols));
        continue;
      }
      for (uint32_t row = 0; row < l.orows; ++row)
        for (uint32_t col = 0; col < l.ocols; col += dim_)
          store(b * l.out_image + row * l.out_line + col * l.out_pixel, b * l.image_out + row * l.ocols + col,
                std::min(dim_, l.ocols - col));
    }
  }
  if (!l.no_pool) steps.push_back({make(kConfig, 2 | l.activation << 2, keep_scale | l.out_stride * element_bytes_), 0, 0, false});
}

}  // namespace baco
