#include "gemmini_l2.h"

#include <algorithm>

namespace baco {

namespace {
constexpr uint64_t kLookUpCycles = 2;   // from a request's arrival to its register's first message
constexpr uint64_t kQueueCycles = 1;
constexpr uint64_t kReturnCycles = 2;   // from the adapter's channel to the register
constexpr size_t kAcquireQueue = 2, kAdapterQueue = 2;
constexpr size_t kReleasesForRoom = 1;  // a release is sent while no more of them wait
constexpr size_t kWaiting = 28;         // requests that wait for registers which serve their set
constexpr unsigned kGivesWay = 8;       // cycles that an acknowledged write gives way to refills

bool later(const GemminiL2::Answer& a, const GemminiL2::Answer& b) { return a.ready > b.ready; }
}  // namespace

GemminiL2::GemminiL2(const GemminiL2Options& options) : options_(options), misses_(options.miss_registers) {
  const uint64_t lines = uint64_t{options.kib} * 1024 / options.line_bytes;
  sets_ = lines / options.ways;
  lines_.resize(lines);
  serving_.assign(sets_, kNone);
  set_free_.resize(sets_);
}

GemminiL2::Looked GemminiL2::look_up(const Request& request) {
  const uint64_t tag = request.address / options_.line_bytes;
  Line* const set = &lines_[(tag % sets_) * options_.ways];
  // a shift register of 16 bits steps with each look-up; three of its bits choose among eight ways
  const unsigned way = (random_ >> 7 & 7) % options_.ways;
  random_ = static_cast<uint16_t>(random_ << 1 | ((random_ >> 15 ^ random_ >> 13 ^ random_ >> 12 ^ random_ >> 10) & 1));
  looked_up_ = now_;
  Looked looked{request};
  Line* line = std::find_if(set, set + options_.ways, [&](const Line& one) { return one.tag == tag; });
  looked.hit = line != set + options_.ways;
  if (looked.hit) {
    ++statistics_.hits;
    line->dirty |= request.write;
    return looked;
  }
  ++statistics_.misses;
  line = set + way;
  looked.victim = line->tag != ~uint64_t{0};
  looked.dirty = line->dirty;
  statistics_.writebacks += looked.dirty;
  *line = {tag, request.write};
  return looked;
}

bool GemminiL2::ready(const Request& request) const {
  const unsigned serving = serving_[request.address / options_.line_bytes % sets_];
  return serving == kNone ? active_ < misses_.size() : misses_[serving].waiting.size() < kWaiting;
}

void GemminiL2::answer_at(uint64_t cycle, const Request& request) {
  answers_.push_back({cycle, request.source, request.bytes, request.write});
  std::push_heap(answers_.begin(), answers_.end(), later);
}

bool GemminiL2::answer(Answer& answer) {
  if (answers_.empty() || answers_.front().ready > now_) return false;
  std::pop_heap(answers_.begin(), answers_.end(), later);
  answer = answers_.back();
  answers_.pop_back();
  return true;
}

void GemminiL2::begin(Miss& miss, const Looked& looked) {
  miss.looked = looked;
  miss.release = looked.victim;
  miss.released = !looked.victim;
  miss.acquire = true;
  miss.filled = false;
  miss.next = now_ + kLookUpCycles;
}

void GemminiL2::serve(const Request& request) {
  const Looked looked = look_up(request);
  const uint64_t set = request.address / options_.line_bytes % sets_;
  if (serving_[set] != kNone) {
    misses_[serving_[set]].waiting.push_back(looked);
    return;
  }
  if (looked.hit) {
    const uint64_t from = std::max(now_, set_free_[set]);
    set_free_[set] = from + options_.same_set_cycles;
    answer_at(from + options_.hit_cycles, request);
    return;
  }
  const auto free = std::find_if(misses_.begin(), misses_.end(), [](const Miss& one) { return !one.valid; });
  free->valid = true;
  ++active_;
  serving_[set] = static_cast<unsigned>(free - misses_.begin());
  begin(*free, looked);
}

// The beats of a refill, behind those of earlier ones.
uint64_t GemminiL2::reserve(uint64_t from) {
  const uint64_t start = std::max(from, memory_free_), length = options_.line_bytes / options_.memory_bytes_per_cycle;
  memory_free_ = start + length;
  statistics_.memory_busy_cycles += length;
  bursts_.push_back({start, memory_free_});
  return memory_free_;
}

// The adapter's channel to the cache: refills, then answers to releases, then permissions to write whole lines.
void GemminiL2::acknowledge() {
  while (!bursts_.empty() && bursts_.front().end <= now_) bursts_.pop_front();
  const bool refills = !bursts_.empty() && bursts_.front().start <= now_;
  const auto take = [&](std::deque<Message>& from) {
    Miss& miss = misses_[from.front().miss];
    miss.answered = std::max(miss.answered, now_ + kReturnCycles);
    from.pop_front();
    return &miss;
  };
  // a write that is acknowledged shares the refills' channel one step before; it gives way for so many cycles only
  if (!write_acks_.empty() && write_acks_.front().ready <= now_ &&
      (!refills || write_acks_.front().ready + kGivesWay <= now_)) {
    take(write_acks_)->released = true;
    if (!refills) return;
    for (Burst& burst : bursts_) ++burst.end;
    ++memory_free_;
  }
  if (refills) return;
  if (!release_acks_.empty() && release_acks_.front().ready <= now_) {
    take(release_acks_)->released = true;
  } else if (!grants_.empty() && grants_.front().ready <= now_) {
    Miss* const miss = take(grants_);
    miss->filled = true;
    answer_at(now_ + kReturnCycles + options_.hit_cycles - kLookUpCycles, miss->looked.request);
  }
}

// The head of the releases: into the adapter, or with its data over the channel of requests.
void GemminiL2::send_release() {
  if (releases_.empty() || releases_.front().ready > now_) return;
  const Message& message = releases_.front();
  if (message.dirty) {
    if (request_free_ > now_) return;
    const uint64_t length = options_.line_bytes / options_.memory_bytes_per_cycle;
    request_free_ = now_ + length;
    write_acks_.push_back({request_free_ + options_.memory_cycles, message.miss, true});
  } else {
    if (release_acks_.size() >= kAdapterQueue) return;
    release_acks_.push_back({now_ + kQueueCycles, message.miss, false});
  }
  releases_.pop_front();
}

void GemminiL2::send_acquire() {
  if (acquires_.empty() || acquires_.front().ready > now_ || request_free_ > now_) return;
  const unsigned index = acquires_.front().miss;
  Miss& miss = misses_[index];
  if (whole(miss.looked.request)) {
    if (grants_.size() >= kAdapterQueue) return;
    grants_.push_back({now_ + kQueueCycles, index, false});
  } else {
    const uint64_t end = reserve(now_ + options_.memory_cycles);
    miss.filled = true;
    miss.answered = std::max(miss.answered, end + kReturnCycles);
    answer_at(end + options_.fill_cycles, miss.looked.request);
  }
  acquires_.pop_front();
}

bool GemminiL2::release_room() const {
  const auto waits = [&](const Message& message) { return message.ready <= now_; };
  return release_free_ <= now_ &&
         static_cast<size_t>(std::count_if(releases_.begin(), releases_.end(), waits)) <= kReleasesForRoom;
}

// The next message of a register, or its end. False where it has none now.
bool GemminiL2::send(unsigned index) {
  Miss& miss = misses_[index];
  if (!miss.valid || miss.next > now_) return false;
  const bool writes = miss.release || !miss.acquire;  // the directory
  if (writes && directory_full_) return false;
  if (miss.release) {
    if (!release_room()) return false;
    releases_.push_back({now_ + options_.release_cycles, index, miss.looked.dirty});
    if (miss.looked.dirty) release_free_ = now_ + options_.line_bytes / options_.memory_bytes_per_cycle;
    miss.release = false;
  } else if (miss.acquire) {
    if (acquires_.size() >= kAcquireQueue) return false;
    acquires_.push_back({now_ + kQueueCycles, index, false});
    miss.acquire = false;
  } else {
    if (!miss.released || !miss.filled || miss.answered > now_) return false;
    finish(miss);
  }
  if (writes) {
    directory_full_ = true;
    directory_written_ = now_;
  }
  miss.next = std::max(miss.next, now_ + 1);
  return true;
}

// Requests that have waited follow: those that hit are served, one that misses takes the register over.
void GemminiL2::finish(Miss& miss) {
  const uint64_t set = miss.looked.request.address / options_.line_bytes % sets_;
  miss.answered = 0;
  uint64_t from = now_;
  while (!miss.waiting.empty()) {
    const Looked looked = miss.waiting.front();
    miss.waiting.pop_front();
    from += options_.same_set_cycles;
    if (looked.hit) {
      answer_at(from + options_.hit_cycles, looked.request);
    } else {
      begin(miss, looked);
      return;
    }
  }
  miss.valid = false;
  --active_;
  serving_[set] = kNone;
  set_free_[set] = from + options_.same_set_cycles;
}

void GemminiL2::schedule() {
  const unsigned count = static_cast<unsigned>(misses_.size());
  for (unsigned i = 0; i < count; ++i) {
    const unsigned index = (turn_ + i) % count;
    if (!send(index)) continue;
    turn_ = index + 1;
    return;
  }
}

uint64_t GemminiL2::host_access(uint64_t cycle, uint64_t address, bool write) {
  const Looked looked = look_up({address, options_.line_bytes, write ? options_.line_bytes : 0, 0, write, true, true});
  if (looked.hit || write) return cycle;
  return reserve(cycle + kLookUpCycles + looked.victim + kQueueCycles + options_.memory_cycles) + options_.fill_cycles -
         options_.hit_cycles;
}

void GemminiL2::tick() {
  ++now_;
  // its memory has one port, and look-ups go first
  if (directory_written_ + 1 < now_ && looked_up_ + 1 != now_) directory_full_ = false;
  if (active_ == 0) return;
  acknowledge();
  send_release();
  send_acquire();
  schedule();
}

}  // namespace baco
