// Feeds commands to the convolution unroller and prints those it gives out.
//
// usage: bench COMMANDS SEED OFFER LOAD EXECUTE STORE READY
// COMMANDS: a file with one "funct rs1 rs2" a line, numbers in hexadecimal. The other numbers are percentages of
// cycles, at random: in which a command is offered, in which each class has space, in which the output is ready.
// The configuration around the unroller is what the loop accepted last wants, but for what is not built.
// Output: one "cycle funct rs1 rs2 trial" for every command given out; the last line is "end" and the cycle in which all
// was idle, "error" with the code, rs1 and rs2 of a run command that is refused, or "hang".
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

#include "Vdut.h"
#include "verilated.h"

double sc_time_stamp() { return 0; }

namespace {

struct Entry {
  unsigned funct;
  uint64_t rs1, rs2;
};

int class_of(unsigned funct, uint64_t rs1) {  // 0 load, 1 execute, 2 store
  if (funct == 0) return (rs1 & 3) == 0 ? 1 : (rs1 & 3) == 1 ? 0 : 2;
  if (funct == 1 || funct == 2 || funct == 14) return 0;
  return funct == 3 || funct == 23 ? 2 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 8) return 2;
  std::vector<Entry> commands;
  FILE* file = std::fopen(argv[1], "r");
  if (!file) return 2;
  Entry entry;
  while (std::fscanf(file, "%x %" SCNx64 " %" SCNx64, &entry.funct, &entry.rs1, &entry.rs2) == 3) commands.push_back(entry);
  std::fclose(file);
  std::mt19937 random(std::atoi(argv[2]));
  auto chance = [&](int argument) { return static_cast<int>(random() % 100) < std::atoi(argv[argument]); };

  auto context = std::make_unique<VerilatedContext>();
  context->randReset(2);
  auto dut = std::make_unique<Vdut>(context.get());
  auto tick = [&] {
    dut->clock = 1;
    dut->eval();
    dut->clock = 0;
    dut->eval();
  };
  dut->clock = 0;
  dut->reset = 1;
  dut->in_valid = 0;
  dut->out_ready = 0;
  dut->ld_space = dut->ex_space = dut->st_space = 0;
  dut->preloaded = 0;
  dut->ex_set = dut->ex_ws = dut->st_set = dut->st_plain = 1;
  dut->eval();
  for (int i = 0; i < 3; i++) tick();
  dut->reset = 0;

  size_t next = 0;
  uint64_t cycle = 0, quiet = 0;
  bool offered = false;
  unsigned stride = 0;
  for (;; cycle++) {
    if (!offered) offered = next < commands.size() && chance(3);
    dut->in_valid = offered;
    if (offered) {
      dut->in_funct = commands[next].funct;
      dut->in_rs1 = commands[next].rs1;
      dut->in_rs2 = commands[next].rs2;
      dut->in_rd = next & 31;
      dut->in_xd = commands[next].funct == 126;
    }
    dut->ld_space = chance(4);
    dut->ex_space = chance(5);
    dut->st_space = chance(6);
    bool space[3] = {dut->ld_space != 0, dut->ex_space != 0, dut->st_space != 0};
    bool ready = chance(7);
    dut->out_ready = 0;
    dut->eval();
    bool valid_before = dut->out_valid;
    dut->out_ready = ready;
    dut->eval();
    if (dut->out_valid != valid_before) {
      std::printf("valid depends on ready\n");
      return 1;
    }
    bool accepted = dut->in_valid && dut->in_ready;
    if (dut->out_valid && dut->out_ready && dut->out_error) {
      std::printf("error %u %" PRIx64 " %" PRIx64 "\n", dut->out_error, static_cast<uint64_t>(dut->out_rs1),
                  static_cast<uint64_t>(dut->out_rs2));
      return 0;
    }
    if (dut->out_valid && dut->out_ready) {
      bool passed = accepted && !(commands[next].funct >= 15 && commands[next].funct <= 21);
      if (!passed && !space[class_of(dut->out_funct, dut->out_rs1)]) {
        std::printf("a command without space for its class\n");
        return 1;
      }
      if (passed ? dut->out_rd != (next & 31) || dut->out_xd != dut->in_xd : dut->out_xd) {
        std::printf("wrong rd or xd\n");
        return 1;
      }
      if (passed == (dut->out_loop >> 2)) {
        std::printf("wrong out_loop\n");
        return 1;
      }
      std::printf("%" PRIu64 " %x %" PRIx64 " %" PRIx64 " %d\n", cycle, static_cast<unsigned>(dut->out_funct),
                  static_cast<uint64_t>(dut->out_rs1), static_cast<uint64_t>(dut->out_rs2), dut->out_trial);
      quiet = 0;
    }
    const Entry taken = accepted ? commands[next] : Entry{};
    if (accepted) {
      next++;
      offered = false;
      quiet = 0;
    }
    if (next == commands.size() && !dut->busy && quiet > 0) {  // not in the cycle of the last acceptance
      std::printf("end %" PRIu64 "\n", cycle);
      return 0;
    }
    if (++quiet > 20000) {
      std::printf("hang\n");
      return 0;
    }
    tick();
    if (taken.funct == 16) stride = taken.rs2 >> 48 & 255;
    if (taken.funct == 15) {
#ifdef BACO_TRAINING_CONVS
      const bool training = true;
#else
      const bool training = false;
#endif
      dut->ex_transposes = training ? (taken.rs1 >> 4 & 1) << 1 | (taken.rs1 >> 5 & 1) : 0;
      dut->ex_stride_a = stride >> (taken.rs2 >> 1 & 1);
      dut->ex_stride_c = training && taken.rs2 >> 2 & 1 ? 2 : 1;
    }
  }
}
