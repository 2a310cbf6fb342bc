// Our store unit in time, as baco_store.v: the walk over local rows (baco_store_walk.v), their conversion to slices of bytes
// (baco_store_convert.v), and the packing of these into beats (baco_store_packer.v). Without functions of rows and without the
// normaliser.
#pragma once
#include <cstdint>
#include <deque>

#include "config.h"
#include "timed_banks.h"
#include "timed_memory.h"
#include "timed_queue.h"
#include "timed_station.h"

namespace baco {

class TimedStore {
 public:
  TimedStore(const Config& config, TimedMemory& memory, TimedBanks& banks, TimedStation& station);

  bool ready() const { return commands_.room(); }
  void accept(const TimedCommand& command) {
    arrives_ = true;
    arriving_ = command;
  }
  void tick(uint64_t cycle);
  bool busy() const;
  bool active() const { return active_; }
  bool sent_beat() const { return sent_beat_; }

 private:
  struct Slice {
    uint64_t address = 0;
    unsigned bytes = 0;
    bool to_scratchpad = false;
  };
  struct Item {  // the part of a memory row that a local row holds
    uint32_t row = 0;
    uint64_t address = 0;
    unsigned bytes = 0;
    bool accumulator = false, full = false, to_scratchpad = false, zero = false, emit = true, last = false;
  };
  struct Walk {
    bool windowed = false, accumulator = false, full = false, to_scratchpad = false;
    uint32_t row = 0;
    uint64_t address = 0, stride = 0;
    unsigned rows = 1, blocks = 1, cols = 0;
    // where it stands: line and block; windowed: line, pixel, and place in the window
    unsigned line = 0, block = 0, pixel = 0, window_row = 0, window_col = 0;
  };
  struct Piped {
    uint64_t due;
    Slice slice;
  };

  void pack(bool more);
  bool write_scratchpad();
  // Whether the row being cut makes room.
  bool cut(uint64_t cycle);
  // `empty`: no row and no slice is being converted.
  void walk(bool room, bool drained, bool empty);
  Item item() const;
  void advance();
  void start(const Command& command);
  void configure(const Command& command);
  bool convert_busy(uint64_t cycle) const;
  bool scaling(uint64_t cycle) const { return scaled_ && cycle > last_scaled_ && cycle <= last_scaled_ + 3 + limiting_; }

  const Config config_;
  const unsigned dim_, element_bytes_, bus_;
  const unsigned lane_bytes_, slice_bytes_;  // of a slice of elements, of sums
  const int row_bits_;
  const unsigned most_beats_;
  TimedMemory& memory_;
  TimedBanks& banks_;
  TimedStation& station_;
  const unsigned limiting_;  // cycles that limits take after scaling

  TimedQueue<TimedCommand> commands_;
  bool arrives_ = false;
  TimedCommand arriving_;

  // configuration
  uint64_t stride_ = 0;
  bool windowed_ = false;
  unsigned edge_ = 1, step_ = 1, pad_top_ = 0, pad_left_ = 0;
  unsigned image_rows_ = 0, image_cols_ = 0, pooled_rows_ = 0, pooled_cols_ = 0;
  uint64_t line_stride_ = 0;

  bool active_ = false, draining_ = false, done_ = false;
  unsigned entry_ = 0, done_entry_ = 0;
  Walk walk_;

  bool source_ = false;  // a row is cut into slices
  Item cutting_;
  bool late_ = false;  // a row of the scratchpad is read that is cut a cycle later than one of the accumulator
  Item late_item_;
  bool room_next_ = true;  // whatever happens there will be room for it
  static constexpr unsigned kSlices = 8;  // and one for each cycle of `limiting_`
  unsigned credits_;
  bool scaled_ = false;
  uint64_t last_scaled_ = 0, converting_until_ = 0;
  bool earned_ = false;  // a credit, for the next cycle
  std::deque<Piped> pipe_;
  TimedQueue<Slice> slices_;
  uint64_t now_ = 0;

  bool spad_write_ = false;
  uint32_t spad_row_ = 0;

  bool held_ = false, held_to_end_ = false, request_ = false, sent_beat_ = false;
  uint64_t held_beat_ = 0, held_mask_ = 0, request_beat_ = 0, request_mask_ = 0;
  unsigned in_flight_ = 0;
};

}  // namespace baco
