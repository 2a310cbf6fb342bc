// baco_driver.h as a processor's program uses it: every access of a register is a transaction on AXI4-Lite of the Verilated
// baco_axi4, and time goes on only while one is under way. Main memory answers in order, some cycles later.
// Plays a package's commands.hex on memory.hex; with an argument, what the driver says of a command that is illegal and of a
// main memory that fails. Ends with a line that begins with PASS or FAIL.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "Vbaco_axi4.h"
#include "verilated.h"

static uint32_t read_register(unsigned offset);
static void write_register(unsigned offset, uint32_t value);
#define BACO_AXI4 0
#define BACO_READ(offset) read_register(offset)
#define BACO_WRITE(offset, value) write_register(offset, value)
#include "baco_driver.h"

namespace {

constexpr unsigned kBeat = BEAT_BYTES;
struct Burst {
  uint64_t address;
  unsigned beats;
  uint64_t from;  // cycle of the first beat
};

VerilatedContext context;
Vbaco_axi4* dut;
std::vector<uint8_t> memory;
std::deque<Burst> reads, writes;
unsigned answers = 0;
uint64_t cycle = 0;
bool fails = false;

[[noreturn]] void fail(const std::string& what) {
  std::printf("FAIL: %s (cycle %llu)\n", what.c_str(), static_cast<unsigned long long>(cycle));
  std::exit(0);
}

uint8_t* at(uint64_t address) {
  if (address < TEST_BASE || address + kBeat > TEST_BASE + memory.size()) fail("an access outside of main memory");
  return memory.data() + (address - TEST_BASE);
}

template <class Port>
void copy(Port& port, const uint8_t* from) { std::memcpy(&port, from, kBeat); }

void tick() {
  dut->m_axi_arready = dut->m_axi_awready = 1;
  dut->m_axi_wready = !writes.empty();
  const bool beat = !reads.empty() && cycle >= reads.front().from;
  dut->m_axi_rvalid = beat;
  if (beat) {
    copy(dut->m_axi_rdata, at(reads.front().address));
    dut->m_axi_rlast = reads.front().beats == 1;
    dut->m_axi_rresp = fails ? 3 : 0;
  }
  dut->m_axi_bvalid = answers > 0;
  dut->m_axi_bresp = 0;
  dut->aclk = 0;
  dut->eval();
  if (beat && dut->m_axi_rready) {
    reads.front().address += kBeat;
    if (--reads.front().beats == 0) reads.pop_front();
  }
  if (dut->m_axi_bvalid && dut->m_axi_bready) --answers;
  if (dut->m_axi_wvalid && dut->m_axi_wready) {
    uint8_t* to = at(writes.front().address);
    const auto* data = reinterpret_cast<const uint8_t*>(&dut->m_axi_wdata);
    for (unsigned byte = 0; byte < kBeat; ++byte)
      if (static_cast<uint64_t>(dut->m_axi_wstrb) >> byte & 1) to[byte] = data[byte];
    writes.front().address += kBeat;
    if (dut->m_axi_wlast) {
      writes.pop_front();
      ++answers;
    }
  }
  if (dut->m_axi_arvalid) reads.push_back({dut->m_axi_araddr, dut->m_axi_arlen + 1u, cycle + 20});
  if (dut->m_axi_awvalid) writes.push_back({dut->m_axi_awaddr, dut->m_axi_awlen + 1u, 0});
  dut->aclk = 1;
  dut->eval();
  if (++cycle > 2000000) fail("a program without an end");
}

std::vector<uint8_t> bytes_of(const char* file) {
  std::ifstream in(file);
  std::vector<uint8_t> found;
  for (std::string word; in >> word;) found.push_back(static_cast<uint8_t>(std::stoul(word, nullptr, 16)));
  return found;
}

void problems() {
  baco_problem problem;
  if (baco_problem_of(&problem)) fail("a problem after reset");
  baco_interrupt(BACO_BIT(INTERRUPT_ON_ILLEGAL));
  tick();
  if (dut->irq) fail("an interrupt that is not enabled");
  baco_command(99, 0x123456789abcdef0, 7);  // there is no such function
  for (int i = 0; i < 50 && !dut->irq; ++i) tick();
  if (!dut->irq || !baco_problem_of(&problem)) fail("an illegal command is not told");
  if (!problem.illegal || problem.bus || problem.funct != 99 || problem.rs1 != 0x123456789abcdef0 || problem.rs2 != 7)
    fail("another command is told");
  baco_reset();
  if (dut->irq || baco_problem_of(&problem)) fail("the problem is still there after a reset");
  fails = true;
  const uint64_t row = TEST_BASE + 64;
  baco_command(0, 0x1 | uint64_t{0x3f800000} << 32, kBeat);  // CONFIG_LD: scale 1, rows one behind the other
  baco_command(2, row, uint64_t{1} << 48 | uint64_t{1} << 32);  // MVIN of an element of a row to the scratchpad
  baco_fence();
  if (!baco_problem_of(&problem) || problem.illegal || problem.bus != 3 || problem.write) fail("a failed read is not told");
  if (problem.address != row / kBeat * kBeat) fail("another address is told");
  fails = false;
  baco_reset();
  if (baco_problem_of(&problem)) fail("the bus's problem is still there");
}

}  // namespace

static uint32_t read_register(unsigned offset) {
  dut->s_axi_araddr = offset;
  dut->s_axi_arvalid = 1;
  bool taken = false;
  while (!taken) {
    dut->aclk = 0;
    dut->eval();
    taken = dut->s_axi_arready;
    tick();
  }
  dut->s_axi_arvalid = 0;
  dut->s_axi_rready = 1;
  for (dut->eval(); !dut->s_axi_rvalid; dut->eval()) tick();
  const uint32_t value = dut->s_axi_rdata;
  tick();
  dut->s_axi_rready = 0;
  return value;
}

static void write_register(unsigned offset, uint32_t value) {
  dut->s_axi_awaddr = offset;
  dut->s_axi_wdata = value;
  dut->s_axi_wstrb = 15;
  dut->s_axi_awvalid = dut->s_axi_wvalid = 1;
  while (dut->s_axi_awvalid || dut->s_axi_wvalid) {
    dut->aclk = 0;
    dut->eval();
    const bool address = dut->s_axi_awready, data = dut->s_axi_wready;
    tick();
    if (address) dut->s_axi_awvalid = 0;
    if (data) dut->s_axi_wvalid = 0;
  }
  dut->s_axi_bready = 1;
  for (dut->eval(); !dut->s_axi_bvalid; dut->eval()) tick();
  if (dut->s_axi_bresp) fail("a register refused a write");
  tick();
  dut->s_axi_bready = 0;
}

int main(int count, char**) {
  dut = new Vbaco_axi4(&context);
  memory = bytes_of("memory.hex");
  dut->aresetn = 0;
  for (int i = 0; i < 4; ++i) tick();
  dut->aresetn = 1;
  if (!baco_present()) fail("there is no accelerator");
  if (count > 1) problems();
  std::ifstream commands("commands.hex");
  for (std::string step; commands >> step;) {  // 36 digits: see testbench.v
    const unsigned kind = std::stoul(step.substr(1, 1), nullptr, 16), funct = std::stoul(step.substr(2, 2), nullptr, 16);
    const uint64_t rs1 = std::stoull(step.substr(4, 16), nullptr, 16), rs2 = std::stoull(step.substr(20), nullptr, 16);
    if (kind == 2) baco_fence();
    else if (kind == 1) baco_command_result(funct, rs1, rs2);
    else baco_command(funct, rs1, rs2);
  }
  baco_fence();
  baco_problem problem;
  if (baco_problem_of(&problem)) fail("a problem");
  if (memory != bytes_of("expected.hex")) fail("main memory differs");
  std::printf("PASS: %llu cycles\n", static_cast<unsigned long long>(cycle));
}
