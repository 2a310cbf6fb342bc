// Bit fields of commands and the 32-bit local address word (ISA specification, sections 3.2 and 6.1).
#pragma once
#include <cstdint>

#include "config.h"

namespace baco {

// Bits [high:low] of a register value, both inclusive.
inline uint64_t bits(uint64_t value, int high, int low) {
  int width = high - low + 1;
  return width == 64 ? value : (value >> low) & ((uint64_t{1} << width) - 1);
}

inline bool bit(uint64_t value, int position) { return (value >> position) & 1; }

// Function codes (ISA 2).
enum Funct : uint8_t {
  kConfig = 0,
  kMvin2 = 1,
  kMvin = 2,
  kMvout = 3,
  kComputePreloaded = 4,
  kComputeAccumulated = 5,
  kPreload = 6,
  kFlush = 7,
  kLoopWs = 8,
  kLoopWsBounds = 9,
  kLoopWsAddressesAB = 10,
  kLoopWsAddressesDC = 11,
  kLoopWsStridesAB = 12,
  kLoopWsStridesDC = 13,
  kMvin3 = 14,
  kLoopConv = 15,
  kLoopConvConfig1 = 16,  // ... 21
  kLoopConvConfig6 = 21,
  kClockGate = 22,
  kMvoutScratchpad = 23,
  kLoopWsScratchpadAB = 24,
  kLoopWsScratchpadC = 25,
  kConfigFunction = 26,
  kLoadTable = 27,
  kConfigOutput = 28,
  kSetScales = 29,
  kCounter = 126,
};

constexpr uint32_t kFlagAccumulator = 1u << 31;
constexpr uint32_t kFlagAccumulate = 1u << 30;
constexpr uint32_t kFlagReadFull = 1u << 29;
constexpr uint32_t kGarbageAddress = 0xffffffffu;

// Smallest n with 2**n >= value.
inline int ceil_log2(uint64_t value) {
  int n = 0;
  while ((uint64_t{1} << n) < value) ++n;
  return n;
}

// Row-index bits of a local address: enough for the larger memory.
inline int local_row_bits(const Config& config) {
  int larger =
      config.scratchpad_rows > config.accumulator_rows ? config.scratchpad_rows : config.accumulator_rows;
  return ceil_log2(static_cast<uint64_t>(larger));
}

struct LocalAddress {
  bool accumulator = false;  // which memory
  bool accumulate = false;   // writes to the accumulator add
  bool read_full = false;    // stores read raw int32
  uint8_t norm = 0;          // normaliser command of a store, if there is a normaliser
  bool garbage = false;      // no memory at all
  uint32_t row = 0;

  // A store from here that makes statistics and leaves main memory as it is.
  bool makes_statistics(const Config& config) const { return config.normalizations && accumulator && norm != 0; }

  static LocalAddress decode(uint32_t word, int row_bits) {
    constexpr uint32_t flags = kFlagAccumulator | kFlagAccumulate | kFlagReadFull;
    uint32_t pattern = flags | ((uint32_t{1} << (row_bits + 1)) - 1);
    LocalAddress a;
    a.accumulator = word & kFlagAccumulator;
    a.accumulate = word & kFlagAccumulate;
    a.read_full = word & kFlagReadFull;
    a.norm = static_cast<uint8_t>(word >> 26 & 7);
    a.garbage = (word & pattern) == pattern;
    // the garbage bit on its own makes a row that no memory has
    a.row = word & ((uint32_t{1} << (row_bits + 1)) - 1);
    return a;
  }
};

// A matrix in local memory as PRELOAD and COMPUTE name it; rows and cols are those after any transpose.
struct Operand {
  LocalAddress at;
  int rows = 0, cols = 0;

  static Operand decode(uint64_t value, int row_bits) {
    return {LocalAddress::decode(static_cast<uint32_t>(value), row_bits), static_cast<int>(bits(value, 63, 48)),
            static_cast<int>(bits(value, 47, 32))};
  }
};

// The register value that names `rows` x `cols` elements at a local address.
inline uint64_t encode_operand(uint32_t address, int rows, int cols) {
  return uint64_t{address} | static_cast<uint64_t>(cols & 0xffff) << 32 | static_cast<uint64_t>(rows & 0xffff) << 48;
}

}  // namespace baco
