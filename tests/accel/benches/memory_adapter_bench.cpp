// baco_memory_adapter between an accelerator that reads and writes at random and a wider memory port that waits at random.
// Usage: bench SEED CYCLES. Prints "reads R beats B writes W wider V", or what is broken, with exit code 1.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <random>
#include <vector>

#include "Vdut.h"
#include "verilated.h"

namespace {

constexpr unsigned kUnit = UNIT_BITS / 8, kWide = DMA_BITS / 8, kBytes = 1 << 12, kLargest = 32;
uint64_t cycle = 0;

[[noreturn]] void wrong(const char* what) {
  std::printf("%s (cycle %llu)\n", what, static_cast<unsigned long long>(cycle));
  std::exit(1);
}

struct Bytes {
  std::vector<uint8_t> data = std::vector<uint8_t>(kBytes);
  uint64_t at(unsigned address, unsigned bytes) const {
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes; ++i) value |= uint64_t{data[address + i]} << 8 * i;
    return value;
  }
  void put(unsigned address, unsigned bytes, uint64_t value, uint64_t mask) {
    for (unsigned i = 0; i < bytes; ++i)
      if (mask >> i & 1) data[address + i] = static_cast<uint8_t>(value >> 8 * i);
  }
};

// What is offered stays, unchanged, until it is taken.
struct Offer {
  bool waits = false;
  uint64_t kept[3] = {};
  void check(bool valid, bool ready, uint64_t a, uint64_t b, uint64_t c, const char* what) {
    if (waits && (!valid || a != kept[0] || b != kept[1] || c != kept[2])) wrong(what);
    waits = valid && !ready;
    kept[0] = a, kept[1] = b, kept[2] = c;
  }
};

unsigned log2_of(unsigned value) { return value > 1 ? 1 + log2_of(value / 2) : 0; }

}  // namespace

int main(int, char** arguments) {
  std::mt19937 random(std::atoi(arguments[1]));
  const uint64_t cycles = std::atoll(arguments[2]);
  VerilatedContext context;
  Vdut dut(&context);
  // reads are of the first memory, writes into the second, so that neither depends on when the other is done
  Bytes read, written, expected;
  for (uint8_t& byte : read.data) byte = static_cast<uint8_t>(random());
  std::deque<uint64_t> wanted, answers;  // beats to come: of the accelerator, of the wider port
  std::deque<unsigned> unanswered;       // lanes of wider writes that wait for their acknowledgement
  uint64_t reads = 0, beats = 0, writes = 0, wider = 0, may_tell = 0, told = 0;
  unsigned run = 0, next = 0, wait = 0, idle = 0;
  bool asks = false, offers = false;
  Offer request, write;

  const auto chance = [&](unsigned percent) { return random() % 100 < percent; };
  const auto tick = [&] {
    dut.clock = 0;
    dut.eval();
    dut.clock = 1;
    dut.eval();
    ++cycle;
  };
  dut.reset = 1;
  for (int i = 0; i < 3; ++i) tick();
  dut.reset = 0;
  while (cycle < cycles) {
    const bool ends = cycle + 3000 > cycles;  // nothing new: everything must come to rest
    if (cycle % 256 == 0) wait = random() % 4 ? random() % 100 : 0, idle = random() % 3 ? random() % 100 : 0;
    if (ends) wait = idle = 50;
    if (!asks && !ends && !chance(idle)) {
      const unsigned size = kUnit << random() % (log2_of(kLargest / kUnit) + 1);
      asks = true;
      dut.unit_rd_req_size = log2_of(size);
      dut.unit_rd_req_addr = random() % (kBytes / size) * size;
    }
    if (!offers && !ends && !chance(idle)) {
      if (run == 0) run = 1 + random() % 12, next = random() % (kBytes / kUnit) * kUnit;
      --run;
      offers = true;
      dut.unit_wr_req_addr = next;
      dut.unit_wr_req_data = random() & ((uint64_t{1} << UNIT_BITS) - 1);
      dut.unit_wr_req_mask = 1 + random() % ((1u << kUnit) - 1);
      next = (next + kUnit) % kBytes;
    }
    dut.unit_rd_req_valid = asks;
    dut.unit_wr_req_valid = offers;
    dut.unit_rd_resp_ready = !chance(wait);
    dut.rd_req_ready = !chance(wait);
    dut.wr_req_ready = !chance(wait);
    if (!dut.rd_resp_valid && !answers.empty() && !chance(wait)) dut.rd_resp_valid = 1;
    if (dut.rd_resp_valid) dut.rd_resp_data = answers.front();
    dut.wr_ack_valid = !unanswered.empty() && !chance(wait);
    dut.clock = 0;
    dut.eval();
    request.check(dut.rd_req_valid, dut.rd_req_ready, dut.rd_req_addr, dut.rd_req_size, 0, "a read that is offered changes");
    write.check(dut.wr_req_valid, dut.wr_req_ready, dut.wr_req_addr, dut.wr_req_data, dut.wr_req_mask, "a write that is offered changes");
    const bool answered = dut.rd_resp_valid && dut.rd_resp_ready, acknowledged = dut.wr_ack_valid;
    const bool asked = asks && dut.unit_rd_req_ready, offered = offers && dut.unit_wr_req_ready;
    if (asked) {
      ++reads;
      const unsigned size = 1u << dut.unit_rd_req_size;
      for (unsigned at = 0; at < size; at += kUnit) wanted.push_back(read.at(dut.unit_rd_req_addr + at, kUnit));
    }
    if (answered) answers.pop_front();
    if (dut.rd_req_valid && dut.rd_req_ready) {
      const unsigned size = 1u << dut.rd_req_size;
      if (size < kWide || dut.rd_req_addr % size) wrong("a read is no aligned beats of the wider port");
      for (unsigned at = 0; at < size; at += kWide) answers.push_back(read.at(dut.rd_req_addr + at, kWide));
    }
    if (dut.unit_rd_resp_valid && dut.unit_rd_resp_ready) {
      if (wanted.empty()) wrong("a beat comes that nobody asked for");
      if (dut.unit_rd_resp_data != wanted.front()) wrong("a beat has other bytes");
      wanted.pop_front();
      ++beats;
    }
    if (acknowledged) may_tell += unanswered.front(), unanswered.pop_front();
    if (dut.unit_wr_ack_valid && ++told > may_tell) wrong("a write is acknowledged before it is done");
    if (dut.wr_req_valid && dut.wr_req_ready) {
      if (dut.wr_req_addr % kWide) wrong("a write is not aligned");
      unsigned lanes = 0;
      for (unsigned lane = 0; lane < kWide / kUnit; ++lane)
        lanes += (dut.wr_req_mask >> lane * kUnit & ((1u << kUnit) - 1)) != 0;
      if (!lanes) wrong("a write of nothing");
      written.put(dut.wr_req_addr, kWide, dut.wr_req_data, dut.wr_req_mask);
      unanswered.push_back(lanes);
      ++wider;
    }
    if (offered) {
      ++writes;
      expected.put(dut.unit_wr_req_addr, kUnit, dut.unit_wr_req_data, dut.unit_wr_req_mask);
    }
    dut.clock = 1;
    dut.eval();
    ++cycle;
    if (asked) asks = false;
    if (offered) offers = false;
    if (answered) dut.rd_resp_valid = 0;
  }
  if (asks || offers || !wanted.empty() || !answers.empty() || !unanswered.empty()) wrong("something never ends");
  if (told != writes) wrong("writes are not acknowledged");
  if (written.data != expected.data) wrong("memory holds something else");
  std::printf("reads %llu beats %llu writes %llu wider %llu\n", static_cast<unsigned long long>(reads),
              static_cast<unsigned long long>(beats), static_cast<unsigned long long>(writes), static_cast<unsigned long long>(wider));
  return 0;
}
