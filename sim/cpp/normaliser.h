// Gemmini's normaliser commands: statistics of accumulator rows, and the layer norm, I-GELU and softmax of results
// (ISA specification, sections 3.2, 4.3, 4.4). Layer norm is rounded once, as in Gemmini's RTL; the other arithmetic is that
// of Gemmini's functional simulator, whose int32 wraps around. Where that one leaves a value to its host, it is the one of a RISC-V host: conversions to integers
// saturate and make NaN the largest, shifts are by the low five bits.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

namespace baco {

enum class NormCommand : uint8_t {
  kReset = 0,  // results are stored; the next statistics begin anew
  kSum = 1,
  kMean = 2,
  kVariance = 3,
  kInverseDeviation = 4,
  kMax = 5,
  kSumExp = 6,
  kInverseSumExp = 7,
};

enum class Activation : uint8_t { kNone = 0, kRelu = 1, kLayerNorm = 2, kIGelu = 3, kSoftmax = 4 };

class Normaliser {
 public:
  // CONFIG_NORM; `activation` is that of stores, whose third bit it sets.
  void configure(uint64_t rs1, uint64_t rs2, Activation& activation);
  // A block of an accumulator row, whose last block is `last`: what comes before it goes on without a result.
  void take(const int32_t* block, int count, NormCommand command, bool last);
  // An element as it is stored, scaled by the float32 with these bits; layer norm, I-GELU and softmax only.
  int8_t result(int32_t element, Activation activation, uint32_t scale) const;

 private:
  struct Statistics {
    bool fresh = true;  // the sums below count for nothing
    uint32_t sum = 0, count = 0;
    int32_t running_max = INT32_MIN;
    int32_t max = 0;
    uint32_t mean = 0;
    float inverse_deviation = 0, inverse_sum_exp = 0;
  };

  uint32_t i_gelu(uint32_t q) const;
  uint32_t exponential(uint32_t q) const;

  std::array<Statistics, 2> statistics_;
  size_t slot_ = 0;
  uint32_t qb_ = 0, qc_ = 0, qln2_ = 0, qln2_inv_ = 0;
};

}  // namespace baco
