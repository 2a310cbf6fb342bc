// LOOP_CONV_WS of the functional model: one run becomes the primitive commands of ISA specification, section 8.
#include <algorithm>

#include "functional.h"

namespace baco {

namespace {
uint64_t number(int x) { return static_cast<uint64_t>(x); }
}  // namespace

// One run, decoded. Images are NHWC, weights (kernel row, kernel column, input channel, output channel).
// `whole` sizes belong to the layer, the others to this tile.
struct FunctionalDevice::LoopConv {
  int dim, width, acc_width;  // width: blocks of one load of elements, acc_width: of one of sums
  int bytes;                  // of an element
  int whole_batches, whole_in_rows, whole_in_cols, whole_in_channels, whole_out_rows, whole_out_cols;
  int whole_out_channels, whole_kernel, whole_pooled_rows, whole_pooled_cols;
  int stride, dilation, batches, porows, pocols, krows, kcols, ichs, ochs, orows, ocols;
  int upad, dpad, lpad, rpad, pool_upad, pool_lpad, pool_size, pool_stride;
  uint64_t in_stride, weight_stride, out_stride;  // elements between pixels (input channels for weights)
  uint64_t weights, output, bias, input;          // byte addresses, 0 = none
  bool no_bias, wrot180, trans_output_1203, trans_weight_1203, trans_weight_0132, trans_input_3120, depthwise;
  bool weights_packed;
  bool pooled, downsample, dilated;
  int activation, pixels;

  int irows, icols, irows_unpadded, icols_unpadded;  // input image held locally, in rows after any dilation
  uint32_t input_row, weight_row, accumulator_row;   // where each begins in its memory

  int undilated(int x) const { return (x + (dilated ? 1 : 0)) >> (dilated ? 1 : 0); }
  int down(int x) const { return x >> (downsample ? 1 : 0); }
  int blocks(int channels) const { return (channels + dim - 1) / dim; }
  int image() const { return down(irows) * down(icols); }
  int input_block() const { return (trans_input_3120 ? ichs : batches) * image(); }
  int weight_block() const { return krows * kcols * (trans_weight_0132 ? ochs : ichs); }
  int weight_rows() const { return blocks(trans_weight_0132 ? ichs : ochs) * weight_block(); }
  int output_block() const { return batches * orows * ocols; }

  // Local rows; r and c count from the padding's first row and column.
  uint32_t input_at(int b, int r, int c, int ich) const {
    int pixel = down(r) * down(icols) + down(c);
    int row = trans_input_3120 ? (b / dim) * input_block() + ich * image() + pixel
                               : (ich / dim) * input_block() + b * image() + pixel;
    return input_row + static_cast<uint32_t>(row);
  }
  uint32_t weight_at(int kr, int kc, int ich, int och) const {
    int row = trans_weight_0132 ? (ich / dim) * weight_block() + (kr * kcols + kc) * ochs + och
                                : (och / dim) * weight_block() + (kr * kcols + kc) * ichs + ich;
    return weight_row + static_cast<uint32_t>(row);
  }
  uint32_t output_at(int b, int orow, int ocol, int och) const {
    return accumulator_row +
           static_cast<uint32_t>((och / dim) * output_block() + (b * orows + orow) * ocols + ocol);
  }
  // Offsets wrap at 32 bits as in the hardware.
  static uint64_t address(uint64_t base, uint64_t offset) { return base + static_cast<uint32_t>(offset); }
  uint64_t element(uint64_t base, uint64_t index) const { return address(base, index * number(bytes)); }
};

namespace {

uint64_t load_config(int id, int block_stride, int pixel_repeats) {
  return 1 | number(id) << 3 | (number(pixel_repeats) & 0xff) << 8 | (number(block_stride) & 0xffff) << 16 |
         uint64_t{0x3f800000} << 32;
}

}  // namespace

bool FunctionalDevice::loop_conv(uint64_t rs1, uint64_t rs2) {
  auto first = [&](int n, int high, int low) { return static_cast<int>(bits(conv_.rs1[n - 1], high, low)); };
  auto second = [&](int n, int high, int low) { return static_cast<int>(bits(conv_.rs2[n - 1], high, low)); };
  LoopConv l{};
  l.dim = dim_;
  l.bytes = config_.element_bytes();
  l.width = std::max(1, config_.dma_max_bytes / (dim_ * l.bytes));
  l.acc_width = std::max(1, config_.dma_max_bytes / (4 * dim_));
  l.whole_out_channels = first(1, 63, 48);
  l.whole_in_channels = first(1, 47, 32);
  l.whole_in_rows = first(1, 31, 16);
  l.whole_batches = first(1, 15, 0);
  l.stride = second(1, 55, 48);
  l.whole_out_cols = second(1, 47, 32);
  l.whole_pooled_rows = second(1, 31, 16);
  l.whole_out_rows = second(1, 15, 0);
  l.whole_kernel = first(2, 63, 48);
  l.whole_pooled_cols = first(2, 47, 32);
  l.pool_size = first(2, 31, 16);
  l.pool_stride = first(2, 15, 8);
  l.batches = second(2, 63, 48);
  l.porows = second(2, 47, 32);
  l.pocols = second(2, 31, 16);
  l.ochs = second(2, 15, 0);
  l.krows = first(3, 63, 48);
  l.kcols = first(3, 47, 32);
  l.ichs = first(3, 31, 16);
  l.lpad = first(3, 15, 0);
  l.rpad = second(3, 63, 48);
  l.upad = second(3, 47, 32);
  l.dpad = second(3, 31, 24);
  l.pool_lpad = second(3, 23, 16);
  l.whole_in_cols = second(3, 15, 0);
  l.orows = first(4, 63, 48);
  l.pool_upad = first(4, 31, 21);
  l.dilation = first(4, 9, 0);
  l.in_stride = bits(conv_.rs2[3], 63, 48);
  l.weight_stride = bits(conv_.rs2[3], 47, 32);
  l.out_stride = bits(conv_.rs2[3], 31, 16);
  l.ocols = second(4, 15, 0);
  l.weights = conv_.rs1[4];
  l.output = conv_.rs2[4];
  l.bias = conv_.rs1[5];
  l.input = conv_.rs2[5];

  // What is not built reads as zero (ISA 8).
  bool training = config_.training_convs;
  l.no_bias = bit(rs1, 0);
  l.wrot180 = training && bit(rs1, 1);
  l.trans_output_1203 = training && bit(rs1, 2);
  l.trans_weight_1203 = training && bit(rs1, 3);
  l.trans_weight_0132 = training && bit(rs1, 4);
  l.trans_input_3120 = training && bit(rs1, 5);
  l.depthwise = config_.depthwise_convs && bit(rs1, 6);
  l.pixels = config_.first_layer ? std::max(1, static_cast<int>(bits(rs1, 15, 8))) : 1;
  l.pooled = config_.max_pool && !bit(rs2, 0);
  l.downsample = bit(rs2, 1);
  l.dilated = training && bit(rs2, 2);
  l.activation = static_cast<int>(bits(rs2, 4, 3));
  l.weights_packed = config_.packed_weights && bit(rs2, 5);

  l.irows = l.orows * l.stride + l.krows + (l.dilation - 1) * (l.krows - 1) - 1;
  l.icols = l.ocols * l.stride + l.kcols + (l.dilation - 1) * (l.kcols - 1) - 1;
  l.irows_unpadded = l.undilated(l.irows - l.upad - l.dpad);
  l.icols_unpadded = l.undilated(l.icols - l.lpad - l.rpad);
  if (l.dilated) {
    l.irows = l.irows_unpadded + l.undilated(l.upad) + l.undilated(l.dpad);
    l.icols = l.icols_unpadded + l.undilated(l.lpad) + l.undilated(l.rpad);
  }

  int half = config_.scratchpad_rows / 2;
  int a_id = static_cast<int>(bits(rs1, 19, 18)), b_id = static_cast<int>(bits(rs1, 17, 16));
  int a_half = a_id == 0 ? conv_slot_ : a_id - 1, b_half = b_id == 0 ? conv_slot_ : b_id - 1;
  l.input_row = static_cast<uint32_t>(a_half * half);
  l.weight_row = static_cast<uint32_t>((b_half + 1) * half - l.weight_rows());
  l.accumulator_row = static_cast<uint32_t>(conv_half_ * (config_.accumulator_rows / 2));
  if (l.output != 0) conv_half_ ^= 1;
  conv_slot_ ^= 1;
  return loop_conv_bias(l) && loop_conv_weights(l) && loop_conv_input(l) && loop_conv_compute(l) && loop_conv_store(l);
}

bool FunctionalDevice::loop_conv_bias(const LoopConv& l) {
  if (l.bias == 0) return true;
  if (!issue(kConfig, load_config(2, l.output_block(), 1), 0)) return false;
  for (int b = 0; b < l.batches; ++b)
    for (int orow = 0; orow < l.orows; ++orow)
      for (int ocol = 0; ocol < l.ocols; ocol += l.dim)
        for (int och = 0; och < l.ochs; och += l.acc_width * l.dim) {
          uint64_t source = l.no_bias ? 0 : LoopConv::address(l.bias, number(och) * 4);
          uint64_t target = encode_operand(kFlagAccumulator | l.output_at(b, orow, ocol, och),
                                           std::min(l.dim, l.ocols - ocol), std::min(l.acc_width * l.dim, l.ochs - och));
          if (!issue(kMvin3, source, target)) return false;
        }
  return true;
}

bool FunctionalDevice::loop_conv_weights(const LoopConv& l) {
  if (l.weights == 0) return true;
  uint64_t kernel = number(l.whole_kernel), out_channels = number(l.whole_out_channels);
  uint64_t stride = l.weight_stride;
  if (l.depthwise)
    stride = 1;
  else if (l.trans_weight_1203)
    stride = static_cast<uint32_t>(kernel * kernel * out_channels);
  else if (l.trans_weight_0132)
    stride = number(l.whole_in_channels);
  const int halved = l.weights_packed;
  if (!issue(kConfig, load_config(1, l.weight_block(), 1) | number(halved) << 5, static_cast<uint32_t>(stride * number(l.bytes)) >> halved)) return false;
  int och_step = l.trans_weight_0132 ? l.dim : l.width * l.dim, ich_step = l.trans_weight_0132 ? l.width * l.dim : l.dim;
  for (int och = 0; och < l.ochs; och += och_step)
    for (int kr = 0; kr < l.krows; ++kr)
      for (int kc = 0; kc < l.kcols; ++kc)
        for (int ich = 0; ich < l.ichs; ich += ich_step) {
          uint64_t tap = number(kr) * kernel + number(kc), element;
          if (l.depthwise)
            element = tap;
          else if (l.trans_weight_1203)
            element = (number(ich) * kernel * kernel + tap) * out_channels + number(och);
          else if (l.trans_weight_0132)
            element = (tap * out_channels + number(och)) * number(l.whole_in_channels) + number(ich);
          else
            element = (tap * number(l.whole_in_channels) + number(ich)) * l.weight_stride + number(och);
          int ichs = std::min(ich_step, l.ichs - ich), ochs = std::min(och_step, l.ochs - och);
          uint64_t target = l.trans_weight_0132 ? encode_operand(l.weight_at(kr, kc, ich, och), ochs, ichs)
                                                : encode_operand(l.weight_at(kr, kc, ich, och), ichs, ochs);
          if (!issue(kMvin2, l.weights + (static_cast<uint32_t>(element * number(l.bytes)) >> halved), target)) return false;
        }
  return true;
}

bool FunctionalDevice::loop_conv_input(const LoopConv& l) {
  if (l.input == 0) return true;
  uint64_t stride = (l.trans_input_3120 ? number(l.whole_batches) : l.in_stride) << (l.downsample ? 1 : 0);
  if (!issue(kConfig, load_config(0, l.input_block(), l.pixels), stride * number(l.bytes))) return false;
  int top = l.undilated(l.upad), bottom = l.undilated(l.dpad), left = l.undilated(l.lpad), right = l.undilated(l.rpad);
  int b_step = l.trans_input_3120 ? l.width * l.dim : 1, ich_step = l.trans_input_3120 ? 1 : l.width * l.dim;
  for (int b = 0; b < l.batches; b += b_step)
    for (int r = -top; r < l.irows_unpadded + bottom; r += l.downsample ? 2 : 1) {
      int run;
      for (int c = -left; c < l.icols_unpadded + right; c += run) {
        if (c < 0)
          run = std::min(-c, l.dim);
        else if (c >= l.icols_unpadded)
          run = std::min(l.icols_unpadded + right - c, l.dim);
        else
          run = std::min(l.icols_unpadded - c, l.dim << (l.downsample ? 1 : 0));
        bool inside = r >= 0 && r < l.irows_unpadded && c >= 0 && c < l.icols_unpadded;
        for (int ich = 0; ich < l.ichs; ich += ich_step) {
          uint64_t element;
          if (l.trans_input_3120)
            element = ((number(ich) * number(l.whole_in_rows) + number(r)) * number(l.whole_in_cols) + number(c)) *
                          number(l.batches) +
                      number(b);
          else
            element = ((number(b) * number(l.whole_in_rows) + number(r)) * number(l.whole_in_cols) + number(c)) *
                          l.in_stride +
                      number(ich);
          int cols = l.trans_input_3120 ? std::min(b_step, l.batches - b) : std::min(ich_step, l.ichs - ich);
          uint64_t target = encode_operand(l.input_at(b, r + top, c + left, ich), l.down(run), cols);
          if (!issue(kMvin, inside ? l.element(l.input, element) : 0, target)) return false;
        }
      }
    }
  return true;
}

bool FunctionalDevice::loop_conv_compute(const LoopConv& l) {
  if (l.trans_input_3120) {
    uint64_t strides = uint64_t{1} << 7 | (number(l.image()) & 0xffff) << 16;
    if (!issue(kConfig, strides, (number(l.orows * l.ocols) & 0xffff) << 48)) return false;
  }
  uint64_t none = encode_operand(kGarbageAddress, l.dim, l.dim);
  int b_step = l.trans_input_3120 ? l.dim : 1;
  int ocol_step = l.trans_input_3120 ? 1 : l.dim << (l.dilated ? 1 : 0);
  for (int och = 0; och < l.ochs; och += l.dim)
    for (int kr = 0; kr < l.krows; ++kr)
      for (int kc = 0; kc < l.kcols; kc += l.pixels)
        for (int ich = 0; ich < l.ichs; ich += l.dim) {
          int J = std::min(l.dim, l.ochs - och);
          int K = std::min(l.pixels, l.kcols - kc) * std::min(l.dim, l.ichs - ich);
          int weight_row = l.wrot180 ? l.krows - 1 - kr : kr, weight_col = l.wrot180 ? l.kcols - 1 - kc : kc;
          uint64_t weights = encode_operand(l.weight_at(weight_row, weight_col, ich, och), K, J);
          bool fresh = true;  // the first pass with these weights brings them into the array
          for (int b = 0; b < l.batches; b += b_step)
            for (int orow = 0; orow < l.orows; ++orow) {
              int step;
              for (int ocol = 0; ocol < l.ocols; ocol += step) {
                step = ocol_step;
                if (l.dilated && (((kr * l.dilation + orow - l.upad) | (kc * l.dilation + ocol - l.lpad)) & 1)) {
                  step = 1;  // between the samples of the dilated input there are zeros
                  continue;
                }
                int I = l.trans_input_3120 ? std::min(l.dim, l.batches - b)
                                           : l.undilated(std::min(ocol_step, l.ocols - ocol));
                int r = l.undilated(orow * l.stride + kr * l.dilation);
                int c = l.undilated(ocol * l.stride + kc * l.dilation);
                uint64_t target =
                    encode_operand(kFlagAccumulator | kFlagAccumulate | l.output_at(b, orow, ocol, och), I, J);
                if (!issue(kPreload, fresh ? weights : none, target)) return false;
                if (!issue(fresh ? kComputePreloaded : kComputeAccumulated,
                           encode_operand(l.input_at(b, r, c, ich), I, K), none))
                  return false;
                fresh = false;
              }
            }
        }
  return true;
}

bool FunctionalDevice::loop_conv_store(const LoopConv& l) {
  if (l.output == 0) return true;
  if (!l.pooled) {
    for (int b = 0; b < l.batches; ++b)
      for (int orow = 0; orow < l.orows; ++orow)
        for (int ocol = 0; ocol < l.ocols; ocol += l.dim)
          for (int och = 0; och < l.ochs; och += l.dim) {
            uint64_t element;
            if (l.trans_output_1203)
              element = ((number(orow) * number(l.whole_out_cols) + number(ocol)) * number(l.whole_batches) + number(b)) *
                            number(l.whole_out_channels) +
                        number(och);
            else
              element = ((number(b) * number(l.whole_out_rows) + number(orow)) * number(l.whole_out_cols) +
                         number(ocol)) *
                            l.out_stride +
                        number(och);
            uint64_t source = encode_operand(kFlagAccumulator | l.output_at(b, orow, ocol, och),
                                             std::min(l.dim, l.ocols - ocol), std::min(l.dim, l.ochs - och));
            if (!issue(kMvout, l.element(l.output, element), source)) return false;
          }
    return true;
  }
  uint64_t base = 2 | number(l.activation) << 2;
  uint64_t pool = base | (number(l.pool_stride) & 3) << 4 | (number(l.pool_size) & 3) << 6 |
                  (number(l.pool_upad) & 3) << 8 | (number(l.pool_lpad) & 3) << 10 |
                  (number(l.whole_pooled_cols) & 0xff) << 24 | (number(l.porows) & 0xff) << 32 |
                  (number(l.pocols) & 0xff) << 40 | (number(l.orows) & 0xff) << 48 | (number(l.ocols) & 0xff) << 56;
  uint64_t keep_scale = uint64_t{0xffffffff} << 32;
  if (!issue(kConfig, pool, keep_scale | l.out_stride * number(l.bytes))) return false;
  for (int b = 0; b < l.batches; ++b)
    for (int och = 0; och < l.ochs; och += l.dim) {
      uint64_t element =
          number(b) * number(l.whole_pooled_rows) * number(l.whole_pooled_cols) * l.out_stride + number(och);
      uint64_t source = encode_operand(kFlagAccumulator | l.output_at(b, 0, 0, och), 1, std::min(l.dim, l.ochs - och));
      if (!issue(kMvout, l.element(l.output, element), source)) return false;
    }
  return issue(kConfig, base, keep_scale | l.out_stride * number(l.bytes));
}

}  // namespace baco
