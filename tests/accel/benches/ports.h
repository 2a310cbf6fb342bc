// Access to fields of Verilated ports, whatever C++ type their width gives them.
#pragma once
#include <cstdint>
#include <type_traits>

namespace baco {

// Bits [bit, bit + 8) of a port, `bit` a multiple of 8.
template <class Port>
uint8_t get_byte(const Port& port, int bit) {
  if constexpr (std::is_integral_v<Port>) {
    return static_cast<uint8_t>(static_cast<uint64_t>(port) >> bit);
  } else {
    return static_cast<uint8_t>(port[bit / 32] >> bit % 32);
  }
}

template <class Port>
void set_byte(Port& port, int bit, uint8_t value) {
  if constexpr (std::is_integral_v<Port>) {
    uint64_t kept = static_cast<uint64_t>(port) & ~(uint64_t{0xff} << bit);
    port = static_cast<Port>(kept | uint64_t{value} << bit);
  } else {
    port[bit / 32] = (port[bit / 32] & ~(0xffu << bit % 32)) | uint32_t{value} << bit % 32;
  }
}

template <class Port>
bool get_bit(const Port& port, int bit) {
  if constexpr (std::is_integral_v<Port>) {
    return static_cast<uint64_t>(port) >> bit & 1;
  } else {
    return port[bit / 32] >> bit % 32 & 1;
  }
}

// Signed integer of `bits` (a multiple of 8, at most 32).
template <class Port>
int32_t get_signed(const Port& port, int bit, int bits) {
  uint32_t value = 0;
  for (int i = 0; i < bits; i += 8) value |= uint32_t{get_byte(port, bit + i)} << i;
  return static_cast<int32_t>(value << (32 - bits)) >> (32 - bits);
}

template <class Port>
void set_integer(Port& port, int bit, int bits, uint32_t value) {
  for (int i = 0; i < bits; i += 8) set_byte(port, bit + i, static_cast<uint8_t>(value >> i));
}

// A small generator of reproducible random numbers (xorshift).
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 2685821657736338717ull + 1) {}
  uint32_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<uint32_t>(state_ >> 32);
  }
  bool percent(int p) { return static_cast<int>(next() % 100) < p; }

 private:
  uint64_t state_;
};

}  // namespace baco
