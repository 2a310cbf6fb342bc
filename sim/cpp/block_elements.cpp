#include "block_elements.h"

namespace baco {

namespace {
constexpr int kBias = 127;
constexpr unsigned kNoNumber = 255;  // the byte of a power that makes NaN of a block
}  // namespace

BlockElements::BlockElements(const FloatElements& numbers) : numbers_(numbers) {
  const FloatElements e4m3(1), e5m2(2);
  constexpr float kE2M1[] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
  for (unsigned code = 0; code < 256; ++code) {
    elements_[static_cast<size_t>(BlockElement::kE2M1)].push_back(code & 8 ? -kE2M1[code & 7] : kE2M1[code & 7]);
    elements_[static_cast<size_t>(BlockElement::kE4M3)].push_back(e4m3.widen(code));
    elements_[static_cast<size_t>(BlockElement::kE5M2)].push_back(e5m2.widen(code));
    elements_[static_cast<size_t>(BlockElement::kInt8)].push_back(static_cast<float>(static_cast<int8_t>(code)) / 64.0f);
  }
}

unsigned BlockElements::number(BlockElement element, unsigned code, unsigned power) const {
  return numbers_.scaled(power == kNoNumber ? __builtin_nanf("") : elements_[static_cast<size_t>(element)][code],
                         static_cast<int>(power) - kBias);
}

}  // namespace baco
