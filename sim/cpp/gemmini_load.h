// The original Gemmini's load path: controller, read DMA, and what places beats in local memory.
// Sources: LoadController.scala, DMA.scala (StreamReader), XactTracker.scala, BeatMerger.scala,
// VectorScalarMultiplier.scala, PixelRepeater.scala, ZeroWriter.scala, DMACommandTracker.scala.
//
// A row of a load is one request of the controller, one a cycle; the reader cuts it into naturally aligned reads of 16
// to 64 bytes, one a cycle, as many in flight as there are trackers. Rows never share a read. Two loads (one for
// every DIM trackers, and one) are under way at a time. Beats become rows in the order in which they come.
#pragma once
#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "config.h"
#include "gemmini_banks.h"
#include "gemmini_bus.h"
#include "gemmini_station.h"

namespace baco {

class GemminiLoad {
 public:
  GemminiLoad(const Config& config, GemminiBus& bus, GemminiBanks& banks, GemminiStation& station);

  bool ready() const { return queue_.size() < queue_size_; }
  void accept(const Issued& command) { queue_.push_back({command, now_ + 1}); }
  void tick();
  void skip(uint64_t cycles) { now_ += cycles; }
  bool busy() const { return !queue_.empty() || active_ > 0; }

 private:
  struct State {
    uint64_t stride = 0;
    uint32_t block_stride = 0, scale = 0x3f800000u;
    bool shrink = false;
    unsigned repeats = 1;
  };
  struct Queued {
    Issued command;
    uint64_t ready;
  };
  struct Tracked {  // a load under way
    bool valid = false;
    unsigned entry = 0;
    uint64_t bytes_left = 0;
  };
  struct Row {  // a request of the controller
    uint64_t address, ready;
    unsigned bytes, command, element_bytes, repeats;
    uint32_t row, block_stride;
    bool accumulator, scaled;
  };
  struct Read {  // a request in flight
    bool valid = false;
    Row row;
    unsigned shift = 0, bytes = 0, beats = 0;
    unsigned row_offset = 0;   // where its bytes start in the local row
    unsigned first_block = 0;  // of the load's row that it brings bytes of
  };
  struct Piece {  // what goes into a local row, or into several of packed pixels
    uint64_t ready;
    unsigned command, bytes, cycles;
    uint32_t row;
    bool accumulator;
  };
  void control();
  void request();
  void receive();
  void place();
  void write_zeros();
  void returned(unsigned command, uint64_t bytes);

  const unsigned dim_, beat_bytes_, max_bytes_;
  const size_t queue_size_;
  GemminiBus& bus_;
  GemminiBanks& banks_;
  GemminiStation& station_;
  uint64_t now_ = 0;
  std::array<State, 3> states_;
  std::deque<Queued> queue_;
  std::vector<Tracked> commands_;
  unsigned active_ = 0;
  // the load that the controller is sending
  bool sending_ = false;
  uint64_t row_ = 0, rows_ = 0;
  unsigned command_ = 0;
  std::deque<Row> rows_queue_;      // before the reader
  bool reading_ = false;            // the reader holds a row
  Row reader_row_{};
  unsigned requested_ = 0;          // bytes of it
  struct Translated {
    uint64_t ready, address;
    unsigned bytes, source;
  };
  std::deque<Translated> translating_;
  std::vector<Read> reads_;
  std::deque<unsigned> free_reads_;
  struct Lane {
    std::deque<Piece> pieces;
    unsigned spent = 0;             // cycles on the first
  };
  std::array<Lane, 2> lanes_;       // elements of a byte, words
  unsigned merged_ = 0;             // beats of the read that is coming in
  struct Zeros {
    unsigned command, bytes, blocks;
    uint32_t row;
    bool accumulator;
  };
  std::deque<Zeros> zeros_;
  unsigned zero_block_ = 0;
};

}  // namespace baco
