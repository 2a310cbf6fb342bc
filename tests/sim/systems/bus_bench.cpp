// baco_system_axi4 with three units, whose registers are reached by baco_driver.h: units 0 and 2 copy rows of main memory through
// their scratchpads while unit 1 meets an error of main memory and is reset. All channels wait at random; reads and writes of an
// address range fail. Ends with a line that begins with PASS or FAIL.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "Vbaco_system_axi4.h"
#include "verilated.h"

static uint32_t read_register(unsigned offset);
static void write_register(unsigned offset, uint32_t value);
static unsigned unit = 0;
#define BACO_AXI4 0
#define BACO_READ(offset) read_register(unit * 4096 + (offset))
#define BACO_WRITE(offset, value) write_register(unit * 4096 + (offset), value)
#include "baco_driver.h"

namespace {

constexpr unsigned kBeat = BEAT_BYTES, kRows = 24;
constexpr uint64_t kBase = 0x80000000, kFails = kBase + 0x8000, kEnd = kBase + 0x10000;
struct Burst {
  uint64_t address;
  unsigned beats;
  bool fails;
};

VerilatedContext* context;
Vbaco_system_axi4* dut;
std::vector<uint8_t> memory;
std::deque<Burst> reads, writes, answers;
uint64_t cycle = 0;
uint32_t chance = 1;
unsigned seed = 0;
bool beat_offered = false, answer_offered = false, slow = false;  // main memory is

[[noreturn]] void fail(const std::string& what) {
  std::printf("FAIL: %s (seed %u, cycle %llu)\n", what.c_str(), seed, static_cast<unsigned long long>(cycle));
  std::exit(0);
}

bool goes() {
  chance ^= chance << 13;
  chance ^= chance >> 17;
  chance ^= chance << 5;
  return chance & 0x300;
}

bool memory_goes() { return goes() && (!slow || (chance & 0x3c000) == 0); }

void tick() {
  dut->m_axi_arready = memory_goes();
  dut->m_axi_awready = memory_goes();
  dut->m_axi_wready = !writes.empty() && memory_goes();
  beat_offered = !reads.empty() && (beat_offered || memory_goes());
  dut->m_axi_rvalid = beat_offered;
  if (beat_offered) {
    Burst& burst = reads.front();
    if (burst.fails) std::memset(&dut->m_axi_rdata, 0x5a, kBeat);
    else std::memcpy(&dut->m_axi_rdata, memory.data() + (burst.address - kBase), kBeat);
    dut->m_axi_rlast = burst.beats == 1;
    dut->m_axi_rresp = burst.fails ? 2 : 0;
  }
  answer_offered = !answers.empty() && (answer_offered || memory_goes());
  dut->m_axi_bvalid = answer_offered;
  if (answer_offered) dut->m_axi_bresp = answers.front().fails ? 3 : 0;
  dut->aclk = 0;
  dut->eval();
  if (beat_offered && dut->m_axi_rready) {
    beat_offered = false;
    reads.front().address += kBeat;
    if (--reads.front().beats == 0) reads.pop_front();
  }
  if (answer_offered && dut->m_axi_bready) {
    answer_offered = false;
    answers.pop_front();
  }
  const bool runs = dut->aresetn;  // in reset anything may be offered
  if (runs && dut->m_axi_wvalid && dut->m_axi_wready) {
    Burst& burst = writes.front();
    const auto* data = reinterpret_cast<const uint8_t*>(&dut->m_axi_wdata);
    for (unsigned byte = 0; byte < kBeat; ++byte)
      if (!burst.fails && static_cast<uint64_t>(dut->m_axi_wstrb) >> byte & 1) memory[burst.address - kBase + byte] = data[byte];
    burst.address += kBeat;
    if (dut->m_axi_wlast != (burst.beats == 1)) fail("WLAST is not at the last beat");
    if (--burst.beats == 0) {
      answers.push_back(burst);
      writes.pop_front();
    }
  }
  if (runs && dut->m_axi_arvalid && dut->m_axi_arready) {
    const uint64_t address = dut->m_axi_araddr, bytes = (dut->m_axi_arlen + 1u) * kBeat;
    if (address < kBase || address + bytes > kEnd || address % 4096 + bytes > 4096) fail("a read of another place");
    reads.push_back({address, dut->m_axi_arlen + 1u, address >= kFails});
  }
  if (runs && dut->m_axi_awvalid && dut->m_axi_awready) {
    const uint64_t address = dut->m_axi_awaddr, bytes = (dut->m_axi_awlen + 1u) * kBeat;
    if (address < kBase || address + bytes > kEnd || address % 4096 + bytes > 4096) fail("a write of another place");
    writes.push_back({address, dut->m_axi_awlen + 1u, address >= kFails});
  }
  dut->aclk = 1;
  dut->eval();
  if (++cycle > 2000000) fail("no end");
}

// Where the rows of a unit lie, from and to.
uint64_t source(unsigned number) { return kBase + 0x1000 * (2 * number); }
uint64_t target(unsigned number) { return kBase + 0x1000 * (2 * number + 1); }

void configure() {
  baco_command(0, 0x1 | uint64_t{0x3f800000} << 32, DIM);  // CONFIG_LD: scale 1, rows one behind the other
  baco_command(0, 2, uint64_t{0x3f800000} << 32 | DIM);    // CONFIG_ST
}

void copy(uint64_t from, uint64_t to, unsigned row) {
  const uint64_t rows = uint64_t{1} << 48 | uint64_t{DIM} << 32 | row % 4;
  baco_command(2, from + uint64_t{DIM} * row, rows);  // MVIN
  baco_command(3, to + uint64_t{DIM} * row, rows);    // MVOUT
}

void expect_copied(unsigned number) {
  const uint8_t* from = memory.data() + (source(number) - kBase);
  if (std::memcmp(from, memory.data() + (target(number) - kBase), kRows * DIM)) fail("rows of unit " + std::to_string(number));
}

}  // namespace

static uint32_t read_register(unsigned offset) {
  dut->s_axi_araddr = offset;
  dut->s_axi_arvalid = 1;
  for (bool taken = false; !taken;) {
    dut->aclk = 0;
    dut->eval();
    taken = dut->s_axi_arready;
    tick();
  }
  dut->s_axi_arvalid = 0;
  while (!goes()) tick();
  dut->s_axi_rready = 1;
  for (dut->eval(); !dut->s_axi_rvalid; dut->eval()) tick();
  const uint32_t value = dut->s_axi_rdata;
  if (dut->s_axi_rresp != (offset >= 3 * 4096 ? 3 : 0)) fail("another answer to a read of a register");
  tick();
  dut->s_axi_rready = 0;
  return value;
}

static void write_register(unsigned offset, uint32_t value) {
  dut->s_axi_awaddr = offset;
  dut->s_axi_wdata = value;
  dut->s_axi_wstrb = 15;
  bool address_left = true, data_left = true;
  while (address_left || data_left) {
    if (address_left && goes()) dut->s_axi_awvalid = 1;
    if (data_left && goes()) dut->s_axi_wvalid = 1;
    dut->aclk = 0;
    dut->eval();
    const bool address = dut->s_axi_awvalid && dut->s_axi_awready, data = dut->s_axi_wvalid && dut->s_axi_wready;
    tick();
    if (address) address_left = dut->s_axi_awvalid = 0;
    if (data) data_left = dut->s_axi_wvalid = 0;
  }
  dut->s_axi_bready = 1;
  for (dut->eval(); !dut->s_axi_bvalid; dut->eval()) tick();
  if (dut->s_axi_bresp != (offset >= 3 * 4096 ? 3 : 0)) fail("another answer to a write of a register");
  tick();
  dut->s_axi_bready = 0;
}

int main(int, char** arguments) {
  const unsigned count = std::stoul(arguments[1]);
  unsigned read_errors = 0, write_errors = 0, under_way = 0;
  for (seed = 0; seed < count; ++seed) {
    context = new VerilatedContext;
    context->randReset(2);
    context->randSeed(seed + 1);
    dut = new Vbaco_system_axi4(context);
    chance = (seed + 1) * 2654435761u | 1;
    cycle = 0;
    memory.assign(kEnd - kBase, 0);
    for (size_t byte = 0; byte < memory.size(); ++byte) memory[byte] = static_cast<uint8_t>(byte * 37 + (byte >> 7) + seed);
    dut->s_axi_arvalid = dut->s_axi_awvalid = dut->s_axi_wvalid = dut->s_axi_rready = dut->s_axi_bready = 0;
    dut->aresetn = 0;
    for (int n = 0; n < 4; ++n) tick();
    dut->aresetn = 1;
    for (unit = 0; unit < 3; ++unit) {
      if (!baco_present()) fail("there is no accelerator");
      configure();
    }
    read_register(3 * 4096);  // nobody's
    write_register(3 * 4096 + BACO_AXI_CONTROL, 1);
    const bool write = seed % 2, early = seed % 4 < 2;
    for (unsigned row = 0; row < kRows / 2; ++row) {
      for (unsigned number : {0u, 1u, 2u}) {
        unit = number;
        if (number == 1) copy(write ? source(1) : kFails + 256 * row, write ? kFails + 256 * row : target(1), row);
        else copy(source(number), target(number), row);
      }
    }
    baco_problem problem;
    unit = 1;
    if (!early) {
      baco_fence();
      if (!baco_problem_of(&problem) || problem.illegal) fail("an error is not told");
      if (problem.bus != (write ? 3u : 2u) || problem.write != write || problem.address < kFails) fail("another error is told");
      ++(write ? write_errors : read_errors);
    } else {
      slow = true;
      for (unsigned row = 0; row < 4; ++row) copy(source(1), target(1), row);
      under_way += !reads.empty() || !writes.empty() || !answers.empty();
    }
    if (early) (write ? write_errors : read_errors) += baco_problem_of(&problem) && problem.bus;
    baco_reset();
    slow = false;
    if (baco_problem_of(&problem)) fail("a problem after the reset");
    configure();
    for (unsigned row = 0; row < kRows; ++row)
      for (unsigned number : {0u, 1u, 2u}) {
        if (number != 1 && row < kRows / 2) continue;
        unit = number;
        copy(source(number), target(number), row);
      }
    for (unit = 0; unit < 3; ++unit) {
      baco_fence();
      if (baco_problem_of(&problem)) fail("a problem of unit " + std::to_string(unit));
      expect_copied(unit);
    }
    reads.clear();
    writes.clear();
    answers.clear();
    beat_offered = answer_offered = false;
    delete dut;
    delete context;
  }
  std::printf("PASS: %u seeds, %u read errors, %u write errors, %u resets under way\n", count, read_errors, write_errors, under_way);
}
