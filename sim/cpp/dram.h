// Timing of main memory as the accelerator's port sees it: requests in order, latency, bandwidth, bursts, and an
// optional second-level cache (tags only: the bytes themselves always live in Memory).
//
// Why so simple: no source fixes a DRAM latency for the reference system, so latency and bandwidth are parameters
// (timing page, section 10). One channel serves reads and writes in the order in which they reach it. A read is
// answered `latency` cycles after its transfer starts, beats following at the channel's rate; answers stay in
// request order, as the port demands. Writes are posted: they take effect at once, occupy the channel, and are
// acknowledged when the channel has taken them. Nothing orders a read behind a write but the order of acceptance,
// which is stronger than what the instruction set promises (ISA specification, section 9).
#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "memory.h"

namespace baco {

struct DramOptions {
  double bytes_per_cycle = 8;     // channel bandwidth: 64-bit memory bus, timing page section 10
  uint64_t latency = 60;          // cycles from the start of a transfer to its first bytes
  unsigned burst_bytes = 8;       // the channel moves whole aligned bursts of this size (power of two)
  unsigned l2_kib = 0;            // capacity of the second-level cache; 0 = none
  unsigned l2_ways = 8;
  unsigned l2_line_bytes = 64;    // power of two
  uint64_t l2_latency = 20;       // cycles for a hit; a miss adds it to the channel's time
  double l2_bytes_per_cycle = 16; // rate at which the cache serves its port
  unsigned read_depth = 256;      // read requests accepted and not yet answered
  unsigned write_depth = 32;      // write beats accepted and not yet acknowledged
  // In so many cycles of 100 each of request, beat and acknowledgement waits, drawn anew every cycle from the seed:
  // for tests, which want every order in which things can happen.
  unsigned stall_percent = 0;
  uint64_t stall_seed = 0;
  // What a read takes of the channel at least, aligned: a beat of a port that is wider than the accelerator's.
  unsigned least_bytes = 1;
  // When the channel is free, where several ports share it (in the same cycles); its own without.
  std::shared_ptr<double> channel = nullptr;
};

struct DramStatistics {
  uint64_t read_requests = 0, read_request_bytes = 0;   // at the accelerator's port
  uint64_t write_beats = 0, write_beat_bytes = 0;       // bytes enabled
  uint64_t dram_read_bytes = 0, dram_write_bytes = 0;   // moved by the channel, whole bursts
  uint64_t channel_busy_cycles = 0;
  uint64_t read_latency_sum = 0;                        // acceptance to last beat, cycles, over all requests
  uint64_t l2_hits = 0, l2_misses = 0, l2_writebacks = 0;
  uint64_t l2_dirty_bytes = 0;                          // still in the cache
};

class Dram {
 public:
  // `beat_bytes`: width of the port (4..64). Throws std::invalid_argument for options that make no sense.
  Dram(Memory& memory, const DramOptions& options, unsigned beat_bytes);

  bool read_ready() const { return reads_.size() < options_.read_depth && !stalled(kReadRequest); }
  // From now on what lies outside memory reads as zeros and is not written: the program is about to be stopped.
  void tolerate() { tolerant_ = true; }
  // Accept a read of `bytes` (a power of two, at least a beat) naturally aligned at `address`.
  // Throws MemoryFault when it lies outside memory.
  void read(uint64_t address, unsigned bytes);

  bool write_ready() const { return writes_.size() < options_.write_depth && !stalled(kWriteRequest); }
  // Accept one beat; bit i of `mask` enables byte i. Without `data` only time passes. Throws MemoryFault for enabled bytes outside memory.
  void write(uint64_t address, const uint8_t* data, uint64_t mask);

  // The beat that can be taken in this cycle, or nullptr. Once there it stays until it is taken.
  const uint8_t* beat() {
    if (reads_.empty() || reads_.front().next_ready > now_ || (!beat_shown_ && stalled(kBeat))) return nullptr;
    beat_shown_ = true;
    return reads_.front().at;
  }
  void take_beat();

  // True when the oldest write is acknowledged in this cycle (call once a cycle: it is then forgotten).
  bool take_ack();

  void tick() {
    ++now_;
    if (options_.stall_percent) draw_stalls();
  }
  // Let `cycles` pass at once; only when idle().
  void skip(uint64_t cycles) { now_ += cycles; }
  bool idle() const { return reads_.empty() && writes_.empty(); }
  size_t reads_in_flight() const { return reads_.size(); }
  size_t writes_in_flight() const { return writes_.size(); }
  const DramStatistics& statistics() const { return statistics_; }

 private:
  struct Read {
    std::vector<uint8_t> data;  // as it was at acceptance
    const uint8_t* at;          // next beat in `data`
    unsigned beats;             // left
    uint64_t accepted, next_ready;
    double first, interval;     // when the first beat is there; cycles between beats
    unsigned done;
  };
  struct Line {
    uint64_t tag = ~uint64_t{0};
    uint64_t used = 0;
    double ready = 0;  // when a fill in progress has arrived
    bool dirty = false;
  };
  enum Stall : unsigned { kReadRequest, kWriteRequest, kBeat, kAcknowledgement, kStalls };
  bool stalled(Stall what) const { return stalls_ >> what & 1; }
  void draw_stalls();
  // Channel time for [address, address + bytes) rounded out to bursts; returns when the transfer starts.
  double channel(double from, uint64_t address, unsigned bytes, bool write);
  // When a line is (or comes to be) in the cache.
  double touch(double from, uint64_t address, bool write);

  Memory& memory_;
  DramOptions options_;
  unsigned beat_bytes_;
  uint64_t now_ = 0, touches_ = 0, random_;
  unsigned stalls_ = 0;  // one bit each
  bool beat_shown_ = false, tolerant_ = false;
  std::shared_ptr<double> channel_free_;
  double port_free_ = 0, busy_ = 0, last_ack_ = 0;
  std::deque<Read> reads_;
  std::deque<double> writes_;  // when each is acknowledged
  std::vector<Line> lines_;    // sets * ways
  uint64_t sets_ = 0;
  std::vector<std::vector<uint8_t>> spare_;  // buffers for reuse
  DramStatistics statistics_;
};

}  // namespace baco
