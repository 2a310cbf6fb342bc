// Timing of what lies between the original Gemmini's DMA and main memory in a Rocket system: one TileLink port of
// 16 bytes, an inclusive second-level cache, and a narrower bus to main memory behind it. Bytes live in Memory; here
// are tags and cycles only.
//
// A request crosses the A channel, a beat a cycle (a read is one beat, a write as many as it has data). The cache
// serves a line by one miss-status register at a time: requests to a line, or to another of the same set, follow each
// other. Hits and filled misses leave through one pipeline of a beat a cycle, reads and writes alike, in the order in
// which they are ready, and answers come back over the D channel. A miss takes a line over the memory bus, and
// another when it evicts a written line. Sources: rocket-chip (TLXbar, TLBuffer), the inclusive cache's Scheduler,
// MSHR and SourceD.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace baco {

struct GemminiBusOptions {
  unsigned beat_bytes = 16;
  unsigned l2_kib = 512, l2_ways = 8, line_bytes = 64;
  unsigned miss_registers = 12;       // of which two serve probes and releases only
  // The following three were fitted to cycles measured on the original's RTL (docs/simulating.md).
  unsigned hit_cycles = 14;           // from the request's beat at the port to the first beat of its answer
  unsigned miss_cycles = 15;          // more than a hit, beside the transfer
  unsigned burst_write_cycles = 1;    // of the pipeline, beside the data of a write of several beats
  unsigned same_set_cycles = 1;       // between two requests that one miss-status register serves
  unsigned memory_bytes_per_cycle = 8;
};

struct GemminiBusStatistics {
  uint64_t read_requests = 0, read_request_bytes = 0, read_beats = 0, write_beats = 0, write_beat_bytes = 0;
  uint64_t l2_hits = 0, l2_misses = 0, l2_writebacks = 0;
  uint64_t memory_busy_cycles = 0;
};

class GemminiBus {
 public:
  explicit GemminiBus(const GemminiBusOptions& options);

  // The read client: naturally aligned requests of a power of two of bytes, at most a line.
  bool get_ready() const { return gets_.size() < kClientQueue; }
  void get(uint64_t address, unsigned bytes, unsigned source);
  // The write client, beat by beat.
  bool put_ready() const { return puts_.size() < kClientQueue; }
  void put(uint64_t address, unsigned bytes, bool first, bool last, unsigned enabled_bytes);

  // The beat of a read that is there in this cycle, if any; it stays until it is taken.
  struct Beat {
    unsigned source;
    bool last;
  };
  bool beat(Beat& beat) const;
  void take_beat();
  // Writes acknowledged in this cycle.
  unsigned acknowledged() const { return acknowledged_; }

  // The host core's caches fill a line, or write one back, in a cycle that may lie ahead of this clock: returns the
  // cycles that takes, nothing for a write.
  uint64_t host_access(uint64_t cycle, uint64_t address, bool write);

  void tick();
  void skip(uint64_t cycles) { now_ += cycles; }
  bool idle() const { return gets_.empty() && puts_.empty() && line_.empty() && answers_.empty() && in_flight_ == 0; }
  const GemminiBusStatistics& statistics() const { return statistics_; }

 private:
  static constexpr size_t kClientQueue = 2;
  struct Request {
    uint64_t address;
    unsigned bytes, enabled, source;
    bool write, first, last;
  };
  struct Arrival {
    uint64_t cycle;
    Request request;
  };
  struct Answer {  // in the cache's pipeline
    uint64_t ready;
    unsigned source, beats;
    bool write;
  };
  struct Delivery {  // on the way back
    uint64_t cycle;
    unsigned source;
    bool write, last;
  };
  struct Line {
    uint64_t tag = ~uint64_t{0}, used = 0;
    bool dirty = false;
  };
  void arbitrate();
  void serve(const Request& request);
  // When the line of `address` is there; makes it so. A write of a `whole` line needs leave, but not what was there.
  uint64_t touch(uint64_t from, uint64_t address, bool write, bool whole);
  uint64_t memory_transfer(uint64_t from);

  GemminiBusOptions options_;
  uint64_t now_ = 0, touches_ = 0, memory_free_ = 0;
  std::deque<Request> gets_, puts_;
  bool prefer_put_ = false, in_burst_ = false;
  std::deque<Arrival> line_;        // between the port and the cache
  std::vector<uint64_t> busy_;      // until when each miss-status register is
  std::vector<uint64_t> set_free_;  // when the register that serves a set takes its next request
  std::vector<Line> lines_;
  uint64_t sets_;
  std::vector<Answer> answers_;     // a heap by `ready`
  uint64_t in_flight_ = 0;
  std::deque<Delivery> deliveries_;
  unsigned acknowledged_ = 0;
  Answer current_{};                // what the pipeline sends
  unsigned current_left_ = 0;
  GemminiBusStatistics statistics_;
};

}  // namespace baco
