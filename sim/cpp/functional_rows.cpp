// What stores do with int8 rows on their way out: tables, softmax, normalisation and products (CONFIG_FUNCTION, LOAD_TABLE).
#include <algorithm>

#include "functional.h"

namespace baco {

namespace {

// Floor of the square root.
uint64_t square_root(uint64_t x) {
  uint64_t root = 0;
  for (int bit = 31; bit >= 0; --bit) {
    const uint64_t tried = root | uint64_t{1} << bit;
    if (tried * tried <= x) root = tried;
  }
  return root;
}

// An element times a row's factor, in 20 bits.
int64_t normal(int64_t x, uint64_t factor, int64_t mean) {
  const int64_t limit = (int64_t{1} << 19) - 1;
  return std::clamp((x * static_cast<int64_t>(factor) - mean + 128) >> 8, -limit - 1, limit);
}

int8_t saturated(int64_t x) { return static_cast<int8_t>(std::clamp<int64_t>(x, -128, 127)); }

}  // namespace

void FunctionalDevice::config_function(uint64_t rs1, uint64_t rs2) {
  function_.function = static_cast<int>(bits(rs1, 1, 0));
  function_.centre = bit(rs1, 2);
  function_.causal = bit(rs1, 3);
  function_.shift = static_cast<int>(bits(rs1, 8, 4));
  function_.product = bit(rs1, 9);
  function_.valid = static_cast<uint32_t>(bits(rs1, 31, 16));
  function_.parameter = static_cast<uint32_t>(bits(rs1, 63, 32));
  function_.epsilon = bits(rs2, 47, 0);
  function_.apart = function_.function == 2 ? static_cast<int>(bits(rs2, 55, 48)) : 0;
}

void FunctionalDevice::load_table(uint64_t rs1) {
  const size_t first = static_cast<size_t>(LocalAddress::decode(static_cast<uint32_t>(rs1), row_bits_).row) * dim_;
  for (size_t i = 0; i < 256; ++i)
    table_[i] = static_cast<uint16_t>(static_cast<uint32_t>(accumulator_[first + i / 2]) >> (i % 2 * 16));
}

void FunctionalDevice::apply_function(int8_t* row, int cols, int index, uint32_t local) const {
  switch (function_.function) {
    case 1:
      for (int c = 0; c < cols; ++c) row[c] = static_cast<int8_t>(table_[static_cast<uint8_t>(row[c])] & 255);
      return;
    case 2:
      softmax_row(row, cols, index);
      return;
    case 3:
      if (function_.product)
        multiply_row(row, cols, local);
      else
        normalise_row(row, cols);
      return;
    default:
      return;
  }
}

void FunctionalDevice::softmax_row(int8_t* row, int cols, int index) const {
  const int n = function_.causal ? static_cast<int>(std::min<uint64_t>(function_.valid + static_cast<uint64_t>(index),
                                                                         static_cast<uint64_t>(cols)))
                                 : cols;
  int largest = -128;
  for (int c = 0; c < n; ++c) largest = std::max<int>(largest, row[c]);
  uint64_t sum = 0;
  for (int c = 0; c < n; ++c) sum += table_[largest - row[c]];
  const uint64_t numerator = static_cast<uint64_t>(function_.parameter) << function_.shift;
  const uint64_t inverse = sum == 0 ? 0 : std::min<uint64_t>(numerator / sum, 65535);
  for (int c = 0; c < cols; ++c) {
    const uint64_t exponential = c < n ? table_[largest - row[c]] : 0;
    row[c] = c < n ? static_cast<int8_t>(std::min<uint64_t>((exponential * inverse + (1u << 23)) >> 24, 127)) : 0;
  }
}

void FunctionalDevice::normalise_row(int8_t* row, int cols) const {
  int64_t sum = 0, squares = 0;
  for (int c = 0; c < cols; ++c) {
    sum += row[c];
    squares += static_cast<int64_t>(row[c]) * row[c];
  }
  if (!function_.centre) sum = 0;
  const uint64_t variance =
      static_cast<uint64_t>(cols * squares - sum * sum) + function_.epsilon & ((uint64_t{1} << 48) - 1);
  const uint64_t root = std::max<uint64_t>(square_root(variance << 16), 1);
  const uint64_t factor = std::min<uint64_t>((static_cast<uint64_t>(cols) << 28) / root, (uint64_t{1} << 28) - 1);
  const uint64_t magnitude = static_cast<uint64_t>(sum < 0 ? -sum : sum);
  const int64_t offset = static_cast<int64_t>(std::min<uint64_t>((magnitude << 28) / root, (uint64_t{1} << 36) - 1));
  const int64_t mean = sum < 0 ? -offset : offset;
  const size_t parameters =
      static_cast<size_t>(LocalAddress::decode(function_.parameter, row_bits_).row) * static_cast<size_t>(dim_);
  for (int c = 0; c < cols; ++c) {
    const uint32_t parameter = static_cast<uint32_t>(accumulator_[parameters + static_cast<size_t>(c)]);
    const int64_t gain = static_cast<int16_t>(parameter & 0xffff), addend = static_cast<int16_t>(parameter >> 16);
    const int shift = function_.shift;
    row[c] = saturated((normal(row[c], factor, mean) * gain + addend * (int64_t{1} << (shift - 7)) + (int64_t{1} << (shift - 1))) >> shift);
  }
}

void FunctionalDevice::multiply_row(int8_t* row, int cols, uint32_t local) const {
  const uint64_t factor = function_.epsilon & ((uint64_t{1} << 28) - 1);
  const size_t first = LocalAddress::decode(function_.parameter, row_bits_).row + static_cast<size_t>(local);
  for (int c = 0; c < cols; ++c) {
    const size_t from = (first + static_cast<size_t>(c / dim_ * dim_)) * static_cast<size_t>(dim_);
    const int64_t other = static_cast<int16_t>(accumulator_[from + static_cast<size_t>(c % dim_)] & 0xffff);
    row[c] = saturated((normal(row[c], factor, 0) * other + (int64_t{1} << (function_.shift - 1))) >> function_.shift);
  }
}

}  // namespace baco
