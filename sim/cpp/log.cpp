#include "log.h"

#include <algorithm>
#include <cinttypes>
#include <stdexcept>

namespace baco {

namespace {

constexpr const char* kUnitNames[] = {"load", "execute", "store", "front"};

}  // namespace

CommandLog::~CommandLog() {
  if (file_) std::fclose(file_);
}

void CommandLog::open(const std::string& path) {
  file_ = std::fopen(path.c_str(), "w");
  if (!file_) throw std::runtime_error("cannot write the log " + path);
  path_ = path;
  std::fprintf(file_, "# baco command log 1, dim %d\nunit,id,funct,rs1,rs2,allocated,issued,done\n", dim_);
}

void CommandLog::close() {
  if (!file_) return;
  for (const InFlight& entry : in_flight()) {
    const std::string issued = entry.has_issued ? std::to_string(entry.issued) : "";
    line(kUnitNames[static_cast<int>(entry.unit)], entry.id, entry.command, entry.allocated, issued.c_str(), "");
  }
  const bool failed = std::ferror(file_);
  const bool closed = std::fclose(file_) == 0;
  file_ = nullptr;
  if (failed || !closed) throw std::runtime_error("cannot write the log " + path_ + " (is the disk full?)");
}

void CommandLog::line(const char* unit, unsigned id, const Command& command, uint64_t allocated, const char* issued,
                      const char* done) {
  std::fprintf(file_, "%s,%u,%u,0x%" PRIx64 ",0x%" PRIx64 ",%" PRIu64 ",%s,%s\n", unit, id, command.funct, command.rs1,
               command.rs2, allocated, issued, done);
}

void CommandLog::accept(uint64_t cycle, const Command& command) {
  ++progress_;
  recent_[accepted_++ % kRecent] = {cycle, command};
  statistics_.accept(command);
  if (file_) line(kUnitNames[3], 0, command, cycle, "", "");
}

void CommandLog::allocate(uint64_t cycle, Unit unit, unsigned id, const Command& command) {
  ++progress_;
  statistics_.allocate(command);
  if (unit == Unit::front) return;
  const int u = static_cast<int>(unit);
  entries_[u][id & 63] = {unit, id, command, cycle, 0, false, sequence_++};
  used_[u][id & 63] = true;
}

void CommandLog::issue(uint64_t cycle, Unit unit, unsigned id) {
  ++progress_;
  InFlight& entry = entries_[static_cast<int>(unit)][id & 63];
  entry.issued = cycle;
  entry.has_issued = true;
}

void CommandLog::done(uint64_t cycle, Unit unit, unsigned id) {
  ++progress_;
  const int u = static_cast<int>(unit);
  const InFlight& entry = entries_[u][id & 63];
  if (!used_[u][id & 63]) return;
  used_[u][id & 63] = false;
  if (!file_) return;
  char issued[24], finished[24];
  std::snprintf(issued, sizeof issued, "%" PRIu64, entry.has_issued ? entry.issued : cycle);
  std::snprintf(finished, sizeof finished, "%" PRIu64, cycle);
  line(kUnitNames[u], id, entry.command, entry.allocated, issued, finished);
}

std::vector<Accepted> CommandLog::recent() const {
  std::vector<Accepted> found;
  for (uint64_t i = accepted_ - std::min<uint64_t>(accepted_, kRecent); i < accepted_; ++i)
    found.push_back(recent_[i % kRecent]);
  return found;
}

std::vector<InFlight> CommandLog::in_flight() const {
  std::vector<InFlight> found;
  for (int u = 0; u < 3; ++u)
    for (int id = 0; id < 64; ++id)
      if (used_[u][id]) found.push_back(entries_[u][id]);
  std::sort(found.begin(), found.end(), [](const InFlight& a, const InFlight& b) { return a.sequence < b.sequence; });
  return found;
}

}  // namespace baco
