#include "normaliser.h"

#include <cmath>

#include "fields.h"
#include "numerics.h"

namespace baco {

namespace {

// Towards zero; 0 for a count of 0, to which 2**32 elements wrap around.
int32_t quotient(uint32_t dividend, uint32_t divisor) {
  if (divisor == 0) return 0;
  return static_cast<int32_t>(static_cast<int64_t>(static_cast<int32_t>(dividend)) / static_cast<int32_t>(divisor));
}

// 1 over the floor of the square root; a variance of 0 counts as 1, and the root of a negative one, to which sums of
// squares wrap around, is no number.
float inverse_deviation(int32_t variance) {
  int32_t deviation = 1;
  if (variance < 0) deviation = INT32_MAX;
  if (variance > 0) deviation = static_cast<int32_t>(std::sqrt(static_cast<double>(variance)));
  return 1.0f / static_cast<float>(deviation);
}

}  // namespace

void Normaliser::configure(uint64_t rs1, uint64_t rs2, Activation& activation) {
  slot_ = static_cast<size_t>(bits(rs1, 15, 8));
  if (bit(rs1, 17)) return;  // set_stats_id_only
  activation = static_cast<Activation>((static_cast<int>(activation) & 3) | static_cast<int>(bits(rs1, 16, 16)) << 2);
  (bit(rs1, 18) ? qln2_inv_ : qln2_) = static_cast<uint32_t>(bits(rs1, 63, 32));
  qb_ = static_cast<uint32_t>(rs2);
  qc_ = static_cast<uint32_t>(rs2 >> 32);
}

void Normaliser::take(const int32_t* block, int count, NormCommand command, bool last) {
  Statistics& s = statistics_[slot_];
  if (s.fresh) {
    s.sum = s.count = 0;
    s.running_max = INT32_MIN;
  }
  s.fresh = command == NormCommand::kReset ||
            (last && (command == NormCommand::kMean || command == NormCommand::kInverseDeviation));
  const auto element = [block](int i) { return static_cast<uint32_t>(block[i]); };
  switch (command) {
    case NormCommand::kReset:
      return;
    case NormCommand::kSum:
    case NormCommand::kMean:
      for (int i = 0; i < count; ++i) s.sum += element(i);
      s.count += static_cast<uint32_t>(count);
      if (last && command == NormCommand::kMean) s.mean = static_cast<uint32_t>(quotient(s.sum, s.count));
      return;
    case NormCommand::kVariance:
    case NormCommand::kInverseDeviation:
      for (int i = 0; i < count; ++i) s.sum += (element(i) - s.mean) * (element(i) - s.mean);
      s.count += static_cast<uint32_t>(count);
      if (last && command == NormCommand::kInverseDeviation)
        s.inverse_deviation = inverse_deviation(quotient(s.sum, s.count));
      return;
    case NormCommand::kMax:
      for (int i = 0; i < count; ++i) s.running_max = block[i] > s.running_max ? block[i] : s.running_max;
      return;
    default:
      s.max = s.running_max;
      for (int i = 0; i < count; ++i) s.sum += exponential(element(i) - static_cast<uint32_t>(s.max));
      if (last && command == NormCommand::kInverseSumExp) {
        s.running_max = INT32_MIN;
        s.inverse_sum_exp = 127.0f / static_cast<float>(static_cast<int32_t>(s.sum));
      }
  }
}

// I-BERT's polynomial: q * (sign(q) * ((min(|q|, -qb) + qb)**2 + qc) + qc).
uint32_t Normaliser::i_gelu(uint32_t q) const {
  const bool negative = static_cast<int32_t>(q) < 0;
  const uint32_t magnitude = negative ? -q : q, most = -qb_;
  const uint32_t clipped = static_cast<int32_t>(magnitude) > static_cast<int32_t>(most) ? most : magnitude;
  const uint32_t polynomial = (clipped + qb_) * (clipped + qb_) + qc_;
  return q * ((negative ? -polynomial : polynomial) + qc_);
}

// I-BERT's exponential of q <= 0: 2**-z times the polynomial of q + z * ln 2.
uint32_t Normaliser::exponential(uint32_t q) const {
  const uint32_t z = static_cast<uint32_t>(static_cast<int32_t>(-q * qln2_inv_) >> 16);
  const uint32_t base = q + z * qln2_ + qb_;
  return static_cast<uint32_t>(static_cast<int32_t>(base * base + qc_) >> (z & 31));
}

int8_t Normaliser::result(int32_t element, Activation activation, uint32_t scale) const {
  const Statistics& s = statistics_[slot_];
  const uint32_t q = static_cast<uint32_t>(element);
  const float factor = float_from_bits(scale);
  if (activation == Activation::kIGelu) return scale_to_int8(static_cast<int32_t>(i_gelu(q)), factor);
  if (activation == Activation::kLayerNorm) {
    const int32_t centred = static_cast<int32_t>(q - s.mean);
    return scale_to_int8(centred, s.inverse_deviation * factor);
  }
  const int32_t power = static_cast<int32_t>(exponential(q - static_cast<uint32_t>(s.max)));
  return scale_to_int8(scale_to_int8(power, s.inverse_sum_exp), factor);
}

}  // namespace baco
