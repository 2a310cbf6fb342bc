// Drives baco_load with commands from a file against a memory and local memories that answer when they please.
//
// Usage: bench INPUT OUTPUT. All numbers are little-endian.
// INPUT: uint64 header {seed, memory base, memory bytes, commands, latency, jitter, chances in 256 that: a command is
//   offered, a request is accepted, a beat arrives, a scratchpad row, an accumulator row is accepted};
//   memory; scratchpad (SP_ROWS x DIM int8); accumulator (ACC_ROWS x DIM int32); commands (uint64 funct, rs1, rs2).
// OUTPUT: scratchpad; accumulator; per command uint64 {cycle accepted, cycle done}; uint64 request count; requests
//   (uint64 address, bytes). Fails with a message on a broken protocol rule.
#include <verilated.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "Vdut.h"

namespace {

constexpr uint64_t kBeat = DMA_BITS / 8;
uint64_t cycle = 0;

[[noreturn]] void fail(const std::string& message) {
  std::fprintf(stderr, "cycle %llu: %s\n", static_cast<unsigned long long>(cycle), message.c_str());
  std::exit(1);
}

void need(bool condition, const char* message) {
  if (!condition) fail(message);
}

struct Random {
  uint64_t state;
  uint64_t next() {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state >> 16;
  }
  bool chance(uint64_t in_256) { return next() % 256 < in_256; }
};

// A port that must not change while its transfer is refused.
struct Stable {
  bool waiting = false;
  std::vector<uint8_t> seen;
  void check(bool valid, bool ready, const std::vector<uint8_t>& now, const char* message) {
    if (waiting) need(valid && now == seen, message);
    waiting = valid && !ready;
    seen = now;
  }
};

template <class Port>
void append(std::vector<uint8_t>& to, const Port& port, size_t bytes) {
  const uint8_t* from = reinterpret_cast<const uint8_t*>(&port);
  to.insert(to.end(), from, from + bytes);
}

struct Beat {
  uint64_t address, ready_cycle;
  bool last;  // of its request
};

template <class T>
std::vector<T> read(std::FILE* file, uint64_t count) {
  std::vector<T> data(count);
  need(std::fread(data.data(), sizeof(T), count, file) == count, "the input file is too short");
  return data;
}

template <class T>
void write(std::FILE* file, const std::vector<T>& data) {
  need(std::fwrite(data.data(), sizeof(T), data.size(), file) == data.size(), "cannot write the output file");
}

}  // namespace

int main(int argc, char** argv) {
  need(argc == 3, "usage: bench INPUT OUTPUT");
  std::FILE* file = std::fopen(argv[1], "rb");
  need(file != nullptr, "cannot open the input file");
  const auto header = read<uint64_t>(file, 11);
  Random random{header[0] * 2 + 1};
  const uint64_t base = header[1], bytes = header[2], commands = header[3], latency = header[4], jitter = header[5];
  auto memory = read<uint8_t>(file, bytes);
  auto scratchpad = read<int8_t>(file, uint64_t(SP_ROWS) * DIM);
  auto accumulator = read<uint32_t>(file, uint64_t(ACC_ROWS) * DIM);
  const auto command = read<uint64_t>(file, commands * 3);
  std::fclose(file);

  std::vector<uint64_t> times(commands * 2), requests;
  std::deque<Beat> beats;
  uint64_t accepted = 0, done = 0, last_progress = 0, earliest = 0, in_flight = 0;
  bool offering = false, beat_offered = false;
  Stable stable_request, stable_scratchpad, stable_accumulator;

  VerilatedContext context;
  context.randReset(2);
  context.randSeed(static_cast<int>(header[0] % 1000) + 1);
  auto dut = std::make_unique<Vdut>(&context);
  dut->clock = 0, dut->reset = 1, dut->cmd_valid = 0, dut->rd_resp_valid = 0;
  dut->rd_req_ready = dut->sp_write_ready = dut->acc_write_ready = 0;
  for (int i = 0; i < 4; i++) {
    dut->clock = 0, dut->eval();
    dut->clock = 1, dut->eval();
  }
  dut->reset = 0;

  bool idle = false;
  while (!idle) {
    offering = accepted < commands && (offering || random.chance(header[6]));
    dut->cmd_valid = offering;
    if (offering) {
      dut->cmd_id = accepted % 64;
      dut->cmd_funct = static_cast<uint8_t>(command[accepted * 3]);
      dut->cmd_rs1 = command[accepted * 3 + 1];
      dut->cmd_rs2 = command[accepted * 3 + 2];
    }
    dut->rd_req_ready = random.chance(header[7]);
    beat_offered = !beats.empty() && beats.front().ready_cycle <= cycle && (beat_offered || random.chance(header[8]));
    dut->rd_resp_valid = beat_offered;
    if (beat_offered) std::memcpy(&dut->rd_resp_data, &memory[beats.front().address - base], kBeat);
    dut->sp_write_ready = random.chance(header[9]);
    dut->acc_write_ready = random.chance(header[10]);
    dut->clock = 0, dut->eval();

    need(dut->busy || done == accepted, "not busy while a command is not done");
    need(dut->requests_in_flight == in_flight, "requests_in_flight is wrong");
    need(in_flight <= DMA_REQUESTS, "too many requests in flight");
    if (dut->cmd_valid && dut->cmd_ready) {
      times[accepted * 2] = cycle;
      accepted++, last_progress = cycle;
      offering = false;
    }
    std::vector<uint8_t> now;
    append(now, dut->rd_req_addr, sizeof dut->rd_req_addr);
    now.push_back(dut->rd_req_size);
    stable_request.check(dut->rd_req_valid, dut->rd_req_ready, now, "a refused request changed");
    if (dut->rd_resp_valid && dut->rd_resp_ready) {
      if (beats.front().last) in_flight--;
      beats.pop_front();
      beat_offered = false, last_progress = cycle;
    }
    const bool request = dut->rd_req_valid && dut->rd_req_ready;
    const uint64_t size = uint64_t(1) << dut->rd_req_size, address = dut->rd_req_addr;
    need(dut->bytes_requested == (request ? size : 0), "bytes_requested is wrong");
    need((dut->events >> 5 & 1) == request, "event 5 is not the accepted request");
    need((dut->events >> 4 & 1) == (dut->rd_req_valid && !dut->rd_req_ready), "event 4 is not the stalled request");
    need((dut->events >> 3 & 1) || !(in_flight || dut->rd_req_valid), "event 3 is low while reads are active");
    if (request) {
      need(size >= kBeat && (size <= DMA_MAX_BYTES || size == kBeat), "a request of an illegal size");
      need(address % size == 0, "a request is not aligned to its size");
      need(address >= base && address - base + size <= bytes, "a request outside memory");
      requests.push_back(address), requests.push_back(size);
      earliest = std::max(earliest, cycle + latency + (jitter ? random.next() % jitter : 0));
      for (uint64_t b = 0; b < size / kBeat; b++) beats.push_back({address + b * kBeat, earliest, b + 1 == size / kBeat});
      in_flight++, last_progress = cycle;
    }
    now.clear();
    append(now, dut->sp_write_row, sizeof dut->sp_write_row);
    append(now, dut->sp_write_mask, sizeof dut->sp_write_mask);
    append(now, dut->sp_write_data, DIM);
    stable_scratchpad.check(dut->sp_write_valid, dut->sp_write_ready, now, "a refused scratchpad row changed");
    if (dut->sp_write_valid && dut->sp_write_ready) {
      need(dut->sp_write_row < SP_ROWS, "a scratchpad row outside the memory");
      const uint8_t* mask = reinterpret_cast<const uint8_t*>(&dut->sp_write_mask);
      const int8_t* data = reinterpret_cast<const int8_t*>(&dut->sp_write_data);
      for (int i = 0; i < DIM; i++)
        if (mask[i / 8] >> i % 8 & 1) scratchpad[uint64_t(dut->sp_write_row) * DIM + i] = data[i];
      last_progress = cycle;
    }
    now.clear();
    append(now, dut->acc_write_row, sizeof dut->acc_write_row);
    append(now, dut->acc_write_mask, sizeof dut->acc_write_mask);
    append(now, dut->acc_write_data, DIM * 4);
    now.push_back(dut->acc_write_accumulate);
    stable_accumulator.check(dut->acc_write_valid, dut->acc_write_ready, now, "a refused accumulator row changed");
    if (dut->acc_write_valid && dut->acc_write_ready) {
      need(dut->acc_write_row < ACC_ROWS, "an accumulator row outside the memory");
      const uint8_t* mask = reinterpret_cast<const uint8_t*>(&dut->acc_write_mask);
      std::vector<uint32_t> data(DIM);
      std::memcpy(data.data(), &dut->acc_write_data, DIM * 4);
      for (int i = 0; i < DIM; i++) {
        uint32_t& element = accumulator[uint64_t(dut->acc_write_row) * DIM + i];
        if (mask[i / 8] >> i % 8 & 1) element = data[i] + (dut->acc_write_accumulate ? element : 0);
      }
      last_progress = cycle;
    }
    if (dut->done_valid) {
      need(done < accepted && dut->done_id == done % 64, "commands are not done in order");
      times[done * 2 + 1] = cycle;
      done++, last_progress = cycle;
    }
    idle = done == commands && !dut->busy;
    if (cycle - last_progress > 5000) fail("no progress; commands done: " + std::to_string(done));
    dut->clock = 1, dut->eval();
    cycle++;
  }
  need(beats.empty(), "beats were requested and not consumed");

  file = std::fopen(argv[2], "wb");
  need(file != nullptr, "cannot open the output file");
  write(file, scratchpad);
  write(file, accumulator);
  write(file, times);
  write(file, std::vector<uint64_t>{requests.size() / 2});
  write(file, requests);
  std::fclose(file);
  return 0;
}
