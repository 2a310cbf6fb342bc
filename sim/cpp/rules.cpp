#include "rules.h"

#include <algorithm>

namespace baco {

namespace {
constexpr uint64_t kAddressMask = (uint64_t{1} << 40) - 1;
enum { kRows, kPooled, kGathered };
}  // namespace

Rules::Rules(const Config& config, uint64_t base, uint64_t bytes)
    : config_(config), row_bits_(local_row_bits(config)), weight_stationary_(!config.os), base_(base), used_(bytes) {}

Rules::Rows Rules::rows(uint32_t word, uint64_t count, uint64_t stride, uint64_t below) const {
  const LocalAddress at = LocalAddress::decode(word, row_bits_);
  if (at.garbage || count == 0) return {};
  return {at.accumulator, {at.row - std::min<uint64_t>(at.row, below), at.row + (count - 1) * stride + 1}};
}

Rules::Rows Rules::operand(uint64_t value, bool transposed, uint64_t stride) const {
  return rows(static_cast<uint32_t>(value), transposed ? bits(value, 47, 32) : bits(value, 63, 48), stride);
}

void Rules::config(const Command& command) {
  const uint64_t rs1 = command.rs1, rs2 = command.rs2;
  switch (rs1 & 3) {
    case 0: {
      stride_a_ = bits(rs1, 31, 16);
      stride_c_ = bits(rs2, 63, 48);
      if (bit(rs1, 7)) break;
      const bool ws = config_.ws && config_.os ? bit(rs1, 2) : config_.ws;
      fresh_ |= ws != weight_stationary_;
      weight_stationary_ = ws;
      transpose_a_ = bit(rs1, 8);
      transpose_b_ = bit(rs1, 9);
      break;
    }
    case 1:
      if (bits(rs1, 4, 3) < 3)
        loads_[bits(rs1, 4, 3)] = {rs2, bits(rs1, 31, 16),
                                   config_.first_layer ? std::max<uint64_t>(1, bits(rs1, 15, 8)) : 1, bit(rs1, 2)};
      break;
    case 2:
      store_.mode = config_.max_pool && bits(rs1, 5, 4) ? kPooled : bits(rs1, 7, 6) ? kGathered : kRows;
      store_.stride = bits(rs2, 31, 0);
      if (store_.mode == kRows) break;
      store_.out_dim = bits(rs1, 31, 24);
      store_.orows = bits(rs1, 55, 48);
      store_.ocols = bits(rs1, 63, 56);
      if (store_.mode == kGathered) break;
      store_.porows = bits(rs1, 39, 32);
      store_.pocols = bits(rs1, 47, 40);
      break;
    default:
      break;
  }
}

std::string Rules::access(uint64_t address, uint64_t bytes, bool write) {
  address = (address & kAddressMask) - base_;
  if (address >= used_.size() || bytes > used_.size() - address) return {};
  const uint8_t mine = write ? 2 : 1;
  bool both = false;
  for (uint8_t* at = &used_[address]; bytes; --bytes) both |= (*at++ |= mine) == 3;
  return both ? "main memory is read and written without a fence between" : "";
}

std::string Rules::between(const Rows& touched) const {
  return pending_ && (touched.meets(stationary_) || touched.meets(result_))
             ? "what a PRELOAD names is touched before its COMPUTE"
             : "";
}

std::string Rules::load(const Command& command) {
  const Load& state = loads_[command.funct == kMvin ? 0 : command.funct == kMvin2 ? 1 : 2];
  const uint32_t word = static_cast<uint32_t>(command.rs2);
  const uint64_t cols = bits(command.rs2, 47, 32), count = bits(command.rs2, 63, 48);
  const uint64_t dim = static_cast<uint64_t>(config_.dim);
  Rows touched = rows(word, count, 1, state.repeats - 1);
  touched.span.past += (std::max<uint64_t>(cols, 1) - 1) / dim * state.block_stride;
  if (const std::string broken = between(touched); !broken.empty()) return broken;
  if (command.rs1 == 0) return {};
  const uint64_t size = touched.accumulator && !state.shrink ? 4 : 1;
  std::string broken;
  for (uint64_t r = 0; r < count && broken.empty(); ++r)
    broken = access(command.rs1 + r * state.stride, cols * size, false);
  return broken;
}

std::string Rules::store(const Command& command) {
  const uint32_t word = static_cast<uint32_t>(command.rs2);
  const LocalAddress from = LocalAddress::decode(word, row_bits_);
  const uint64_t cols = bits(command.rs2, 47, 32), dim = static_cast<uint64_t>(config_.dim);
  uint64_t count = bits(command.rs2, 63, 48);
  if (store_.mode != kRows) count = store_.orows * store_.ocols;
  Rows touched = rows(word, count, 1);
  touched.span.past += (std::max<uint64_t>(cols, 1) - 1) / dim * dim;
  std::string broken = between(touched);
  if (command.funct == kMvoutScratchpad) {
    const Rows to = rows(static_cast<uint32_t>(command.rs1), count, bits(command.rs1, 63, 32));
    if (broken.empty()) broken = between(to);
    if (broken.empty() && to.meets(touched)) broken = "a copy inside the scratchpad overlaps its source";
    return broken;
  }
  const uint64_t bytes = cols * (from.accumulator && from.read_full ? 4 : 1);
  const uint64_t across = store_.mode == kPooled ? store_.pocols : store_.mode == kGathered ? store_.ocols : 1;
  if (store_.mode == kPooled) count = store_.porows * store_.pocols;
  for (uint64_t n = 0; n < count && broken.empty(); ++n) {
    const uint64_t pixel = store_.mode == kRows ? n : n / across * store_.out_dim + n % across;
    broken = access(command.rs1 + pixel * store_.stride, bytes, true);
  }
  return broken;
}

std::string Rules::compute(const Command& command) {
  const bool accumulates = command.funct == kComputeAccumulated;
  if (accumulates && fresh_) return "COMPUTE_ACCUMULATED before a COMPUTE_PRELOADED of this dataflow";
  fresh_ = pending_ = false;
  const Rows a = operand(command.rs1, transpose_a_, stride_a_);
  const Rows other = operand(command.rs2, !weight_stationary_ && transpose_b_, 1);
  return result_.meets(a) || result_.meets(other) ? "a result overwrites operands of its own COMPUTE" : "";
}

std::string Rules::primitive(const Command& command) {
  switch (command.funct) {
    case kConfig:
      config(command);
      return {};
    case kMvin:
    case kMvin2:
    case kMvin3:
      return load(command);
    case kMvout:
    case kMvoutScratchpad:
      return store(command);
    case kPreload:
      pending_ = true;
      stationary_ = operand(command.rs1, weight_stationary_ && transpose_b_, 1);
      result_ = rows(static_cast<uint32_t>(command.rs2), bits(command.rs2, 63, 48), stride_c_);
      return {};
    case kComputePreloaded:
    case kComputeAccumulated:
      return compute(command);
    default:
      return {};
  }
}

std::string Rules::loop_ws(const Command& run) {
  const bool resadd = bit(run.rs2, 2);
  const int mode = resadd;
  if (macro_mode_ >= 0 && macro_mode_ != mode) return "residual addition and product without a fence between";
  macro_mode_ = mode;
  if (store_.mode != kRows) return "LOOP_WS with pooling or the 1-D mode on";
  for (size_t id = 0; id < (resadd ? 2 : 3); ++id) {
    const Load& load = loads_[id];
    if (load.repeats != 1 || load.block_stride != static_cast<uint64_t>(config_.dim))
      return "LOOP_WS with pixel repeats or a block stride other than DIM";
    if ((resadd && !load.shrink) || (id == 2 && load.shrink != bit(run.rs1, 2)))
      return "LOOP_WS with loads of the wrong type";
  }
  if (resadd) return {};
  const bool fits = weight_stationary_ && stride_a_ == 1 && stride_c_ == 1 && transpose_a_ == bit(run.rs2, 0) &&
                    transpose_b_ == bit(run.rs2, 1);
  return fits ? "" : "LOOP_WS with another CONFIG_EX than it asks for";
}

std::string Rules::loop_conv(const Command& run) const {
  if (store_.mode != kRows) return "LOOP_CONV_WS with pooling or the 1-D mode on";
  const bool trains = config_.training_convs;
  const bool dilated = trains && bit(run.rs2, 2);
  const bool swapped = trains && bit(run.rs1, 5);  // trans_input_3120 sets the strides itself
  const bool strides = stride_a_ == conv_stride_ >> bit(run.rs2, 1) && stride_c_ == (dilated ? 2u : 1u);
  const bool fits = weight_stationary_ && (swapped || strides) && transpose_a_ == swapped &&
                    transpose_b_ == (trains && bit(run.rs1, 4));
  return fits ? "" : "LOOP_CONV_WS with another CONFIG_EX than it asks for";
}

std::string Rules::macro(const Command& command) {
  const bool run = command.funct == kLoopWs || command.funct == kLoopConv;
  if (command.funct == kLoopConvConfig1) conv_stride_ = bits(command.rs2, 55, 48);
  if (!run) return {};
  if (pending_) return "a macro between a PRELOAD and its COMPUTE";
  return command.funct == kLoopWs ? loop_ws(command) : loop_conv(command);
}

void Rules::fence() {
  std::fill(used_.begin(), used_.end(), uint8_t{0});
  macro_mode_ = -1;
}

}  // namespace baco
