// Loads and stores of the functional model (ISA specification, section 5).
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

#include "functional.h"
#include "integer_elements.h"
#include "numerics.h"

namespace baco {

namespace {
}  // namespace

uint8_t* FunctionalDevice::main_memory(uint64_t address, uint64_t bytes, bool write) {
  if (!memory_.contains(address, bytes)) {
    char text[120];
    std::snprintf(text, sizeof text, "%s %llu bytes at 0x%llx, which is outside main memory", write ? "writes" : "reads",
                  static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(address));
    refuse(Refusal::kMainMemory, text);
    return nullptr;
  }
  (write ? statistics_.bytes_written : statistics_.bytes_read) += bytes;
  return memory_.at(address, bytes, write ? "accelerator write" : "accelerator read");
}

bool FunctionalDevice::mvin(int state, uint64_t rs1, uint64_t rs2) {
  const LoadState& s = ld_[state];
  LocalAddress to = LocalAddress::decode(static_cast<uint32_t>(rs2), row_bits_);
  int cols = static_cast<int>(bits(rs2, 47, 32)), rows = static_cast<int>(bits(rs2, 63, 48));
  uint32_t size = to.accumulator && !s.shrink ? 4 : static_cast<uint32_t>(element_bytes_);
  int blocks = (cols + dim_ - 1) / dim_;
  if (brings_powers(s.block_element, rs2)) return load_powers(rs1, static_cast<size_t>(cols));
  const bool packed = s.packed && size == 1, blocked = s.block_element != BlockElement::kNone;
  const uint64_t bytes = blocked ? block_row_bytes(s.block_element, false, static_cast<uint64_t>(cols))
                         : packed ? static_cast<uint64_t>(cols + 1) / 2 : static_cast<uint64_t>(cols) * size;
  std::vector<uint8_t> unpacked(packed ? static_cast<size_t>(cols) : 0);

  static const uint8_t zeros[1024] = {};
  bool scaled = rs1 != 0;  // zeros stay zeros, whatever the scale
  for (int r = 0; r < rows; ++r) {
    const uint8_t* source = zeros;
    if (rs1 != 0) {
      uint64_t address = (rs1 + static_cast<uint64_t>(r) * s.stride) & kAddressMask;
      source = main_memory(address, bytes, false);
      if (source == nullptr) return false;
      // A row that is replicated is fetched once.
      if (s.stride == 0 && r > 0) statistics_.bytes_read -= bytes;
      if (packed) {
        for (size_t c = 0; c < unpacked.size(); ++c) {
          const uint8_t nibble = source[c / 2] >> (c % 2 * 4) & 15;
          unpacked[c] = static_cast<uint8_t>((nibble ^ 8) - 8);
        }
        source = unpacked.data();
      }
      if (blocked) {
        unpacked = decoded(s.block_element, source, static_cast<size_t>(cols));
        source = unpacked.data();
      }
    }
    for (int b = 0; b < blocks; ++b) {
      uint32_t row = to.row + static_cast<uint32_t>(r) + static_cast<uint32_t>(b) * s.block_stride;
      int n = std::min(dim_, cols - b * dim_);
      const uint8_t* block = source + static_cast<size_t>(b) * dim_ * size;
      if (to.accumulator)
        load_accumulator_row(s, block, row, n, to.accumulate, scaled);
      else
        load_scratchpad_row(s, block, row, n, s.pixel_repeats, scaled);
    }
  }
  return true;
}

bool FunctionalDevice::load_powers(uint64_t address, size_t cols) {
  std::fill_n(powers_.begin(), cols, uint8_t{0});
  if (address == 0) return true;
  const uint8_t* const source = main_memory(address & kAddressMask, cols, false);
  if (source == nullptr) return false;
  std::copy_n(source, cols, powers_.begin());
  return true;
}

std::vector<uint8_t> FunctionalDevice::decoded(BlockElement element, const uint8_t* source, size_t cols) const {
  std::vector<uint8_t> codes(cols * element_bytes_);
  for (size_t c = 0; c < cols; ++c) {
    const unsigned code = element == BlockElement::kE2M1 ? source[c / 2] >> (c % 2 * 4) & 15u : source[c];
    put_code(codes.data(), c, block_elements_.number(element, code, powers_[c]));
  }
  return codes;
}

void FunctionalDevice::load_scratchpad_row(const LoadState& s, const uint8_t* source, uint32_t row, int cols,
                                           int repeats, bool scaled) {
  uint8_t product[256];
  if (scaled && config_.mvin_scale && s.scale != kFloatOne) {
    scale_integers(element_bytes_, source, cols, float_from_bits(s.scale), product);
    source = product;
  }
  // Copy p lies p rows lower; those that would leave the row's half of the scratchpad are dropped.
  uint32_t half = static_cast<uint32_t>(config_.scratchpad_rows) / 2;
  uint32_t lowest = repeats > 1 && row >= half ? half : 0;
  for (uint32_t p = 0; p < static_cast<uint32_t>(repeats) && row >= lowest + p; ++p)
    std::memcpy(&scratchpad_[(static_cast<size_t>(row - p) * dim_ + p * static_cast<uint32_t>(cols)) * element_bytes_], source,
                static_cast<size_t>(cols) * element_bytes_);
}

void FunctionalDevice::load_accumulator_row(const LoadState& s, const uint8_t* source, uint32_t row, int cols,
                                            bool accumulate, bool scaled) {
  int32_t values[128];
  if (s.shrink) {
    uint8_t product[256];
    if (config_.floats()) {
      for (int c = 0; c < cols; ++c)
        values[c] = static_cast<int32_t>(FloatElements::sum_bits(floats_.widen(code_at(source, static_cast<size_t>(c)))));
    } else if (scaled && config_.mvin_scale && s.scale != kFloatOne) {
      scale_integers(element_bytes_, source, cols, float_from_bits(s.scale), product);
      widen_integers(element_bytes_, product, cols, values);
    } else {
      widen_integers(element_bytes_, source, cols, values);
    }
  } else {
    std::memcpy(values, source, static_cast<size_t>(cols) * 4);
    if (scaled && config_.mvin_scale_acc && s.scale != kFloatOne) {
      float scale = float_from_bits(s.scale);
      for (int c = 0; c < cols; ++c) values[c] = scale_to_int32(values[c], scale);
    }
  }
  int32_t* target = &accumulator_[static_cast<size_t>(row) * dim_];
  if (!accumulate) {
    std::memcpy(target, values, static_cast<size_t>(cols) * 4);
    return;
  }
  for (int c = 0; c < cols; ++c) {
    const uint32_t sum = static_cast<uint32_t>(target[c]), more = static_cast<uint32_t>(values[c]);
    target[c] = static_cast<int32_t>(config_.floats() ? FloatElements::add(sum, more) : sum + more);
  }
}

void FunctionalDevice::narrow_row(bool from_accumulator, uint32_t row, int column, int cols, int8_t* out) const {
  size_t start = static_cast<size_t>(row) * dim_ + static_cast<size_t>(column);
  if (!from_accumulator) {
    std::memcpy(out, &scratchpad_[start * element_bytes_], static_cast<size_t>(cols) * element_bytes_);
    return;
  }
  const int32_t* source = &accumulator_[start];
  if (st_.activation >= Activation::kLayerNorm) {
    for (int c = 0; c < cols; ++c) out[c] = normaliser_.result(source[c], st_.activation, st_.scale);
    return;
  }
  if (config_.floats()) {
    const bool relu = config_.activations && st_.activation == Activation::kRelu;
    const int power = config_.accumulator_scale ? static_cast<int>(st_.scale >> 23 & 255) - 127 : 0;
    for (int c = 0; c < cols; ++c)
      put_code(out, static_cast<size_t>(c), floats_.narrow(float_from_bits(static_cast<uint32_t>(source[c])), relu, power));
    return;
  }
  int32_t floor = config_.activations && st_.activation == Activation::kRelu ? 0 : INT32_MIN;  // ReLU before the scale
  if (config_.requantization) {
    for (int c = 0; c < cols; ++c) {
      const uint32_t scale = output_.by_column ? column_scales_[static_cast<size_t>(column + c)] : st_.scale;
      const int32_t steps = scale_to_limits(std::max(source[c], floor), float_from_bits(scale), 256);
      out[c] = static_cast<int8_t>(std::min(std::max(steps + output_.zero, output_.low), output_.high));
    }
  } else {
    const float scale = float_from_bits(st_.scale);
    const bool scaled = config_.accumulator_scale && st_.scale != kFloatOne;
    narrow_integers(element_bytes_, source, cols, floor, scaled ? &scale : nullptr, out);
  }
}

void FunctionalDevice::config_output(uint64_t rs1) {
  output_.by_column = bit(rs1, 0);
  output_.zero = static_cast<int8_t>(bits(rs1, 15, 8));
  output_.low = static_cast<int8_t>(bits(rs1, 23, 16));
  output_.high = static_cast<int8_t>(bits(rs1, 31, 24));
}

void FunctionalDevice::set_scales(uint64_t rs1, uint64_t rs2) {
  const size_t column = bits(rs1, 7, 1) * 2;
  if (column >= column_scales_.size()) return;
  column_scales_[column] = static_cast<uint32_t>(rs2);
  column_scales_[column + 1] = static_cast<uint32_t>(rs2 >> 32);
}

void FunctionalDevice::take_statistics(NormCommand command, uint32_t row, int cols) {
  for (int c = 0; c < cols; c += dim_)
    normaliser_.take(&accumulator_[static_cast<size_t>(row + static_cast<uint32_t>(c)) * dim_], std::min(dim_, cols - c),
                     command, c + dim_ >= cols);
}

bool FunctionalDevice::mvout(uint64_t rs1, uint64_t rs2) {
  LocalAddress from = LocalAddress::decode(static_cast<uint32_t>(rs2), row_bits_);
  int cols = static_cast<int>(bits(rs2, 47, 32)), rows = static_cast<int>(bits(rs2, 63, 48));
  bool full = from.accumulator && from.read_full;
  uint32_t size = full ? 4 : static_cast<uint32_t>(element_bytes_);
  if (st_.mode == StoreMode::kPooled) return mvout_pooled(rs1, from, cols);
  if (st_.mode == StoreMode::kOneDimensional) rows = st_.orows * st_.ocols;
  int blocks = (cols + dim_ - 1) / dim_;
  const bool counts = config_.normalizations && from.accumulator && st_.mode == StoreMode::kRows;
  const auto command = static_cast<NormCommand>(from.norm);
  const int apart = function_.apart > 0 ? function_.apart : dim_;

  for (int r = 0; r < rows; ++r) {
    if (counts) take_statistics(command, from.row + static_cast<uint32_t>(r), cols);
    if (from.makes_statistics(config_)) continue;
    uint64_t pixel = static_cast<uint64_t>(r);
    if (st_.mode == StoreMode::kOneDimensional)
      pixel = static_cast<uint64_t>((r / st_.ocols) * st_.pool_out_dim + r % st_.ocols);
    uint64_t address = (rs1 + pixel * st_.stride) & kAddressMask;
    uint8_t* target = main_memory(address, static_cast<uint64_t>(cols) * size, true);
    if (target == nullptr) return false;
    uint32_t row = from.row + static_cast<uint32_t>(r);
    if (full) {
      std::memcpy(target, &accumulator_[static_cast<size_t>(row) * dim_], static_cast<size_t>(cols) * 4);
      continue;
    }
    int8_t* out = reinterpret_cast<int8_t*>(target);
    for (int b = 0; b < blocks; ++b)
      narrow_row(from.accumulator, row + static_cast<uint32_t>(b * apart), 0, std::min(dim_, cols - b * dim_),
                 out + b * dim_ * static_cast<int>(element_bytes_));
    apply_function(out, cols, r, row);
  }
  if (!full && function_.function == 2 && function_.causal) function_.valid += static_cast<uint32_t>(rows);
  return true;
}

bool FunctionalDevice::mvout_pooled(uint64_t address, const LocalAddress& from, int cols) {
  // The number by which an element is larger than others.
  const auto order = [this](const int8_t* row, int c) -> int {
    if (config_.floats()) return floats_.ordered(code_at(row, static_cast<size_t>(c)));
    return element_bytes_ == 2 ? element_at<int16_t>(row, c) : row[c];
  };
  const size_t bytes = static_cast<size_t>(cols) * element_bytes_;
  for (int pr = 0; pr < st_.porows; ++pr) {
    for (int pc = 0; pc < st_.pocols; ++pc) {
      int8_t best[256], next[256];
      for (int w = 0; w < st_.pool_size * st_.pool_size; ++w) {
        int row = pr * st_.pool_stride + w / st_.pool_size - st_.upad;
        int col = pc * st_.pool_stride + w % st_.pool_size - st_.lpad;
        if (row < 0 || row >= st_.orows || col < 0 || col >= st_.ocols) {
          std::memset(next, 0, bytes);
        } else {
          uint64_t offset = static_cast<uint64_t>(row * st_.ocols + col);
          narrow_row(from.accumulator, from.row + static_cast<uint32_t>(offset), 0, cols, next);
          apply_function(next, cols, 0, 0);
        }
        for (int c = 0; c < cols; ++c)
          if (w == 0 || order(next, c) > order(best, c)) put_code(best, static_cast<size_t>(c), code_at(next, static_cast<size_t>(c)));
      }
      uint64_t pixel = static_cast<uint64_t>(pr * st_.pool_out_dim + pc);
      uint8_t* target = main_memory((address + pixel * st_.stride) & kAddressMask, bytes, true);
      if (target == nullptr) return false;
      std::memcpy(target, best, bytes);
    }
  }
  return true;
}

void FunctionalDevice::mvout_scratchpad(uint64_t rs1, uint64_t rs2) {
  LocalAddress from = LocalAddress::decode(static_cast<uint32_t>(rs2), row_bits_);
  LocalAddress to = LocalAddress::decode(static_cast<uint32_t>(rs1), row_bits_);
  uint64_t stride = bits(rs1, 63, 32);
  int cols = static_cast<int>(bits(rs2, 47, 32)), rows = static_cast<int>(bits(rs2, 63, 48));
  const int apart = function_.apart > 0 ? function_.apart : dim_;
  std::vector<int8_t> line(static_cast<size_t>(cols) * element_bytes_);
  for (int r = 0; r < rows; ++r) {
    const uint32_t row = from.row + static_cast<uint32_t>(r);
    for (int c = 0; c < cols; c += dim_)
      narrow_row(from.accumulator, row + static_cast<uint32_t>(c / dim_ * apart), 0, std::min(dim_, cols - c),
                 &line[static_cast<size_t>(c) * element_bytes_]);
    apply_function(line.data(), cols, r, row);
    for (int c = 0; c < cols; c += dim_) {
      const size_t target = static_cast<size_t>(to.row + static_cast<uint64_t>(r) * stride) + static_cast<size_t>(c);
      std::memcpy(&scratchpad_[target * static_cast<size_t>(dim_) * element_bytes_], &line[static_cast<size_t>(c) * element_bytes_],
                  static_cast<size_t>(std::min(dim_, cols - c)) * element_bytes_);
    }
  }
  if (function_.function == 2 && function_.causal) function_.valid += static_cast<uint32_t>(rows);
}

}  // namespace baco
