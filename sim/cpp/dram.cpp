#include "dram.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace baco {

namespace {

bool power_of_two(uint64_t value) { return value && !(value & (value - 1)); }

void require(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(what);
}

}  // namespace

Dram::Dram(Memory& memory, const DramOptions& options, unsigned beat_bytes)
    : memory_(memory), options_(options), beat_bytes_(beat_bytes), random_(options.stall_seed),
      channel_free_(options.channel ? options.channel : std::make_shared<double>(0)) {
  require(options.bytes_per_cycle > 0, "memory bandwidth must be positive");
  require(power_of_two(options.burst_bytes) && options.burst_bytes <= 4096,
          "memory bursts must be a power of two of at most 4096 bytes");
  require(options.stall_percent < 100, "memory must not stall for ever");
  require(options.read_depth && options.write_depth, "memory must accept at least one request");
  require(power_of_two(beat_bytes) && beat_bytes <= 64, "the memory port must be a power of two of at most 64 bytes");
  if (!options.l2_kib) return;
  require(power_of_two(options.l2_line_bytes) && options.l2_line_bytes >= 8, "cache lines must be a power of two");
  require(options.l2_ways && options.l2_bytes_per_cycle > 0, "the cache must have ways and a bandwidth");
  uint64_t lines = uint64_t{options.l2_kib} * 1024 / options.l2_line_bytes;
  sets_ = lines / options.l2_ways;
  require(sets_ && sets_ * options.l2_ways == lines, "cache capacity must be a multiple of ways times line size");
  lines_.resize(lines);
}

double Dram::channel(double from, uint64_t address, unsigned bytes, bool write) {
  const uint64_t burst = options_.burst_bytes;
  const uint64_t first = address & ~(burst - 1), last = (address + bytes + burst - 1) & ~(burst - 1);
  const double start = std::max(from, *channel_free_), length = static_cast<double>(last - first) / options_.bytes_per_cycle;
  *channel_free_ = start + length;
  busy_ += length;
  statistics_.channel_busy_cycles = static_cast<uint64_t>(std::llround(busy_));
  (write ? statistics_.dram_write_bytes : statistics_.dram_read_bytes) += last - first;
  return start;
}

double Dram::touch(double from, uint64_t address, bool write) {
  const uint64_t tag = address / options_.l2_line_bytes;
  Line* const set = &lines_[(tag % sets_) * options_.l2_ways];
  Line* victim = set;
  ++touches_;
  for (unsigned way = 0; way < options_.l2_ways; ++way) {
    Line& line = set[way];
    if (line.tag == tag) {
      ++statistics_.l2_hits;
      line.used = touches_;
      statistics_.l2_dirty_bytes += write && !line.dirty ? options_.l2_line_bytes : 0;
      line.dirty |= write;
      return std::max(from + static_cast<double>(options_.l2_latency), line.ready);
    }
    if (line.used < victim->used) victim = &line;
  }
  ++statistics_.l2_misses;
  const double start = channel(from + static_cast<double>(options_.l2_latency), tag * options_.l2_line_bytes,
                               options_.l2_line_bytes, false);
  if (victim->dirty) {  // written back behind the fill, which the requester waits for
    ++statistics_.l2_writebacks;
    statistics_.l2_dirty_bytes -= options_.l2_line_bytes;
    channel(start, victim->tag * options_.l2_line_bytes, options_.l2_line_bytes, true);
  }
  statistics_.l2_dirty_bytes += write ? options_.l2_line_bytes : 0;
  const double length = options_.l2_line_bytes / options_.bytes_per_cycle;
  *victim = {tag, touches_, start + static_cast<double>(options_.latency) + length, write};
  return victim->ready;
}

void Dram::read(uint64_t address, unsigned bytes) {
  static const uint8_t zeros[4096] = {};
  const bool outside = tolerant_ && !memory_.contains(address, bytes);
  const uint8_t* source = outside ? zeros : memory_.at(address, bytes, "an accelerator read");
  ++statistics_.read_requests;
  statistics_.read_request_bytes += bytes;
  const double now = static_cast<double>(now_);
  Read read;
  if (!spare_.empty()) {
    read.data = std::move(spare_.back());
    spare_.pop_back();
  }
  read.data.assign(source, source + bytes);
  read.at = read.data.data();
  read.beats = std::max(1u, bytes / beat_bytes_);
  read.accepted = now_;
  read.done = 0;
  if (sets_) {
    double ready = now;
    const uint64_t line = options_.l2_line_bytes, end = address + bytes;
    for (uint64_t at = address & ~(line - 1); at < end; at += line) ready = std::max(ready, touch(now, at, false));
    read.interval = beat_bytes_ / options_.l2_bytes_per_cycle;
    const double start = std::max(ready, port_free_);
    port_free_ = start + read.interval * read.beats;
    read.first = start;
  } else {
    read.interval = beat_bytes_ / options_.bytes_per_cycle;
    const uint64_t least = options_.least_bytes;
    const double start = channel(now, address & ~(least - 1), std::max(bytes, options_.least_bytes), false) +
                         static_cast<double>(options_.latency);
    // the first beat leaves when all of it has come over the channel, in the cycle its last byte arrives
    read.first = start + std::max(0.0, read.interval - 1);
  }
  read.next_ready = static_cast<uint64_t>(std::ceil(read.first - 1e-9));
  reads_.push_back(std::move(read));  // `at` stays valid: moving a vector keeps its buffer
}

// A step of a linear congruential generator (Knuth's MMIX constants); the high bits are the random ones.
void Dram::draw_stalls() {
  stalls_ = 0;
  for (unsigned what = 0; what < kStalls; ++what) {
    random_ = random_ * 6364136223846793005u + 1442695040888963407u;
    stalls_ |= static_cast<unsigned>((random_ >> 33) % 100 < options_.stall_percent) << what;
  }
}

void Dram::take_beat() {
  Read& read = reads_.front();
  beat_shown_ = false;
  if (++read.done == read.beats) {
    statistics_.read_latency_sum += now_ - read.accepted;
    spare_.push_back(std::move(read.data));
    reads_.pop_front();
    return;
  }
  read.at += beat_bytes_;
  read.next_ready = static_cast<uint64_t>(std::ceil(read.first + read.interval * read.done - 1e-9));
}

void Dram::write(uint64_t address, const uint8_t* data, uint64_t mask) {
  unsigned first = beat_bytes_, end = 0, enabled = 0;
  for (unsigned i = 0; i < beat_bytes_; ++i) {
    if (!(mask >> i & 1)) continue;
    first = std::min(first, i);
    end = i + 1;
    ++enabled;
  }
  ++statistics_.write_beats;
  statistics_.write_beat_bytes += enabled;
  double done = static_cast<double>(now_) + 1;
  if (enabled && !(tolerant_ && !memory_.contains(address + first, end - first))) {
    uint8_t* target = memory_.at(address + first, end - first, "an accelerator write");
    if (!data) {
      // what is there counts
    } else if (enabled == end - first)
      std::memcpy(target, data + first, enabled);
    else
      for (unsigned i = first; i < end; ++i)
        if (mask >> i & 1) target[i - first] = data[i];
    if (sets_) {
      const double from = static_cast<double>(now_);
      done = std::max(done, touch(from, address + first, true));
    } else {
      channel(static_cast<double>(now_), address + first, end - first, true);
      done = std::max(done, *channel_free_);
    }
  }
  last_ack_ = std::max(done, last_ack_);  // acknowledgements keep the order of the writes
  writes_.push_back(last_ack_);
}

bool Dram::take_ack() {
  if (writes_.empty() || writes_.front() > static_cast<double>(now_) + 1e-9 || stalled(kAcknowledgement)) return false;
  writes_.pop_front();
  return true;
}

}  // namespace baco
