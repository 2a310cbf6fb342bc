#include "marks.h"

#include <fstream>
#include <stdexcept>

namespace baco {

Marks::Marks(const std::string& list, const std::string& copies, Memory& memory)
    : memory_(memory), path_(copies), file_(nullptr, std::fclose) {
  if (list.empty()) return;
  std::ifstream text(list);
  if (!text) throw std::runtime_error("cannot read the marks " + list);
  uint64_t pc;
  Range range;
  while (text >> pc >> range.address >> range.bytes) {
    std::vector<Range>& ranges = ranges_[pc];
    if (!range.bytes) continue;
    memory_.at(range.address, range.bytes, "a mark");
    ranges.push_back(range);
  }
  file_.reset(std::fopen(copies.c_str(), "wb"));
  if (!file_) throw std::runtime_error("cannot write " + copies);
}

std::vector<uint64_t> Marks::addresses() const {
  std::vector<uint64_t> found;
  for (const auto& [pc, ranges] : ranges_) found.push_back(pc);
  return found;
}

bool Marks::pass(uint64_t pc) {
  if (passed_ == kMost) {
    ++dropped_;
    return false;
  }
  ++passed_;
  for (const Range& range : ranges_.at(pc))
    if (std::fwrite(memory_.at(range.address, range.bytes, "a mark"), 1, range.bytes, file_.get()) != range.bytes)
      throw std::runtime_error("cannot write " + path_ + " (is the disk full?)");
  return true;
}

void Marks::close() {
  if (!file_) return;
  const bool failed = std::ferror(file_.get());
  if (std::fclose(file_.release()) || failed) throw std::runtime_error("cannot write " + path_ + " (is the disk full?)");
}

}  // namespace baco
