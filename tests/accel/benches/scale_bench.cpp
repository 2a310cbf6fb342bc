// Streams vectors through baco_scale, with pauses in between, and writes what comes out.
// Arguments: input file, output file. Input: records of {uint32 scale bits, int32 element[LANES]}; output: int32
// elements. Fails (exit status 1) when a result does not appear exactly three cycles after its vector.
#include <cstdint>
#include <cstdio>
#include <vector>

#include "Vdut.h"
#include "ports.h"

namespace {

constexpr int kLatency = 3;

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  FILE* in = std::fopen(argv[1], "rb");
  FILE* out = std::fopen(argv[2], "wb");
  if (!in || !out) return 2;
  Vdut dut;
  std::vector<uint32_t> record(1 + LANES);
  bool valid[kLatency + 1] = {};
  baco::Random random(1);
  bool more = true;
  for (int idle = 0; idle <= kLatency;) {
    bool pause = random.percent(6);
    if (more && !pause) more = std::fread(record.data(), 4, record.size(), in) == record.size();
    bool send = more && !pause;
    idle = more ? 0 : idle + 1;
    dut.in_valid = send;
    dut.in_scale = send ? record[0] : 0x7fc00000u;
    for (int i = 0; i < LANES; i++) baco::set_integer(dut.in_data, i * IN_BITS, IN_BITS, send ? record[1 + i] : random.next());
    dut.clock = 0;
    dut.eval();
    dut.clock = 1;
    dut.eval();
    for (int i = kLatency; i > 0; i--) valid[i] = valid[i - 1];
    valid[1] = send;
    if (dut.out_valid != valid[kLatency]) {
      std::fprintf(stderr, "out_valid is %d\n", dut.out_valid);
      return 1;
    }
    if (!dut.out_valid) continue;
    for (int i = 0; i < LANES; i++) {
      int32_t value = baco::get_signed(dut.out_data, i * OUT_BITS, OUT_BITS);
      std::fwrite(&value, 4, 1, out);
    }
  }
  std::fclose(in);
  return std::fclose(out) == 0 ? 0 : 1;
}
