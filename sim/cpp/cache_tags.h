// The tags of a set-associative cache that writes lines back: hits, misses and victims without data. What is replaced is the
// least recently used line of a set, or one of any way, by a shift register of 16 bits that steps with each miss (Rocket's
// RandomReplacement and LFSR16).
#pragma once
#include <cstdint>
#include <vector>

namespace baco {

class CacheTags {
 public:
  static constexpr uint64_t kNone = ~uint64_t{0};

  // `sets`, `line_bytes` and, where `random`, `ways` are powers of two.
  CacheTags(uint64_t sets, int ways, uint64_t line_bytes, bool random = false)
      : sets_(sets),
        ways_(ways),
        shift_(__builtin_ctzll(line_bytes)),
        random_(random),
        lines_(sets * static_cast<uint64_t>(ways)) {}

  // True if the line of `address` is present; it is afterwards. Where it was not, `victim()` says what went for it.
  bool access(uint64_t address, bool write = false) {
    const uint64_t tag = address >> shift_;
    Line* const set = &lines_[(tag & (sets_ - 1)) * static_cast<uint64_t>(ways_)];
    int way = 0;
    while (way < ways_ && set[way].tag != tag) ++way;
    const bool hit = way < ways_;
    if (!hit) {
      way = random_ ? bits_ & (ways_ - 1) : ways_ - 1;
      bits_ = static_cast<uint16_t>(bits_ >> 1 | ((bits_ ^ bits_ >> 2 ^ bits_ >> 3 ^ bits_ >> 5) & 1) << 15);
      victim_ = set[way].dirty ? set[way].tag << shift_ : kNone;
      set[way] = {tag, false};
    }
    set[way].dirty |= write;
    if (random_) return hit;
    const Line line = set[way];
    for (; way > 0; --way) set[way] = set[way - 1];  // most recent first
    set[0] = line;
    return hit;
  }

  // The address of the line that the last miss replaced and that was written to; kNone without.
  uint64_t victim() const { return victim_; }

  // The line of `address` is not there any more.
  void drop(uint64_t address) {
    const uint64_t tag = address >> shift_;
    Line* const set = &lines_[(tag & (sets_ - 1)) * static_cast<uint64_t>(ways_)];
    for (int way = 0; way < ways_; ++way)
      if (set[way].tag == tag) set[way] = Line{};
  }

  void clear() { lines_.assign(lines_.size(), Line{}); }

 private:
  struct Line {
    uint64_t tag = kNone;  // no line has this number: numbers are below 2^58
    bool dirty = false;
  };
  uint64_t sets_;
  int ways_;
  int shift_;
  bool random_;
  uint16_t bits_ = 1;
  uint64_t victim_ = kNone;
  std::vector<Line> lines_;
};

}  // namespace baco
