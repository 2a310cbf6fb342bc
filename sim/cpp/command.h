// One accelerator command as it arrives at the RoCC port: the function code and two register values.
#pragma once
#include <cstdint>

namespace baco {

struct Command {
  uint8_t funct = 0;
  uint8_t rd = 0;    // destination register, meaningful when xd
  bool xd = false;   // the instruction asks for a response (only the counter operation does)
  uint64_t rs1 = 0;  // register values, not register numbers
  uint64_t rs2 = 0;
};

// Of addresses that commands make: the memory port's width.
inline constexpr uint64_t kAddressMask = (uint64_t{1} << 40) - 1;

}  // namespace baco
