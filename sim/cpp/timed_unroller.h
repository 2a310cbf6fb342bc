// What both unrollers of loops are made of.
#pragma once
#include <algorithm>
#include <cstdint>

#include "command.h"

namespace baco {

inline Command make(uint8_t funct, uint64_t rs1, uint64_t rs2) {
  Command command;
  command.funct = funct;
  command.rs1 = rs1;
  command.rs2 = rs2;
  return command;
}

// Blocks of a side that a request brings, one at least.
inline uint32_t parts(int bytes, int of) { return static_cast<uint32_t>(std::max(1, bytes / of)); }

}  // namespace baco
