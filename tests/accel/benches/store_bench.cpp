// Runs a stream of commands through baco_store against memories with random refusals and latencies.
//
// Arguments: commands, scratchpad image, accumulator image, memory image, result prefix, seed, and in percent: commands
// held back, local accesses refused, beats refused; then the longest acknowledgement latency in cycles.
// Commands are lines "funct rs1 rs2" in decimal. Results: PREFIX.sp and PREFIX.memory, the images afterwards, and on
// standard output "cycles N beats N first N last N": cycles until idle, beats written, cycles of the first and last
// beat. Fails with a message (exit status 1) when a rule of the ports is broken.
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "Vdut.h"
#include "ports.h"

namespace {

constexpr uint64_t kMemoryBase = 0x80000000;
constexpr int kBeat = DMA_BITS / 8;
constexpr int kBeatsInFlight = DMA_REQUESTS * (DMA_MAX_BYTES > kBeat ? DMA_MAX_BYTES / kBeat : 1);

struct Command {
  uint64_t funct, rs1, rs2;
};

struct Beat {
  uint64_t address = 0;
  std::vector<uint8_t> data = std::vector<uint8_t>(kBeat);
  std::vector<bool> mask = std::vector<bool>(kBeat);
};

uint64_t cycle = 0;

[[noreturn]] void fail(const char* what, uint64_t value = 0) {
  std::fprintf(stderr, "cycle %" PRIu64 ": %s (%" PRIu64 ")\n", cycle, what, value);
  std::exit(1);
}

std::vector<uint8_t> read_file(const char* path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) fail("cannot read a file");
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

void write_file(const std::string& path, const std::vector<uint8_t>& bytes) {
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!out) fail("cannot write a file");
}

// A read port: grants with `refuse` percent refusals; data some cycles later and only then, random otherwise.
template <class Data>
struct ReadPort {
  std::vector<uint8_t>& memory;
  size_t row_bytes;
  size_t cycles;                            // from a read to its data
  std::deque<std::vector<uint8_t>> coming;  // rows of the cycles to come, empty where there is none

  void drive(Data& data, baco::Random& random) {
    std::vector<uint8_t> row;
    if (coming.size() == cycles) {
      row = std::move(coming.front());
      coming.pop_front();
    }
    for (size_t i = 0; i < row_bytes; i++)
      baco::set_byte(data, static_cast<int>(i) * 8, row.empty() ? static_cast<uint8_t>(random.next()) : row[i]);
  }
  void sample(bool accepted, size_t requested) {
    if (accepted && (requested + 1) * row_bytes > memory.size()) fail("local row out of range", requested);
    coming.emplace_back();
    if (accepted) coming.back().assign(&memory[requested * row_bytes], &memory[requested * row_bytes] + row_bytes);
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 11) return 2;
  std::deque<Command> commands;
  std::ifstream lines(argv[1]);
  for (Command c; lines >> c.funct >> c.rs1 >> c.rs2;) commands.push_back(c);
  std::vector<uint8_t> sp = read_file(argv[2]), acc = read_file(argv[3]), memory = read_file(argv[4]);
  std::string prefix = argv[5];
  baco::Random random(std::strtoull(argv[6], nullptr, 10));
  int hold_back = std::atoi(argv[7]), refuse_local = std::atoi(argv[8]), refuse_beat = std::atoi(argv[9]);
  int latency = std::atoi(argv[10]);

  Vdut dut;
  ReadPort<decltype(dut.sp_read_data)> sp_port{sp, DIM, 2, {}};
  ReadPort<decltype(dut.acc_read_data)> acc_port{acc, DIM * 4, 1, {}};
  std::deque<uint64_t> acknowledge;  // cycle of each beat in flight
  std::deque<int> expected_done;
  Beat pending;
  bool was_pending = false;
  int id = 0;
  uint64_t beats = 0, first = 0, last = 0, quiet = 0, done = 0, issued = 0;

  dut.reset = 1;
  dut.cmd_valid = 0;
  for (int i = 0; i < 4; i++) {
    dut.clock = i & 1;
    dut.eval();
  }
  dut.reset = 0;
  uint64_t total = commands.size();
  bool offered = false;
  for (cycle = 1;; cycle++) {
    if (quiet++ > 20000) fail("nothing happens any more");
    // inputs of this cycle
    if (!offered) offered = !commands.empty() && !random.percent(hold_back);
    dut.cmd_valid = offered;
    if (offered) {
      dut.cmd_id = id;
      dut.cmd_funct = static_cast<uint8_t>(commands.front().funct);
      dut.cmd_rs1 = commands.front().rs1;
      dut.cmd_rs2 = commands.front().rs2;
    } else {
      dut.cmd_funct = random.next() & 0x7f;
      dut.cmd_rs1 = random.next();
      dut.cmd_rs2 = random.next();
    }
    dut.sp_read_ready = !random.percent(refuse_local);
    dut.acc_read_ready = !random.percent(refuse_local);
    dut.sp_write_ready = !random.percent(refuse_local);
    dut.wr_req_ready = !random.percent(refuse_beat);
    dut.wr_ack_valid = !acknowledge.empty() && acknowledge.front() <= cycle;
    sp_port.drive(dut.sp_read_data, random);
    acc_port.drive(dut.acc_read_data, random);
    dut.clock = 0;
    dut.eval();

    // what the outputs say, before the clock edge
    if (dut.requests_in_flight != acknowledge.size()) fail("requests_in_flight", dut.requests_in_flight);
    bool work = done != issued || !acknowledge.empty();
    if (work && !dut.busy) fail("not busy");
    if (dut.done_valid) {
      if (expected_done.empty() || dut.done_id != expected_done.front()) fail("done", dut.done_id);
      expected_done.pop_front();
      done++;
      quiet = 0;
    }
    if (dut.cmd_valid && dut.cmd_ready) {
      expected_done.push_back(id);
      id = (id + 1) % 64;
      issued++;
      commands.pop_front();
      offered = false;
    }
    sp_port.sample(dut.sp_read_valid && dut.sp_read_ready, dut.sp_read_row);
    acc_port.sample(dut.acc_read_valid && dut.acc_read_ready, dut.acc_read_row);
    bool refused = (dut.sp_read_valid && !dut.sp_read_ready) || (dut.acc_read_valid && !dut.acc_read_ready);
    if ((dut.events >> 3 & 1) != refused) fail("event 3", refused);
    if (dut.sp_write_valid && dut.sp_write_ready) {
      for (int i = 0; i < DIM; i++) {
        size_t at = size_t{dut.sp_write_row} * DIM + static_cast<size_t>(i);
        if (!baco::get_bit(dut.sp_write_mask, i)) continue;
        if (at >= sp.size()) fail("scratchpad write out of range", at);
        sp[at] = baco::get_byte(dut.sp_write_data, i * 8);
      }
    }
    Beat beat;
    int enabled = 0;
    if (dut.wr_req_valid) {
      beat.address = dut.wr_req_addr;
      for (int i = 0; i < kBeat; i++) {
        beat.mask[i] = baco::get_bit(dut.wr_req_mask, i);
        beat.data[i] = beat.mask[i] ? baco::get_byte(dut.wr_req_data, i * 8) : 0;
        enabled += beat.mask[i];
      }
      if (beat.address % kBeat || enabled == 0) fail("beat", beat.address);
    }
    if (was_pending && (!dut.wr_req_valid || beat.address != pending.address || beat.data != pending.data ||
                        beat.mask != pending.mask))
      fail("a refused beat changed", pending.address);
    bool accepted = dut.wr_req_valid && dut.wr_req_ready;
    was_pending = dut.wr_req_valid && !accepted;
    pending = beat;
    if ((dut.events >> 6 & 1) != accepted) fail("event 6", accepted);
    if (dut.bytes_sent != (accepted ? enabled : 0)) fail("bytes_sent", dut.bytes_sent);
    if (dut.wr_ack_valid) acknowledge.pop_front();
    if (accepted) {
      for (int i = 0; i < kBeat; i++) {
        uint64_t at = beat.address - kMemoryBase + static_cast<uint64_t>(i);
        if (!beat.mask[i]) continue;
        if (at >= memory.size()) fail("memory write out of range", beat.address);
        memory[at] = beat.data[i];
      }
      uint64_t due = cycle + 1 + random.next() % static_cast<uint32_t>(latency);
      if (!acknowledge.empty() && due <= acknowledge.back()) due = acknowledge.back() + 1;
      acknowledge.push_back(due);
      if (acknowledge.size() > kBeatsInFlight) fail("too many beats in flight", acknowledge.size());
      if (beats++ == 0) first = cycle;
      last = cycle;
      quiet = 0;
    }
    dut.clock = 1;
    dut.eval();
    if (issued == total && done == total && !dut.busy) break;
  }
  if (!acknowledge.empty()) fail("idle before all beats were acknowledged", acknowledge.size());
  write_file(prefix + ".sp", sp);
  write_file(prefix + ".memory", memory);
  std::printf("cycles %" PRIu64 " beats %" PRIu64 " first %" PRIu64 " last %" PRIu64 "\n", cycle, beats, first, last);
  return 0;
}
