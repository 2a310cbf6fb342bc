#include "activity.h"

#include <algorithm>

namespace baco {

Activity::Activity(const Config& config)
    : config_(config),
      dim_(static_cast<uint64_t>(config.dim)),
      element_bytes_(static_cast<uint64_t>(config.element_bytes())),
      row_bits_(local_row_bits(config)),
      weight_stationary_(!config.os) {}

void Activity::allocate(const Command& command) {
  const uint64_t rs1 = command.rs1, rs2 = command.rs2;
  switch (command.funct) {
    case kConfig:
      return configure(rs1, rs2);
    case kMvin:
      return load(loads_[0], rs1, rs2);
    case kMvin2:
      return load(loads_[1], rs1, rs2);
    case kMvin3:
      return load(loads_[2], rs1, rs2);
    case kMvout:
      return store(rs2);
    case kMvoutScratchpad:
      return copy(rs2);
    case kConfigFunction:
      function_ = bits(rs1, 1, 0);
      product_ = bit(rs1, 9);
      return;
    case kLoadTable:
      counts_.accumulator_read_words += std::max<uint64_t>(128, dim_);
      return;
    case kPreload:
      stationary_ = Operand::decode(rs1, row_bits_);
      result_ = Operand::decode(rs2, row_bits_);
      return;
    case kComputePreloaded:
    case kComputeAccumulated:
      return compute(command.funct == kComputePreloaded, rs1, rs2);
    default:
      return;
  }
}

void Activity::configure(uint64_t rs1, uint64_t rs2) {
  switch (rs1 & 3) {
    case 0:
      if (bit(rs1, 7)) return;  // strides only
      weight_stationary_ = config_.ws && config_.os ? bit(rs1, 2) : config_.ws;
      transpose_a_ = bit(rs1, 8);
      transpose_b_ = bit(rs1, 9);
      return;
    case 1:
      if (bits(rs1, 4, 3) == 3) return;
      loads_[bits(rs1, 4, 3)] = {bit(rs1, 2), config_.packed_weights && bit(rs1, 5), block_element(config_, rs1), rs2, bits(rs1, 31, 16),
                                 config_.first_layer ? std::max<uint64_t>(1, bits(rs1, 15, 8)) : 1};
      return;
    case 2:
      activation_ = bits(rs1, 3, 2);
      store_.pooled = config_.max_pool && bits(rs1, 5, 4) != 0;
      store_.gathered = !store_.pooled && bits(rs1, 7, 6) != 0;
      store_.pool_stride = bits(rs1, 5, 4);
      store_.pool_size = bits(rs1, 7, 6);
      store_.upad = bits(rs1, 9, 8);
      store_.lpad = bits(rs1, 11, 10);
      store_.porows = bits(rs1, 39, 32);
      store_.pocols = bits(rs1, 47, 40);
      store_.orows = bits(rs1, 55, 48);
      store_.ocols = bits(rs1, 63, 56);
      return;
    default:
      if (!bit(rs1, 17)) activation_ = (activation_ & 3) | bits(rs1, 16, 16) << 2;
      return;
  }
}

void Activity::load(const Load& state, uint64_t rs1, uint64_t rs2) {
  const LocalAddress to = LocalAddress::decode(static_cast<uint32_t>(rs2), row_bits_);
  const uint64_t cols = bits(rs2, 47, 32), rows = bits(rs2, 63, 48), blocks = (cols + dim_ - 1) / dim_;
  const uint64_t size = to.accumulator && !state.shrink ? 4 : element_bytes_;
  if (state.block_element != BlockElement::kNone) {
    const bool powers = brings_powers(state.block_element, rs2);
    if (rs1 != 0) counts_.dram_read_bytes += (state.stride == 0 ? 1 : rows) * block_row_bytes(state.block_element, powers, cols);
    if (!powers) counts_.scratchpad_write_bytes += rows * blocks * dim_ * element_bytes_;
    return;
  }
  if (rs1 != 0) counts_.dram_read_bytes += (state.stride == 0 ? 1 : rows) * (state.packed && size != 4 ? (cols + 1) / 2 : cols * size);
  if (to.accumulator) {
    counts_.accumulator_write_words += rows * blocks * dim_;
    if (to.accumulate) counts_.accumulator_read_words += rows * blocks * dim_;
    return;
  }
  uint64_t writes = rows * blocks;
  if (state.repeats > 1) {
    // copies lie below their row; those that would leave its half of the scratchpad are dropped
    const uint64_t half = static_cast<uint64_t>(config_.scratchpad_rows) / 2;
    writes = 0;
    for (uint64_t b = 0; b < blocks; ++b)
      for (uint64_t r = 0; r < rows; ++r) {
        const uint64_t row = to.row + r + b * state.block_stride;
        writes += std::min<uint64_t>(state.repeats, row - (row >= half ? half : 0) + 1);
      }
  }
  counts_.scratchpad_write_bytes += writes * dim_ * element_bytes_;
}

void Activity::read_rows(const LocalAddress& from, uint64_t rows) {
  if (from.accumulator)
    counts_.accumulator_read_words += rows * dim_;
  else
    counts_.scratchpad_read_bytes += rows * dim_ * element_bytes_;
}

uint64_t Activity::pooled_reads() const {
  const auto on_image = [this](uint64_t count, uint64_t pad, uint64_t extent) {
    uint64_t found = 0;
    for (uint64_t n = 0; n < count; ++n)
      for (uint64_t w = 0; w < store_.pool_size; ++w) {
        const uint64_t at = n * store_.pool_stride + w;
        found += at >= pad && at - pad < extent;
      }
    return found;
  };
  return on_image(store_.porows, store_.upad, store_.orows) * on_image(store_.pocols, store_.lpad, store_.ocols);
}

void Activity::store(uint64_t rs2) {
  const LocalAddress from = LocalAddress::decode(static_cast<uint32_t>(rs2), row_bits_);
  const uint64_t cols = bits(rs2, 47, 32), size = from.accumulator && from.read_full ? 4 : element_bytes_;
  uint64_t rows = bits(rs2, 63, 48), reads = rows * ((cols + dim_ - 1) / dim_);
  if (store_.pooled) {
    rows = store_.porows * store_.pocols;
    reads = pooled_reads();
  } else if (store_.gathered) {
    rows = reads = store_.orows * store_.ocols;
  }
  normalise(from, reads * dim_);
  if (from.makes_statistics(config_)) return read_rows(from, reads);
  counts_.dram_write_bytes += rows * cols * size;
  if (size != 4) reads *= apply_function(reads);
  read_rows(from, reads);
}

void Activity::normalise(const LocalAddress& from, uint64_t elements) {
  if (!config_.normalizations || !from.accumulator) return;
  if (from.norm == 3 || from.norm == 4) counts_.variance_elements += elements;
  if (from.norm == 6 || from.norm == 7) counts_.exponential_elements += elements;
  if (from.norm != 0 || from.read_full) return;
  if (activation_ == 2) counts_.layer_norm_elements += elements;
  if (activation_ == 3) counts_.i_gelu_elements += elements;
  if (activation_ == 4) counts_.integer_softmax_elements += elements;
}

uint64_t Activity::apply_function(uint64_t rows) {
  const uint64_t elements = rows * dim_;
  switch (function_) {
    case 1:
      counts_.table_elements += elements;
      return 1;
    case 2:
      counts_.softmax_elements += elements;
      return 3;
    case 3:
      counts_.accumulator_read_words += elements;  // gains and offsets, or what is multiplied by
      (product_ ? counts_.product_elements : counts_.normalisation_elements) += elements;
      return product_ ? 1 : 2;
    default:
      return 1;
  }
}

void Activity::copy(uint64_t rs2) {
  const LocalAddress from = LocalAddress::decode(static_cast<uint32_t>(rs2), row_bits_);
  const uint64_t rows = bits(rs2, 63, 48) * ((bits(rs2, 47, 32) + dim_ - 1) / dim_);
  normalise(from, rows * dim_);
  read_rows(from, rows * apply_function(rows));
  counts_.scratchpad_write_bytes += rows * dim_ * element_bytes_;
}

void Activity::compute(bool preloaded, uint64_t rs1, uint64_t rs2) {
  const bool ws = weight_stationary_;
  Operand a = Operand::decode(rs1, row_bits_), other = Operand::decode(rs2, row_bits_), moved = stationary_;
  // without the feature the operand that starts the sums is hard-wired to zero in an array of one dataflow
  const bool starts = config_.preload_d || (config_.ws && config_.os);
  const bool x = real(moved) && (ws || starts);
  const bool b = real(other) && (!ws || starts);
  const bool keeps = !result_.at.garbage && result_.rows > 0 && result_.cols > 0;
  const bool zeros = !config_.floats() && ws && (preloaded ? !x : zero_weights_);
  const bool reads_a = real(a) && !zeros;
  zero_weights_ = zeros;

  if (!a.at.garbage) {
    const Operand& width = ws ? result_ : other;
    if (!width.at.garbage)
      counts_.macs += static_cast<uint64_t>(a.rows) * static_cast<uint64_t>(a.cols) * static_cast<uint64_t>(width.cols);
  }

  // waves: weight-stationary, one a result row; output-stationary, one a step of the inner dimension
  uint64_t waves = 1;
  if (ws) {
    if (!a.at.garbage) waves = static_cast<uint64_t>(keeps ? std::max(a.rows, result_.rows) : a.rows);
    else if (keeps) waves = static_cast<uint64_t>(result_.rows);
  } else if (!a.at.garbage && !other.at.garbage) {
    waves = static_cast<uint64_t>(std::min(a.cols, other.rows));
  }
  // output-stationary, A enters column by column: the transposer turns it unless it lies transposed in memory
  const bool turns_a = ws ? transpose_a_ : !transpose_a_;
  const bool turns_b = !ws && transpose_b_;
  if ((turns_a && reads_a) || (turns_b && b)) waves = dim_;
  waves = std::max<uint64_t>(1, waves);
  counts_.array_macs += waves * dim_ * dim_;

  uint64_t rows = 0;
  if (reads_a) rows += std::min(stored_rows(a, transpose_a_), turns_a ? dim_ : waves);
  if (b) rows += std::min(stored_rows(other, turns_b), turns_b ? dim_ : waves);
  const bool exchanged = x && preloaded;  // what no COMPUTE_PRELOADED takes into use never moves
  if (exchanged) {
    const uint64_t moves = stored_rows(moved, ws && transpose_b_);
    rows += moves;
    counts_.stationary_words += moves * dim_;
  }
  counts_.scratchpad_read_bytes += rows * dim_ * element_bytes_;

  if (!keeps) return;
  const uint64_t written = static_cast<uint64_t>(result_.rows) * dim_;
  if (!result_.at.accumulator) {
    counts_.scratchpad_write_bytes += written * element_bytes_;
    return;
  }
  counts_.accumulator_write_words += written;
  if (result_.at.accumulate) counts_.accumulator_read_words += written;
}

}  // namespace baco
