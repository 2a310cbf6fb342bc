// The original Gemmini's execute path: what feeds the array, pass by pass, and when results leave it.
// Sources: ExecuteController.scala, TransposePreloadUnroller.scala, MeshWithDelays.scala, TagQueue.scala.
//
// A pass feeds rows of A, B and D side by side, a row a cycle: for a PRELOAD alone, for a COMPUTE together with the
// PRELOAD behind it, or for a COMPUTE alone when the next commands have not come yet. Two operands in one scratchpad
// bank take turns, and loads that write a bank hold up its reads. What the array is to do with the rows that leave it
// is kept in a queue of tags, which bounds how many passes are in the array.
#pragma once
#include <array>
#include <cstdint>
#include <deque>

#include "config.h"
#include "gemmini_banks.h"
#include "gemmini_station.h"

namespace baco {

class GemminiExecute {
 public:
  GemminiExecute(const Config& config, GemminiBanks& banks, GemminiStation& station);

  bool ready() const { return unrolling_.size() < 2; }
  void accept(const Issued& command) { unrolling_.push_back({command, true, now_ + 1}); }
  void tick();
  void skip(uint64_t cycles) { now_ += cycles; }
  bool idle() const { return unrolling_.empty() && queue_.empty() && rows_.empty() && leaving_.empty(); }
  bool busy() const { return !queue_.empty() || results_pending(); }
  // All that waits is a PRELOAD without its COMPUTE.
  bool lone_preload() const { return queue_.size() == 1 && queue_.front().issued.command.funct == kPreload; }
  bool multiplying() const { return !leaving_.empty(); }

 private:
  struct Queued {
    Issued issued;
    bool reports;  // completes an entry of the station
    uint64_t ready;
  };
  enum class Pass { kNone, kPreload, kComputeAndPreload, kCompute };
  struct Feed {  // an operand in the pass under way
    LocalAddress at;
    bool feeding = false, last_first = false, started = false;
    unsigned rows = 0, stride = 1, counter = 0;
  };
  struct MeshRow {
    uint64_t ready;
    bool first, last;
    unsigned pass;
  };
  struct Leaving {
    uint64_t cycle;
    unsigned pass, row;
    bool last;
  };
  struct Tag {
    unsigned pass;  // whose output it describes
    unsigned entry = 0, rows = 0;
    bool reports = false;
    LocalAddress at;
  };
  bool results_pending() const;
  void unroll();
  void leave();
  void enter();
  void choose();
  void start(Pass pass);
  void feed();
  void finish();
  bool reads_bank(const Feed& feed, uint64_t& bank) const;

  const unsigned dim_;
  const size_t queue_size_;
  const uint64_t latency_;
  const bool both_dataflows_;
  GemminiBanks& banks_;
  GemminiStation& station_;
  uint64_t now_ = 0;
  bool weight_stationary_, transpose_a_ = false, transpose_b_ = false;
  bool unrolls_transposed_ = false;
  unsigned stride_a_ = 1;
  unsigned unroll_state_ = 0;
  std::deque<Queued> unrolling_, queue_;
  Pass pass_ = Pass::kNone;
  std::array<Feed, 3> feeds_;  // A, B, D
  unsigned total_rows_ = 0, complete_rows_ = 0;
  bool tagged_ = false;
  Tag tag_{};                  // of the pass under way
  unsigned passes_ = 0;        // begun
  std::deque<MeshRow> rows_;   // read, on their way into the array
  std::deque<Tag> tags_, coming_tags_;
  std::deque<Leaving> leaving_;
  std::deque<unsigned> fed_;   // entries that are done since their rows are fed
  bool flushing_ = false;
  uint64_t flush_until_ = 0;
};

}  // namespace baco
