// Elements that are integers, of 8 or 16 bits, in rows of memory at any address.
//
// Loops over them know their type; `with_elements` chooses it. As in numerics.h, rounding is that of the floating-point environment.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "numerics.h"

namespace baco {

template <class Element>
inline Element element_at(const void* row, int index) {
  Element value;
  std::memcpy(&value, static_cast<const char*>(row) + static_cast<size_t>(index) * sizeof value, sizeof value);
  return value;
}

template <class Element>
inline void put_element(void* row, int index, int32_t value) {
  const Element kept = static_cast<Element>(value);
  std::memcpy(static_cast<char*>(row) + static_cast<size_t>(index) * sizeof kept, &kept, sizeof kept);
}

// x times scale as an element (scale_to_limits).
template <class Element>
inline int32_t scale_to_element(int32_t x, float scale) {
  return scale_to_limits(x, scale, std::numeric_limits<Element>::max() + 1);
}

// Calls `act` with an element of so many bytes, 1 or 2, whose type is what counts.
template <class Act>
inline void with_elements(size_t bytes, const Act& act) {
  if (bytes == 2)
    act(int16_t{});
  else
    act(int8_t{});
}

// Sums as elements: at least `floor`, scaled by `*scale` where there is one, saturated.
inline void narrow_integers(size_t bytes, const int32_t* sums, int count, int32_t floor, const float* scale, void* out) {
  with_elements(bytes, [&](auto zero) {
    using Element = decltype(zero);
    if (scale != nullptr)
      for (int c = 0; c < count; ++c) put_element<Element>(out, c, scale_to_element<Element>(std::max(sums[c], floor), *scale));
    else
      for (int c = 0; c < count; ++c)
        put_element<Element>(out, c, saturate(std::max(sums[c], floor), std::numeric_limits<Element>::digits + 1));
  });
}

// Elements times a scale, saturated.
inline void scale_integers(size_t bytes, const void* row, int count, float scale, void* out) {
  with_elements(bytes, [&](auto zero) {
    using Element = decltype(zero);
    for (int c = 0; c < count; ++c) put_element<Element>(out, c, scale_to_element<Element>(element_at<Element>(row, c), scale));
  });
}

// Elements as sums.
inline void widen_integers(size_t bytes, const void* row, int count, int32_t* sums) {
  with_elements(bytes, [&](auto zero) {
    for (int c = 0; c < count; ++c) sums[c] = element_at<decltype(zero)>(row, c);
  });
}

}  // namespace baco
