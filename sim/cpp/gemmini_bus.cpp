#include "gemmini_bus.h"

#include <algorithm>

namespace baco {

namespace {
constexpr uint64_t kPortCycles = 3;  // buffers between the port and the cache, each way
constexpr size_t kPortQueue = 4, kDeliveryQueue = 4;
}  // namespace

GemminiBus::GemminiBus(const GemminiBusOptions& options) : options_(options), l2_(options.l2) {}

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

uint64_t GemminiBus::host_access(uint64_t cycle, uint64_t address, bool write) {
  const uint64_t there = l2_.host_access(std::max(cycle, now_) + kPortCycles, address, write);
  return write ? 0 : there - cycle + options_.l2.hit_cycles + kPortCycles;
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
  l2_.tick();
  if (current_left_ == 0 && l2_.answer(current_)) {
    current_left_ = std::max(1u, current_.bytes / options_.beat_bytes);
    if (current_.write && current_left_ > 1) current_left_ += options_.burst_write_cycles;
  }
  if (current_left_ > 0 && deliveries_.size() < kDeliveryQueue + kPortCycles) {
    --current_left_;
    if (!current_.write || current_left_ == 0)
      deliveries_.push_back({now_ + kPortCycles, current_.source, current_.write, current_left_ == 0});
  }
  // of a write, the first beat is looked up; the rest of its data follows
  if (!line_.empty() && line_.front().cycle <= now_) {
    const Request& request = line_.front().request;
    if (!request.first || l2_.ready(request)) {
      if (request.first) {
        l2_.serve(request);
        ++in_flight_;
      }
      line_.pop_front();
    }
  }
  arbitrate();
}

}  // namespace baco
