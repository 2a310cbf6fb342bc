// The arithmetic of the generated header as compiled for the host core: what programs check results with must be what
// the hardware does.
#include "accel.h"

#define TRIALS 4000

static float from_bits(uint32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

int main(void) {
  const uint32_t special[] = {0x3f800000, 0x3f000000, 0x3f7fffff, 0x3f800001, 0x00000000, 0x80000000,
                              0x00000001, 0x5f000000, 0xdf000000, 0x7f7fffff, 0xbf800000, 0x40200000};
  const int32_t edges[] = {0, 1, -1, 2, 127, -128, 1 << 24, (1 << 24) + 1, -(1 << 24) - 1, INT32_MAX, INT32_MIN, 255};
  for (int i = 0; i < TRIALS; ++i) {
    uint32_t bits = special[i % (int)COUNT(special)];
    if (i >= 12 * 12) bits = (uint32_t)random_between(0x60, 0x87) << 23 | (uint32_t)random_between(0, 0x7fffff);
    if (i >= 12 * 12 && i % 3 == 0) bits |= 0x80000000;
    int32_t x = i < 12 * 12 ? edges[i / 12] : random_between(-(1 << 30), 1 << 30) >> random_between(0, 30);
    const float scale = from_bits(bits);
    check("ACC_SCALE", i, ACC_SCALE(x, scale), scaled(x, bits));
#ifdef HAS_MVIN_SCALE
    const elem_t small = (elem_t)x;
    check("MVIN_SCALE", i, MVIN_SCALE(small, scale), scaled(small, bits));
#endif
    const int shift = random_between(0, 31);
    check("ROUNDING_RIGHT_SHIFT", i, ROUNDING_RIGHT_SHIFT(x, shift), (int32_t)rounded_shift(x, shift));
  }
  check("NaN", 0, ACC_SCALE(0, from_bits(0x7fc00000)), 127);
  print("header: right\n");
  return 0;
}
