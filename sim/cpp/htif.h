// The host-target interface by which bare-metal RISC-V programs talk to whoever runs them: two 64-bit words in
// memory, `tohost` and `fromhost`.
//
// A value stored in tohost is device << 56 | command << 48 | payload.
//   device 0, command 0, odd payload: exit with code payload >> 1. A negative code fills device and command with
//     ones, which is an exit as well.
//   device 0, command 0, even payload: system call; the payload is the address of eight 64-bit words {number,
//     arguments...}; word 0 receives the result, then fromhost becomes 1
//   device 1, command 1: write the payload's low byte to the console. Command 0, read a byte: never answered,
//     there is no input.
// System calls: exit 93, write 64 to file 1 or 2, read 63 (end of file), close 57; all others give -ENOSYS.
// tohost reads 0 again as soon as a request has been taken.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>

#include "memory.h"

namespace baco {

class Htif {
 public:
  using Console = std::function<void(const char* bytes, size_t count)>;

  // Addresses of the two words; `tohost` 0 if the program has none.
  Htif(Memory& memory, uint64_t tohost, uint64_t fromhost, Console console);

  // To be called after each store that may have changed tohost.
  bool watches(uint64_t address) const { return (address & ~uint64_t{7}) == tohost_; }
  // Serves what has been stored. Throws HostError for a device or command that does not exist.
  void serve();

  bool exited() const { return exited_; }
  int exit_code() const { return exit_code_; }
  void reset() { exited_ = false, exit_code_ = 0; }

 private:
  void exit(uint64_t code);
  void system_call(uint64_t address);
  uint64_t write(uint64_t file, uint64_t address, uint64_t count);

  Memory& memory_;
  uint64_t tohost_, fromhost_;
  Console console_;
  bool exited_ = false;
  int exit_code_ = 0;
};

}  // namespace baco
