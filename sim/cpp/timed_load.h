// Our load unit in time, as baco_load.v: commands become requests (baco_dma_read.v) and, beside that, rows of beats
// (baco_load_rows.v, baco_aligner.v) that pass the repetition of pixels and the scaling on their way to the local memories.
#pragma once
#include <array>
#include <cstdint>

#include "block_elements.h"
#include "config.h"
#include "timed_banks.h"
#include "timed_memory.h"
#include "timed_queue.h"
#include "timed_station.h"

namespace baco {

class TimedLoad {
 public:
  TimedLoad(const Config& config, TimedMemory& memory, TimedBanks& banks, TimedStation& station);

  bool ready() const { return reads_.room() && jobs_.room(); }
  void accept(const TimedCommand& command);
  void tick(uint64_t cycle);
  bool busy() const;
  bool took_beat() const { return took_beat_; }

 private:
  struct State {
    uint64_t stride = 0, block_stride = 0;
    uint32_t scale = 0x3f800000u;
    unsigned repeats = 0;
    bool shrink = false, packed = false;
    BlockElement block_element = BlockElement::kNone;
  };
  struct Read {  // spans of bytes to be requested
    uint64_t address = 0, stride = 0, bytes = 0, spans = 0;
  };
  struct Row {  // a local row on its way
    bool nothing = false, first = false, last = false, repeated = false, identity = false, wide = false;
    bool packed = false;  // elements of 4 bits in memory
    BlockElement block_element = BlockElement::kNone;
    bool powers = false;  // of blocks: no row is written
    bool accumulator = false, accumulate = false;
    unsigned repeats = 0, entry = 0;
    int64_t row = 0;
  };
  struct Job {  // a command's rows
    Row row;
    bool zero = false, replicate = false, merged = false;
    unsigned offset = 0, stride = 0, gap = 0, rows = 0, cols = 0;
    uint64_t block_stride = 0;
  };
  struct Walk : Job {  // where the walk over a command's rows stands
    bool valid = false, begun = false, replay = false, share = false;
    unsigned start = 0, left = 0, cols_left = 0, rows_left = 0;
    int64_t group = 0;
  };

  bool write(uint64_t cycle);
  bool scale(bool land_ready);
  bool repeat(bool copy_ready);
  void align(bool row_taken);
  void request();
  unsigned element_bytes(const Row& row) const { return row.wide ? 4 : static_cast<unsigned>(config_.element_bytes()); }
  // Of so many elements in memory.
  uint64_t row_bytes(unsigned cols, const Row& row) const;
  // The row that leaves the repetition of pixels in this cycle.
  const Row* copy() const;

  const Config config_;
  const unsigned dim_, beat_, chunk_;
  const int row_bits_;
  TimedMemory& memory_;
  TimedBanks& banks_;
  TimedStation& station_;
  std::array<State, 3> states_;

  TimedQueue<Read> reads_;
  TimedQueue<Job> jobs_;
  bool walks_ = false, spans_ = false;  // a job is walked, a span is requested
  Read walked_;
  uint64_t span_beat_ = 0, span_left_ = 0;
  unsigned in_flight_ = 0, beats_seen_ = 0;
  TimedQueue<unsigned> sizes_;  // beats of requests in flight

  Walk walk_;
  bool loaded_ = false, took_beat_ = false;
  bool row_valid_ = false;
  Row row_;

  bool held_ = false;  // of packed pixels
  Row window_;
  unsigned flush_ = 0;

  static constexpr unsigned kStages = 3, kRoom = kStages + 2;  // of the multiplier
  unsigned scaling_ = 0;
  const unsigned turns_;  // of a row at it
  unsigned turn_ = 0;
  std::array<bool, kStages> stage_valid_{};
  std::array<Row, kStages> stage_;
  TimedQueue<Row> scaled_{kRoom};

  bool write_valid_ = false;
  Row write_;
};

}  // namespace baco
