// Marks: addresses of the program at which the simulation notes what has been counted so far, and copies of memory.
//
// For programs that are measured part by part: nothing is added to them, and no cycle of theirs changes.
#pragma once
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "memory.h"

namespace baco {

class Marks {
 public:
  struct Range {
    uint64_t address, bytes;
  };

  // Reads lines of three numbers: address of an instruction, then address and byte count of memory that is copied to
  // the file `copies` whenever that instruction is about to be executed (0 bytes: none). Throws std::runtime_error for
  // files that cannot be read or written, MemoryFault for a range outside memory.
  Marks(const std::string& list, const std::string& copies, Memory& memory);

  std::vector<uint64_t> addresses() const;
  // The instruction at `pc` is next: copies its ranges. False once there are too many marks to report.
  bool pass(uint64_t pc);
  // Throws std::runtime_error when the copies could not be written.
  void close();
  // Marks that were passed without being reported.
  uint64_t dropped() const { return dropped_; }

 private:
  static constexpr uint64_t kMost = 1 << 17;
  Memory& memory_;
  std::string path_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
  std::unordered_map<uint64_t, std::vector<Range>> ranges_;
  uint64_t passed_ = 0, dropped_ = 0;
};

}  // namespace baco
