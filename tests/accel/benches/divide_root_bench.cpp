// Random quotients and square roots, value and flags, against those of the processor that this runs on, in its four rounding modes.
// Arguments: seed, how many. Prints how many differ, and the first of them.
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

#include "Vdut.h"

namespace {

const int kModes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};

template <class Float, class Bits>
Bits computed(Bits a, Bits b, bool root, int mode, unsigned& flags) {
  volatile Float x, y, z;
  Float given;
  std::memcpy(&given, &a, sizeof given), x = given;
  std::memcpy(&given, &b, sizeof given), y = given;
  std::fesetround(kModes[mode]);
  std::feclearexcept(FE_ALL_EXCEPT);
  z = root ? std::sqrt(x) : x / y;
  const int raised = std::fetestexcept(FE_ALL_EXCEPT);
  std::fesetround(FE_TONEAREST);
  flags = (raised & FE_INVALID ? 16 : 0) | (raised & FE_DIVBYZERO ? 8 : 0) | (raised & FE_OVERFLOW ? 4 : 0) |
          (raised & FE_UNDERFLOW ? 2 : 0) | (raised & FE_INEXACT ? 1 : 0);
  given = z;
  Bits bits;
  std::memcpy(&bits, &given, sizeof bits);
  return bits;
}

// Any bits, subnormal, zero and infinite, near a power of two, near the least normal number, not a number, all ones behind the point.
template <class Bits>
Bits drawn(std::mt19937_64& random, int fraction_bits) {
  const Bits sign = Bits{1} << (sizeof(Bits) * 8 - 1), one = Bits{1} << fraction_bits, fraction = one - 1;
  const Bits exponent = ~sign & ~fraction, bits = static_cast<Bits>(random());
  switch (random() % 9) {
    case 0: return bits & (sign | fraction);
    case 1: return (bits & sign) | (bits & 1 ? exponent : 0);
    case 2: return (bits & sign) | (exponent >> 1 & exponent) | (bits & 7);
    case 3: return (bits & (sign | 7)) + one - static_cast<Bits>(random() % 3);
    case 4: return bits | exponent;
    case 5: return bits | fraction;
    case 6: return bits & (sign | exponent);
    default: return bits;
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) return 2;
  std::mt19937_64 random(std::strtoull(arguments[1], nullptr, 10));
  Vdut dut;
  const auto clock = [&dut] { dut.clock = 0, dut.eval(), dut.clock = 1, dut.eval(); };
  dut.reset = 1, dut.kill = 0, dut.start = 0;
  clock();
  dut.reset = 0;
  unsigned long wrong = 0;
  for (long n = std::atol(arguments[2]); n > 0; --n) {
    const bool wide = random() & 1, root = random() % 3 == 0;
    const int mode = static_cast<int>(random() % 4);
    uint64_t a, b, wanted;
    unsigned flags;
    if (wide) {
      a = drawn<uint64_t>(random, 52), b = drawn<uint64_t>(random, 52);
      wanted = computed<double, uint64_t>(a, b, root, mode, flags);
      if ((wanted & ~(uint64_t{1} << 63)) > uint64_t{0x7ff} << 52) wanted = 0x7ff8000000000000u;
    } else {
      const uint32_t x = drawn<uint32_t>(random, 23), y = drawn<uint32_t>(random, 23);
      uint32_t bits = computed<float, uint32_t>(x, y, root, mode, flags);
      if ((bits & 0x7fffffffu) > 0x7f800000u) bits = 0x7fc00000u;
      const uint64_t box = uint64_t{0xffffffff} << 32;
      a = box | x, b = box | y, wanted = box | bits;
    }
    dut.start = 1, dut.root = root, dut.wide = wide, dut.rounding = mode, dut.a = a, dut.b = b;
    int cycles = 0;
    do {
      clock();
      dut.start = 0;
    } while (!dut.done && ++cycles < 100);
    if (!dut.done || dut.result != wanted || dut.flags != flags) {
      if (!wrong++)
        std::printf("wide %d root %d mode %d: %016llx, %016llx gives %016llx %02x, wanted %016llx %02x\n", wide, root, mode,
                    (unsigned long long)a, (unsigned long long)b, (unsigned long long)dut.result, dut.flags,
                    (unsigned long long)wanted, flags);
    }
    clock();
  }
  std::printf("%lu wrong\n", wrong);
  return wrong != 0;
}
