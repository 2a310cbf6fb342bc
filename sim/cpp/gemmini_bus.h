// Timing of what lies between the original Gemmini's DMA and main memory in a Rocket system: one TileLink port of
// 16 bytes, and an inclusive second-level cache with main memory behind it (gemmini_l2.h). Bytes live in Memory; here
// are tags and cycles only.
//
// A request crosses the A channel, a beat a cycle (a read is one beat, a write as many as it has data). Hits and filled
// misses leave the cache through one pipeline of a beat a cycle, reads and writes alike, in the order in which they are
// ready, and answers come back over the D channel. Sources: rocket-chip (TLXbar, TLBuffer), the inclusive cache's
// SourceD.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>

#include "gemmini_l2.h"

namespace baco {

// The look-up of a page, of loads and stores alike.
inline constexpr uint64_t kTranslationCycles = 2;

struct GemminiBusOptions {
  unsigned beat_bytes = 16;
  unsigned burst_write_cycles = 0;  // of the pipeline, beside the data of a write of several beats; fitted as those of the cache
  GemminiL2Options l2;
};

struct GemminiBusStatistics {
  uint64_t read_requests = 0, read_request_bytes = 0, read_beats = 0, write_beats = 0, write_beat_bytes = 0;
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
  void skip(uint64_t cycles) {
    now_ += cycles;
    l2_.skip(cycles);
  }
  bool idle() const {
    return gets_.empty() && puts_.empty() && line_.empty() && l2_.idle() && in_flight_ == 0;
  }
  const GemminiBusStatistics& statistics() const { return statistics_; }
  const GemminiL2Statistics& l2() const { return l2_.statistics(); }

 private:
  static constexpr size_t kClientQueue = 2;
  using Request = GemminiL2::Request;
  struct Arrival {
    uint64_t cycle;
    Request request;
  };
  struct Delivery {  // on the way back
    uint64_t cycle;
    unsigned source;
    bool write, last;
  };
  void arbitrate();

  GemminiBusOptions options_;
  GemminiL2 l2_;
  uint64_t now_ = 0;
  std::deque<Request> gets_, puts_;
  bool prefer_put_ = false, in_burst_ = false;
  std::deque<Arrival> line_;        // between the port and the cache
  uint64_t in_flight_ = 0;
  std::deque<Delivery> deliveries_;
  unsigned acknowledged_ = 0;
  GemminiL2::Answer current_{};     // what the pipeline sends
  unsigned current_left_ = 0;
  GemminiBusStatistics statistics_;
};

}  // namespace baco
