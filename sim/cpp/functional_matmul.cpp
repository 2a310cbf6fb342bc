// PRELOAD and COMPUTE of the functional model (ISA specification, section 6).
//
// Partial sums wrap at partial_sum_bits after every step in hardware. Wrapping is a ring homomorphism, so the sum is
// formed in 32 bits and wrapped once; the result is the same.
#include <algorithm>
#include <cstring>

#include "functional.h"
#include "integer_elements.h"
#include "numerics.h"

namespace baco {

namespace {

// sums[rows][n] += a[rows][n, first `depth` columns] * b[first `depth` rows][n]; N = n known to the compiler, or 0.
template <int N>
void multiply(int n, int rows, int depth, const int16_t* __restrict a, const int16_t* __restrict b,
              int32_t* __restrict sums) {
  constexpr int kFixed = N == 0 ? 128 : N;
  int width = N == 0 ? n : N;
  int32_t row[kFixed];
  for (int i = 0; i < rows; ++i) {
    std::memcpy(row, sums + i * width, sizeof(int32_t) * static_cast<size_t>(width));
    for (int k = 0; k < depth; ++k) {
      int32_t x = a[i * width + k];
      const int16_t* line = b + k * width;
      // A product of elements of 16 bits fits 32; sums of such wrap.
      for (int j = 0; j < width; ++j)
        row[j] = static_cast<int32_t>(static_cast<uint32_t>(row[j]) + static_cast<uint32_t>(x * line[j]));
    }
    std::memcpy(sums + i * width, row, sizeof(int32_t) * static_cast<size_t>(width));
  }
}

void multiply(int n, int rows, int depth, const int16_t* a, const int16_t* b, int32_t* sums) {
  switch (n) {
    case 2:
      return multiply<2>(n, rows, depth, a, b, sums);
    case 4:
      return multiply<4>(n, rows, depth, a, b, sums);
    case 8:
      return multiply<8>(n, rows, depth, a, b, sums);
    case 16:
      return multiply<16>(n, rows, depth, a, b, sums);
    case 32:
      return multiply<32>(n, rows, depth, a, b, sums);
    case 64:
      return multiply<64>(n, rows, depth, a, b, sums);
    case 128:
      return multiply<128>(n, rows, depth, a, b, sums);
    default:
      return multiply<0>(n, rows, depth, a, b, sums);
  }
}

}  // namespace

// The operand as a dim x dim matrix, zero beyond its size or when it is garbage. `stride`: rows between stored rows.
void FunctionalDevice::read_matrix(const Operand& operand, uint32_t stride, bool transposed, int16_t* out) const {
  std::memset(out, 0, sizeof(int16_t) * static_cast<size_t>(dim_) * dim_);
  if (operand.at.garbage || operand.rows == 0 || operand.cols == 0) return;
  int stored_rows = transposed ? operand.cols : operand.rows;
  int stored_cols = transposed ? operand.rows : operand.cols;
  for (int r = 0; r < stored_rows; ++r) {
    size_t row = operand.at.row + static_cast<size_t>(r) * stride;
    if (element_bytes_ == 2) {
      for (int c = 0; c < stored_cols; ++c)
        out[transposed ? c * dim_ + r : r * dim_ + c] =
            static_cast<int16_t>(code_at(scratchpad_.data(), row * static_cast<size_t>(dim_) + static_cast<size_t>(c)));
      continue;
    }
    const int8_t* source = reinterpret_cast<const int8_t*>(&scratchpad_[row * static_cast<size_t>(dim_)]);
    if (transposed)
      for (int c = 0; c < stored_cols; ++c) out[c * dim_ + r] = source[c];
    else
      for (int c = 0; c < stored_cols; ++c) out[r * dim_ + c] = source[c];
  }
}

void FunctionalDevice::preload(uint64_t rs1, uint64_t rs2) {
  Operand source = Operand::decode(rs1, row_bits_);
  c_ = Operand::decode(rs2, row_bits_);
  bool ws = ex_.weight_stationary;
  if (!ws && !config_.preload_d && !config_.ws) source.at.garbage = true;  // D is hard-wired to zero
  size_t square = static_cast<size_t>(dim_) * dim_;
  if (ws) {
    read_matrix(source, 1, ex_.transpose_b, next_weights_.data());
    next_weight_rows_ = source.at.garbage ? 0 : source.rows;
    next_weight_cols_ = source.at.garbage ? 0 : source.cols;
  } else {
    read_matrix(source, 1, false, b_.data());
    for (size_t n = 0; n < square; ++n) next_sums_[n] = b_[n];
  }
}

void FunctionalDevice::compute(bool preloaded, uint64_t rs1, uint64_t rs2) {
  bool ws = ex_.weight_stationary;
  Operand a = Operand::decode(rs1, row_bits_), other = Operand::decode(rs2, row_bits_);
  if (ws && !config_.preload_d && !config_.os) other.at.garbage = true;  // D is hard-wired to zero
  read_matrix(a, ex_.stride_a, ex_.transpose_a, a_.data());
  read_matrix(other, 1, !ws && ex_.transpose_b, b_.data());
  int a_rows = a.at.garbage ? 0 : a.rows, a_cols = a.at.garbage ? 0 : a.cols;
  size_t square = static_cast<size_t>(dim_) * dim_;
  if (ws) {
    if (preloaded) {
      weights_.swap(next_weights_);
      std::swap(weight_rows_, next_weight_rows_);
      std::swap(weight_cols_, next_weight_cols_);
    }
    statistics_.macs += static_cast<uint64_t>(a_rows) * std::min(a_cols, weight_rows_) * weight_cols_;
    if (c_.at.garbage) return;
    if (config_.floats()) {
      multiply_floats();
      return write_result(result_.data());
    }
    for (int n = 0; n < c_.rows * dim_; ++n) result_[n] = b_[n];
    multiply(dim_, std::min(a_rows, c_.rows), a_cols, a_.data(), weights_.data(), result_.data());
    if (config_.partial_sum_bits < 32)
      for (int n = 0; n < c_.rows * dim_; ++n) result_[n] = wrap(result_[n], config_.partial_sum_bits);
    return write_result(result_.data());
  }
  if (preloaded) sums_.swap(next_sums_);
  if (!other.at.garbage)
    statistics_.macs += static_cast<uint64_t>(a_rows) * std::min(a_cols, other.rows) * other.cols;
  multiply(dim_, a_rows, a_cols, a_.data(), b_.data(), sums_.data());
  if (config_.partial_sum_bits < 32)
    for (size_t n = 0; n < square; ++n) sums_[n] = wrap(sums_[n], config_.partial_sum_bits);
  if (c_.at.garbage) return;
  for (int n = 0; n < c_.rows * dim_; ++n)
    result_[n] = saturate(round_shift(sums_[n], ex_.shift), config_.partial_sum_bits);
  write_result(result_.data());
}

unsigned FunctionalDevice::code_at(const void* elements, size_t index) const {
  const uint8_t* at = static_cast<const uint8_t*>(elements) + index * element_bytes_;
  return element_bytes_ == 2 ? at[0] | static_cast<unsigned>(at[1]) << 8 : at[0];
}

void FunctionalDevice::put_code(void* elements, size_t index, unsigned code) const {
  uint8_t* at = static_cast<uint8_t*>(elements) + index * element_bytes_;
  at[0] = static_cast<uint8_t>(code);
  if (element_bytes_ == 2) at[1] = static_cast<uint8_t>(code >> 8);
}

// Unlike integers, zeros beyond an operand count: they multiply infinities, and -0 + 0 is 0.
void FunctionalDevice::multiply_floats() {
  const size_t n = static_cast<size_t>(dim_);
  const unsigned mask = element_bytes_ == 2 ? 0xffff : 0xff;
  const auto number = [&](int16_t code) { return floats_.widen(static_cast<unsigned>(code) & mask); };
  std::vector<float> weights(n * n), sums(n);
  for (size_t at = 0; at < n * n; ++at) weights[at] = number(weights_[at]);
  for (size_t i = 0; i < static_cast<size_t>(c_.rows); ++i) {
    for (size_t j = 0; j < n; ++j) sums[j] = number(b_[i * n + j]);
    for (size_t k = 0; k < n; ++k) {
      const float x = number(a_[i * n + k]);
      for (size_t j = 0; j < n; ++j) sums[j] += x * weights[k * n + j];
    }
    for (size_t j = 0; j < n; ++j) result_[i * n + j] = static_cast<int32_t>(FloatElements::sum_bits(sums[j]));
  }
}

// Result rows [c_.rows][dim] to C: raw into the accumulator, saturated and activated into the scratchpad.
void FunctionalDevice::write_result(const int32_t* result) {
  if (c_.cols == 0) return;  // then its row numbers mean nothing
  bool relu = config_.activations && ex_.relu;
  for (int i = 0; i < c_.rows; ++i) {
    size_t start = (c_.at.row + static_cast<size_t>(i) * ex_.stride_c) * static_cast<size_t>(dim_);
    const int32_t* row = result + i * dim_;
    if (config_.floats() && !c_.at.accumulator) {
      for (int j = 0; j < c_.cols; ++j)
        put_code(scratchpad_.data(), start + static_cast<size_t>(j), floats_.narrow(float_from_bits(static_cast<uint32_t>(row[j])), relu));
    } else if (config_.floats() && c_.at.accumulate) {
      for (int j = 0; j < c_.cols; ++j) {
        int32_t& sum = accumulator_[start + static_cast<size_t>(j)];
        sum = static_cast<int32_t>(FloatElements::add(static_cast<uint32_t>(sum), static_cast<uint32_t>(row[j])));
      }
    } else if (!c_.at.accumulator) {
      narrow_integers(element_bytes_, row, c_.cols, relu ? 0 : INT32_MIN, nullptr, &scratchpad_[start * element_bytes_]);
    } else if (c_.at.accumulate) {
      for (int j = 0; j < c_.cols; ++j) {
        int32_t& sum = accumulator_[start + static_cast<size_t>(j)];
        sum = static_cast<int32_t>(static_cast<uint32_t>(sum) + static_cast<uint32_t>(row[j]));
      }
    } else {
      std::memcpy(&accumulator_[start], row, sizeof(int32_t) * static_cast<size_t>(c_.cols));
    }
  }
}

}  // namespace baco
