#include "gemmini_bus.h"

#include <algorithm>

namespace baco {

namespace {
constexpr uint64_t kPortCycles = 3;  // buffers between the port and the cache, each way
constexpr size_t kPortQueue = 4, kDeliveryQueue = 4;
}  // namespace

GemminiBus::GemminiBus(const GemminiBusOptions& options)
    : options_(options), busy_(options.miss_registers - 2) {
  const uint64_t lines = uint64_t{options.l2_kib} * 1024 / options.line_bytes;
  sets_ = lines / options.l2_ways;
  lines_.resize(lines);
  set_free_.resize(sets_);
}

void GemminiBus::get(uint64_t address, unsigned bytes, unsigned source) {
  gets_.push_back({address, bytes, 0, source, false, true, true});
  ++statistics_.read_requests;
  statistics_.read_request_bytes += bytes;
}

void GemminiBus::put(uint64_t address, unsigned bytes, bool first, bool last, unsigned enabled_bytes) {
  puts_.push_back({address, bytes, enabled_bytes, 0, true, first, last});
  ++statistics_.write_beats;
  statistics_.write_beat_bytes += enabled_bytes;
}

// One beat a cycle; a burst of writes is not interrupted.
void GemminiBus::arbitrate() {
  if (line_.size() >= kPortQueue) return;
  bool put = !puts_.empty() && (prefer_put_ || gets_.empty());
  if (in_burst_) {
    if (puts_.empty()) return;
    put = true;
  }
  if (!put && gets_.empty()) return;
  std::deque<Request>& from = put ? puts_ : gets_;
  const Request request = from.front();
  from.pop_front();
  in_burst_ = put && !request.last;
  prefer_put_ = !put;
  line_.push_back({now_ + kPortCycles, request});
}

uint64_t GemminiBus::memory_transfer(uint64_t from) {
  const uint64_t length = options_.line_bytes / options_.memory_bytes_per_cycle;
  const uint64_t start = std::max(from, memory_free_);
  memory_free_ = start + length;
  statistics_.memory_busy_cycles += length;
  return start + length;
}

uint64_t GemminiBus::touch(uint64_t from, uint64_t address, bool write, bool whole) {
  const uint64_t tag = address / options_.line_bytes;
  Line* const set = &lines_[(tag % sets_) * options_.l2_ways];
  Line* victim = set;
  ++touches_;
  for (unsigned way = 0; way < options_.l2_ways; ++way) {
    Line& line = set[way];
    if (line.tag == tag) {
      ++statistics_.l2_hits;
      line.used = touches_;
      line.dirty |= write;
      return from;
    }
    if (line.used < victim->used) victim = &line;
  }
  ++statistics_.l2_misses;
  if (victim->dirty) {  // its data leave first
    ++statistics_.l2_writebacks;
    memory_transfer(from);
  }
  const uint64_t done = (whole ? from : memory_transfer(from)) + options_.miss_cycles;
  *victim = {tag, touches_, write};
  return done;
}

void GemminiBus::serve(const Request& request) {
  if (!request.first) return;  // the rest of a write's data follows its first beat
  const uint64_t set = request.address / options_.line_bytes % sets_;
  const uint64_t from = std::max(now_, set_free_[set]);
  const bool whole = request.write && request.enabled == options_.line_bytes;
  const uint64_t there = touch(from, request.address, request.write, whole);
  if (there > from) *std::min_element(busy_.begin(), busy_.end()) = there;
  set_free_[set] = there + options_.same_set_cycles;
  const unsigned beats = std::max(1u, request.bytes / options_.beat_bytes);
  answers_.push_back({there + options_.hit_cycles - 2 * kPortCycles, request.source, beats, request.write});
  std::push_heap(answers_.begin(), answers_.end(), [](const Answer& a, const Answer& b) { return a.ready > b.ready; });
  ++in_flight_;
}

uint64_t GemminiBus::host_access(uint64_t cycle, uint64_t address, bool write) {
  const uint64_t start = std::max(cycle, now_) + kPortCycles;
  const uint64_t there = touch(start, address, write, write);
  return write ? 0 : there - cycle + options_.hit_cycles - kPortCycles;
}

bool GemminiBus::beat(Beat& beat) const {
  if (deliveries_.empty() || deliveries_.front().write || deliveries_.front().cycle > now_) return false;
  beat = {deliveries_.front().source, deliveries_.front().last};
  return true;
}

void GemminiBus::take_beat() {
  ++statistics_.read_beats;
  in_flight_ -= deliveries_.front().last;
  deliveries_.pop_front();
}

void GemminiBus::tick() {
  ++now_;
  acknowledged_ = 0;
  while (!deliveries_.empty() && deliveries_.front().write && deliveries_.front().cycle <= now_) {
    ++acknowledged_;
    --in_flight_;
    deliveries_.pop_front();
  }
  if (current_left_ == 0 && !answers_.empty() && answers_.front().ready <= now_) {
    std::pop_heap(answers_.begin(), answers_.end(), [](const Answer& a, const Answer& b) { return a.ready > b.ready; });
    current_ = answers_.back();
    answers_.pop_back();
    current_left_ = current_.beats + (current_.write && current_.beats > 1 ? options_.burst_write_cycles : 0);
  }
  if (current_left_ > 0 && deliveries_.size() < kDeliveryQueue + kPortCycles) {
    --current_left_;
    if (!current_.write || current_left_ == 0)
      deliveries_.push_back({now_ + kPortCycles, current_.source, current_.write, current_left_ == 0});
  }
  if (!line_.empty() && line_.front().cycle <= now_) {
    // a miss needs a register; which it will be is known when it comes to its turn
    const bool free = *std::min_element(busy_.begin(), busy_.end()) <= now_;
    if (free || !line_.front().request.first) {
      const Request request = line_.front().request;
      line_.pop_front();
      serve(request);
    }
  }
  arbitrate();
}

}  // namespace baco
