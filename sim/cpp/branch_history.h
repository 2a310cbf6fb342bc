// Which way Rocket's front end expects a conditional branch to go (rocket-chip's BTB.scala, its default parameters): a table
// of 512 bits, each what a branch did the last time that its bit was asked for. The bit is chosen by the word in memory in
// which the branch ends, and by what the last eight branches did, hashed to three bits.
//
// Not modelled: branches that the front end has not fetched yet when it looks at the history, and where a branch leads,
// which is known as soon as it is fetched.
#pragma once
#include <bitset>
#include <cstdint>

namespace baco {

class BranchHistory {
 public:
  // Whether the branch at `pc`, of `length` bytes, was expected to do what it does.
  bool expected(uint64_t pc, unsigned length, bool taken) {
    const uint64_t word = (pc + length - 2) >> 2;
    const uint64_t hashed = kHash * history_ >> 5 & 7;
    const uint64_t entry = (word & (kEntries - 1)) ^ (word / kEntries & 3) ^ hashed << 6;
    const bool was = last_[entry];
    last_[entry] = taken;
    history_ = (taken ? 0x80u : 0u) | history_ >> 1;
    return was == taken;
  }

 private:
  static constexpr uint64_t kEntries = 512;
  static constexpr unsigned kHash = 221;  // the floor of half the root of three, times 2^8
  std::bitset<kEntries> last_;
  unsigned history_ = 0;  // the latest in bit 7
};

}  // namespace baco
