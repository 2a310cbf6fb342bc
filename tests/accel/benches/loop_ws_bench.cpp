// Feeds baco_loop_ws with commands from a file while room in the reservation station comes and goes at random.
//
// Usage: bench INPUT OUTPUT. All numbers are little-endian.
// INPUT: uint64 header {seed, commands, chances in 256 that in a cycle: a command is offered, a load, a product, a
//   store has room, a command without class is taken}; commands (uint64 funct, rs1, rs2, rd + 256 * xd).
// OUTPUT: for each command that comes out uint64 {cycle, commands taken so far, funct, rs1, rs2, rd + 256 * xd + 65536 *
// error}.
// The configuration around the unroller is always what the loop at the door wants.
// Fails with a message on a broken protocol rule or when nothing moves any more.
#include <verilated.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "Vdut.h"

namespace {

uint64_t cycle = 0;

void need(bool condition, const char* message) {
  if (condition) return;
  std::fprintf(stderr, "cycle %llu: %s\n", static_cast<unsigned long long>(cycle), message);
  std::exit(1);
}

struct Random {
  uint64_t state;
  uint64_t next() {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state >> 16;
  }
  bool chance(uint64_t in_256) { return next() % 256 < in_256; }
};

std::vector<uint64_t> read(std::FILE* file, uint64_t count) {
  std::vector<uint64_t> data(count);
  need(std::fread(data.data(), 8, count, file) == count, "the input file is too short");
  return data;
}

}  // namespace

int main(int argc, char** argv) {
  need(argc == 3, "usage: bench INPUT OUTPUT");
  std::FILE* file = std::fopen(argv[1], "rb");
  need(file != nullptr, "cannot open the input file");
  const auto header = read(file, 7);
  const uint64_t commands = header[1];
  const auto command = read(file, commands * 4);
  std::fclose(file);
  Random random{header[0] * 2 + 1};
  std::vector<uint64_t> output;

  VerilatedContext context;
  context.randReset(2);
  context.randSeed(static_cast<int>(header[0] % 1000) + 1);
  auto dut = std::make_unique<Vdut>(&context);
  dut->reset = 1, dut->in_valid = 0, dut->out_ready = 0;
  dut->ld_space = dut->ex_space = dut->st_space = 0;
  dut->in_error = dut->in_loop = dut->preloaded = 0;
  dut->ld_set = dut->ld_plain = 7, dut->ex_set = dut->ex_ws = dut->ex_stride_a = dut->ex_stride_c = 1;
  dut->st_set = dut->st_plain = 1;
  for (int i = 0; i < 4; i++) {
    dut->clock = 0, dut->eval();
    dut->clock = 1, dut->eval();
  }
  dut->reset = 0;

  uint64_t taken = 0, last_progress = 0;
  while (taken < commands || dut->busy) {
    dut->in_valid = taken < commands && random.chance(header[2]);
    if (taken < commands) {
      dut->in_funct = static_cast<uint8_t>(command[taken * 4]);
      dut->in_rs1 = command[taken * 4 + 1];
      dut->in_rs2 = command[taken * 4 + 2];
      dut->in_rd = command[taken * 4 + 3] & 31;
      dut->in_xd = command[taken * 4 + 3] >> 8 & 1;
      dut->ld_shrink = 3 | (dut->in_rs1 >> 2 & 1) << 2;  // of D as low_d says, of an addition's operands always
    }
    const bool load = random.chance(header[3]), product = random.chance(header[4]), store = random.chance(header[5]);
    const bool other = random.chance(header[6]);
    dut->ld_space = load, dut->ex_space = product, dut->st_space = store;
    dut->out_ready = 0;
    dut->clock = 0, dut->eval();
    const uint64_t funct = dut->out_funct;
    const bool valid = dut->out_valid, busy = dut->busy;
    bool room = other;
    if (busy) {
      room = funct == 4 || funct == 5 || funct == 6 ? product : funct == 3 || funct == 23 ? store : load;
      need(!valid || room, "a command is offered though its class has no room");
    }
    dut->out_ready = room, dut->eval();
    need(dut->out_valid == valid && dut->out_funct == funct, "out_ready changes what is offered");
    if (valid && room) {
      output.insert(output.end(), {cycle, taken, funct, dut->out_rs1, dut->out_rs2, uint64_t(dut->out_rd) + 256 * dut->out_xd + 65536 * dut->out_error});
      need(busy || (dut->in_valid && dut->in_ready), "a command passes without being taken");
      last_progress = cycle;
    }
    if (dut->in_valid && dut->in_ready) taken++, last_progress = cycle;
    dut->clock = 1, dut->eval();
    cycle++;
    need(cycle - last_progress < 20000, "nothing moves any more");
  }
  file = std::fopen(argv[2], "wb");
  need(file != nullptr, "cannot open the output file");
  need(std::fwrite(output.data(), 8, output.size(), file) == output.size(), "cannot write the output file");
  std::fclose(file);
  return 0;
}
