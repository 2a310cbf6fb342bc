// An accelerator behind its RoCC port: the Verilated RTL or the functional model.
#pragma once
#include <cstdint>
#include <string>

#include "command.h"

namespace baco {

class Device {
 public:
  virtual ~Device() = default;
  // Present a command during this cycle; true when it is accepted (at most one a cycle).
  virtual bool offer(const Command& command) = 0;
  // Take the response to a command with xd, if there is one in this cycle.
  virtual bool response(uint64_t& data) = 0;
  // What a RISC-V fence waits for: anything queued, in flight or not yet acknowledged by memory.
  virtual bool busy() const = 0;
  // Advance one clock cycle (a no-op for the functional model).
  virtual void tick() = 0;
  // Why the device has rejected a command, naming it; empty while all is well. Sticky.
  virtual std::string error() const = 0;
};

}  // namespace baco
