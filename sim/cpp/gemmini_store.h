// The original Gemmini's store path: controller, local reads, scaling, and the write DMA.
// Sources: StoreController.scala, Scratchpad.scala, AccumulatorScale.scala, DMA.scala (StreamWriter).
//
// The controller asks for a block of a row a cycle (for an element of a window, when it pools). Accumulator rows pass the
// scaling pipeline, which is longer than the queue that keeps their addresses: five rows in eight cycles. The
// writer collects the blocks of a row and sends them in naturally aligned writes of 16 to 64 bytes, a beat a cycle.
#pragma once
#include <cstdint>
#include <deque>
#include <vector>

#include "config.h"
#include "gemmini_banks.h"
#include "gemmini_bus.h"
#include "gemmini_station.h"

namespace baco {

class GemminiStore {
 public:
  GemminiStore(const Config& config, GemminiBus& bus, GemminiBanks& banks, GemminiStation& station);

  bool ready() const { return queue_.size() < queue_size_; }
  void accept(const Issued& command) { queue_.push_back({command, now_ + 1}); }
  void tick();
  void skip(uint64_t cycles) { now_ += cycles; }
  bool busy() const { return !queue_.empty() || active_ > 0; }
  // Rows on their way, or writes that memory has not acknowledged: a fence waits for them too.
  bool writing() const {
    return !dispatch_.empty() || !scale_.empty() || !issue_.empty() || writer_busy_ || puts_in_flight_ > 0;
  }

 private:
  struct Queued {
    Issued command;
    uint64_t ready;
  };
  struct Tracked {
    bool valid = false;
    unsigned entry = 0;
    uint64_t left = 0;
  };
  struct Block {  // of a row on its way
    uint64_t ready, address;
    unsigned command, bytes, block;
    LocalAddress at;
    bool stores;  // completes the row that the writer sends
  };
  struct Beat {
    uint64_t ready, address;
    unsigned bytes, enabled;
    bool first, last;
  };
  void configure(const Command& command);
  void control();
  void dispatch();
  void scale();
  void write();

  const unsigned dim_, beat_bytes_, max_bytes_, writes_;
  const size_t queue_size_;
  GemminiBus& bus_;
  GemminiBanks& banks_;
  GemminiStation& station_;
  uint64_t now_ = 0;
  // configuration
  uint64_t stride_ = 0;
  unsigned pool_stride_ = 0, pool_size_ = 0, out_dim_ = 0, porows_ = 0, pocols_ = 0, orows_ = 0, ocols_ = 0;
  unsigned upad_ = 0, lpad_ = 0;
  std::deque<Queued> queue_;
  std::vector<Tracked> commands_;
  unsigned active_ = 0;
  bool sending_ = false;
  unsigned command_ = 0;
  uint64_t step_ = 0, steps_ = 0;
  std::deque<Block> dispatch_, scale_, issue_;
  bool writer_busy_ = false;
  std::deque<Beat> beats_, translating_;  // of the row that the writer sends; on their way to the bus
  unsigned puts_in_flight_ = 0;
};

}  // namespace baco
