// baco_axi4_writes between an accelerator that writes runs of beats at random and an AXI4 memory that waits at random.
// Usage: bench SEED CYCLES. Prints "bursts B beats N longest L errors E", or what is broken, with exit code 1.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "Vdut.h"
#include "verilated.h"

namespace {

constexpr unsigned kBeat = DMA_BITS / 8, kBytes = 1 << 16;
uint64_t cycle = 0;

[[noreturn]] void wrong(const std::string& what) {
  std::printf("%s (cycle %llu)\n", what.c_str(), static_cast<unsigned long long>(cycle));
  std::exit(1);
}

struct Burst {
  uint64_t address;
  unsigned beats, given = 0;
  bool fails;
};

}  // namespace

int main(int, char** arguments) {
  std::mt19937 random(std::atoi(arguments[1]));
  const uint64_t cycles = std::atoll(arguments[2]);
  const auto chance = [&](unsigned percent) { return random() % 100 < percent; };
  VerilatedContext context;
  Vdut dut(&context);
  std::vector<uint8_t> memory(kBytes), expected(kBytes);
  std::deque<Burst> bursts;                    // asked for; the front ones have all of their data
  std::deque<Burst> pending;  // all data there, not answered
  uint64_t address = 0, offered_beats = 0, acknowledged = 0, answered = 0, all_bursts = 0, longest = 0, errors = 0;
  unsigned run = 0, wait = 50;
  bool offers = false, answers = false;
  uint64_t kept_address = 0;
  unsigned kept_length = 0, kept_data = 0, kept_strobes = 0, kept_last = 0;
  bool kept_aw = false, kept_w = false;
  std::deque<std::pair<unsigned, unsigned>> data;  // of beats that were accepted: contents, mask

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
  for (; cycle < cycles;) {
    const bool ends = cycle + 2000 > cycles;  // nothing new: everything must come to rest
    if (cycle % 512 == 0) wait = random() % 100;
    if (!offers && !ends && chance(100 - wait / 2)) {
      if (run == 0) {
        run = 1 + random() % 40;
        address = random() % (kBytes / kBeat) * kBeat;
      }
      --run;
      offers = true;
      dut.req_addr = address;
      dut.req_data = random();
      dut.req_mask = random() & ((1u << kBeat) - 1);
      address = (address + kBeat) % kBytes;
    }
    dut.req_valid = offers;
    dut.awready = chance(100 - wait);
    dut.wready = chance(100 - wait) && !bursts.empty();
    if (!answers && !pending.empty() && chance(100 - wait)) {
      answers = true;
      dut.bresp = pending.front().fails ? 2 : 0;
    }
    dut.bvalid = answers;
    dut.clock = 0;
    dut.eval();
    if (dut.awvalid && kept_aw && (dut.awaddr != kept_address || dut.awlen != kept_length)) wrong("AW did not stay");
    if (kept_aw && !dut.awvalid) wrong("AW was withdrawn");
    if (kept_w && (!dut.wvalid || dut.wdata != kept_data || dut.wstrb != kept_strobes || dut.wlast != kept_last))
      wrong("W did not stay");
    kept_aw = dut.awvalid && !dut.awready;
    kept_w = dut.wvalid && !dut.wready;
    kept_address = dut.awaddr, kept_length = dut.awlen;
    kept_data = dut.wdata, kept_strobes = dut.wstrb, kept_last = dut.wlast;
    if (offers && dut.req_ready) {
      for (unsigned byte = 0; byte < kBeat; ++byte)
        if (dut.req_mask >> byte & 1) expected[dut.req_addr + byte] = dut.req_data >> 8 * byte;
      data.emplace_back(dut.req_data, dut.req_mask);
      ++offered_beats;
      offers = false;
    }
    if (dut.wvalid && dut.wready) {
      Burst& burst = bursts.front();
      if (data.empty() || data.front() != std::make_pair(unsigned(dut.wdata), unsigned(dut.wstrb))) wrong("other data");
      data.pop_front();
      for (unsigned byte = 0; byte < kBeat; ++byte)
        if (dut.wstrb >> byte & 1) memory[burst.address + burst.given * kBeat + byte] = dut.wdata >> 8 * byte;
      ++burst.given;
      if (bool(dut.wlast) != (burst.given == burst.beats)) wrong("WLAST is not at the last beat");
      if (dut.wlast) {
        pending.push_back(burst);
        bursts.pop_front();
      }
    }
    if (dut.awvalid && dut.awready) {
      const unsigned beats_asked = dut.awlen + 1u;
      if (dut.awaddr % 4096 + beats_asked * kBeat > 4096) wrong("a burst crosses 4 KiB");
      if (dut.awaddr % kBeat) wrong("a burst is not aligned");
      bursts.push_back({dut.awaddr, beats_asked, 0, chance(5)});
      ++all_bursts;
      if (beats_asked > longest) longest = beats_asked;
    }
    if (answers && dut.bready) {
      const Burst& burst = pending.front();
      if (bool(dut.error) != burst.fails) wrong("an error is told that is none, or is not told");
      if (burst.fails && (dut.error_address != burst.address || dut.error_response != 2)) wrong("another error is told");
      errors += burst.fails;
      answered += burst.beats;
      pending.pop_front();
      answers = false;
    } else if (dut.error) wrong("an error without an answer");
    if (dut.ack_valid && ++acknowledged > answered) wrong("a beat is acknowledged before its answer");
    if (bool(dut.idle) && (!bursts.empty() || !pending.empty())) wrong("idle with bursts under way");
    tick();
  }
  if (!dut.idle || !data.empty() || acknowledged != offered_beats) wrong("beats are left");
  if (memory != expected) wrong("memory differs");
  std::printf("bursts %llu beats %llu longest %llu errors %llu\n", static_cast<unsigned long long>(all_bursts),
              static_cast<unsigned long long>(offered_beats), static_cast<unsigned long long>(longest),
              static_cast<unsigned long long>(errors));
}
