// The tags of a set-associative cache with least-recently-used replacement: hits and misses without data.
#pragma once
#include <cstdint>
#include <vector>

namespace baco {

class CacheTags {
 public:
  // `sets` and `line_bytes` are powers of two.
  CacheTags(uint64_t sets, int ways, uint64_t line_bytes)
      : sets_(sets), ways_(ways), shift_(__builtin_ctzll(line_bytes)), tags_(sets * static_cast<uint64_t>(ways), kFree) {}

  // True if the line of `address` is present; it is afterwards.
  bool access(uint64_t address) {
    const uint64_t line = address >> shift_;
    uint64_t* set = &tags_[(line & (sets_ - 1)) * static_cast<uint64_t>(ways_)];
    if (set[0] == line) return true;
    int way = 1;
    while (way < ways_ && set[way] != line) ++way;
    const bool hit = way < ways_;
    for (int i = hit ? way : ways_ - 1; i > 0; --i) set[i] = set[i - 1];  // most recent first
    set[0] = line;
    return hit;
  }

  void clear() { tags_.assign(tags_.size(), kFree); }

 private:
  static constexpr uint64_t kFree = ~uint64_t{0};  // no line has this number: numbers are below 2^58
  uint64_t sets_;
  int ways_;
  int shift_;
  std::vector<uint64_t> tags_;
};

}  // namespace baco
