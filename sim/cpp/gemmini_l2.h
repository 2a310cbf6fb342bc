// The inclusive second-level cache of the original Gemmini's Rocket system, and main memory behind it: tags and cycles.
//
// A request looks its line up, and any of the ways is replaced where it is not there, by a generator of pseudo-random
// numbers: free ways have no preference, so that victims begin long before the cache is full. A miss holds a register.
// Where it has a victim, it first sends a release of it, clean or dirty, and then asks memory for its line; it ends when
// both are answered. The scheduler lets one register send one message a cycle. Releases and ends of misses write the
// directory, one at a time.
//
// Behind the cache an adapter answers releases without data itself. Its answers share the channel of refills, and any
// beat of a refill goes first: while refills follow each other without a gap nothing is acknowledged, two answers wait
// there, a few releases in front of it, and other misses with victims are held up before they have asked for anything.
// Refills then run dry. This is what a stream beyond the cache's capacity is slowed by. Releases with data are written
// to memory over the channel of requests, and acknowledged from there.
//
// Sources: the inclusive cache's Scheduler, MSHR, Directory, SourceA, SourceC and SinkD, and rocket-chip's TLCacheCork.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace baco {

struct GemminiL2Options {
  unsigned kib = 512, ways = 8, line_bytes = 64;
  unsigned miss_registers = 10;       // of twelve; two serve probes and releases only
  unsigned same_set_cycles = 1;       // between two requests that one register serves
  unsigned memory_bytes_per_cycle = 8;
  // The following were fitted to cycles measured on the original's RTL: sim/engines/original.json has them.
  unsigned hit_cycles = 0;            // from a request's arrival to the first beat of its answer
  unsigned memory_cycles = 0;         // from a request to memory to the first beat of its data
  unsigned fill_cycles = 0;           // from the last of them to the first beat of the answer
  unsigned release_cycles = 0;        // from the scheduler to the adapter that answers
};

struct GemminiL2Statistics {
  uint64_t hits = 0, misses = 0, writebacks = 0, memory_busy_cycles = 0;
};

class GemminiL2 {
 public:
  struct Request {
    uint64_t address;
    unsigned bytes, enabled, source;
    bool write, first, last;
  };
  struct Answer {
    uint64_t ready;
    unsigned source, bytes;
    bool write;
  };

  explicit GemminiL2(const GemminiL2Options& options);

  // Whether a request may come in: one of a set that no register serves needs one that is free.
  bool ready(const Request& request) const;
  void serve(const Request& request);
  // The earliest answer that is ready, if any, which is taken.
  bool answer(Answer& answer);
  // A line for the host core, asked for in a cycle that may lie ahead: the cycle in which it is there.
  uint64_t host_access(uint64_t cycle, uint64_t address, bool write);

  void tick();
  void skip(uint64_t cycles) { now_ += cycles; }
  bool idle() const { return answers_.empty() && active_ == 0; }
  const GemminiL2Statistics& statistics() const { return statistics_; }

 private:
  static constexpr unsigned kNone = ~0u;
  struct Line {
    uint64_t tag = ~uint64_t{0};
    bool dirty = false;
  };
  // What the directory says of a request.
  struct Looked {
    Request request;
    bool hit = false, victim = false, dirty = false;
  };
  struct Miss {
    bool valid = false;
    Looked looked;
    bool release = false, acquire = false;  // still to be sent
    bool released = false, filled = false;  // answered, or not needed
    uint64_t next = 0;                      // when it may send its next message
    uint64_t answered = 0;                  // when the last of what it waits for is there
    std::deque<Looked> waiting;             // requests of the same set
  };
  struct Message {
    uint64_t ready;
    unsigned miss;
    bool dirty;
  };
  struct Burst {
    uint64_t start, end;
  };
  Looked look_up(const Request& request);
  bool whole(const Request& request) const { return request.write && request.enabled == options_.line_bytes; }
  void begin(Miss& miss, const Looked& looked);
  void answer_at(uint64_t cycle, const Request& request);
  bool release_room() const;
  uint64_t reserve(uint64_t from);
  void acknowledge();
  void send_release();
  void send_acquire();
  void schedule();
  bool send(unsigned index);
  void finish(Miss& miss);

  GemminiL2Options options_;
  uint64_t now_ = 0, sets_;
  std::vector<Line> lines_;
  uint16_t random_ = 1;
  bool directory_full_ = false;       // a write of it waits for a cycle without a look-up
  uint64_t directory_written_ = 0, looked_up_ = 0;
  std::vector<unsigned> serving_;     // by set: the register that serves it
  std::vector<uint64_t> set_free_;    // by set: when its next request is served
  std::vector<Miss> misses_;
  unsigned active_ = 0, turn_ = 0;
  std::deque<Message> releases_, acquires_;       // on their way out of the cache
  std::deque<Message> release_acks_, grants_;     // of the adapter, behind refills
  std::deque<Message> write_acks_;                // of main memory
  uint64_t release_free_ = 0, request_free_ = 0;  // when the two channels take another message
  std::deque<Burst> bursts_;                      // of refills
  uint64_t memory_free_ = 0;
  std::vector<Answer> answers_;                   // a heap by `ready`
  GemminiL2Statistics statistics_;
};

}  // namespace baco
