// Streams vectors through baco_scale, with pauses in between, and writes what comes out.
// Arguments: input file, output file. Input: records of {uint32 scale bits, int32 element[LANES]}; output: int32
// elements. Fails (exit status 1) when a result does not appear exactly three cycles after its vector.
#include <cstdint>
#include <cstdio>
#include <vector>

#include "Vdut.h"

namespace {

constexpr int kLatency = 3;

template <class Port>
void put(Port& port, int bit, int bits, uint32_t value) {  // ports up to 64 bits are integers, others arrays of words
  for (int i = 0; i < bits; i++, bit++) {
    uint64_t one = value >> i & 1;
    if constexpr (std::is_integral_v<Port>) {
      port = static_cast<Port>((port & ~(uint64_t{1} << bit)) | one << bit);
    } else {
      port[bit / 32] = (port[bit / 32] & ~(1u << bit % 32)) | static_cast<uint32_t>(one) << bit % 32;
    }
  }
}

template <class Port>
int32_t get(const Port& port, int bit, int bits) {
  uint32_t value = 0;
  for (int i = 0; i < bits; i++, bit++) {
    uint32_t one;
    if constexpr (std::is_integral_v<Port>) {
      one = port >> bit & 1;
    } else {
      one = port[bit / 32] >> bit % 32 & 1;
    }
    value |= one << i;
  }
  return static_cast<int32_t>(value << (32 - bits)) >> (32 - bits);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  FILE* in = std::fopen(argv[1], "rb");
  FILE* out = std::fopen(argv[2], "wb");
  if (!in || !out) return 2;
  Vdut dut;
  std::vector<uint32_t> record(1 + LANES);
  bool valid[kLatency + 1] = {};
  uint32_t random = 1;
  bool more = true;
  for (int idle = 0; idle <= kLatency;) {
    random = random * 1664525u + 1013904223u;
    bool pause = (random >> 28) == 0;
    if (more && !pause) more = std::fread(record.data(), 4, record.size(), in) == record.size();
    bool send = more && !pause;
    idle = more ? 0 : idle + 1;
    dut.in_valid = send;
    dut.in_scale = send ? record[0] : 0x7fc00000u;
    for (int i = 0; i < LANES; i++) put(dut.in_data, i * IN_BITS, IN_BITS, send ? record[1 + i] : random);
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
      int32_t value = get(dut.out_data, i * OUT_BITS, OUT_BITS);
      std::fwrite(&value, 4, 1, out);
    }
  }
  std::fclose(in);
  return std::fclose(out) == 0 ? 0 : 1;
}
