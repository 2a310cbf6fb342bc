// Plays a recorded sequence of inputs to baco_counters. Arguments: input file, output file. Input: a record of nine
// uint64 a cycle, in the order of kInputs; output: the value after each cycle that executed a COUNTER_OP.
#include <cstdint>
#include <cstdio>

#include "Vdut.h"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  FILE* in = std::fopen(argv[1], "rb");
  FILE* out = std::fopen(argv[2], "wb");
  if (!in || !out) return 2;
  enum kInputs { kOp, kRs1, kEvents, kOccupancies, kBytesRead, kBytesWritten, kReads, kWrites, kPause, kCount };
  Vdut dut;
  auto step = [&] {
    dut.clock = 0;
    dut.eval();
    dut.clock = 1;
    dut.eval();
  };
  dut.reset = 1;
  dut.op_valid = 0;
  step();
  dut.reset = 0;
  uint64_t record[kCount];
  while (std::fread(record, 8, kCount, in) == kCount) {
    dut.op_valid = record[kOp] != 0;
    dut.op_rs1 = record[kRs1];
    dut.events = record[kEvents];
    dut.occupancy_ld = record[kOccupancies] & 127;
    dut.occupancy_st = record[kOccupancies] >> 7 & 127;
    dut.occupancy_ex = record[kOccupancies] >> 14 & 127;
    dut.bytes_read = static_cast<uint8_t>(record[kBytesRead]);
    dut.bytes_written = static_cast<uint8_t>(record[kBytesWritten]);
    dut.reads_in_flight = record[kReads] & 511;
    dut.writes_in_flight = record[kWrites] & 511;
    step();
    if (record[kOp] == 0) continue;
    uint64_t value = dut.value;
    // the value stays while nothing is asked
    dut.op_valid = 0;
    dut.events = 0;
    dut.bytes_read = dut.bytes_written = 0;
    dut.reads_in_flight = dut.writes_in_flight = 0;
    for (uint64_t i = 0; i < record[kPause]; i++) step();
    if (dut.value != value) return 1;
    std::fwrite(&value, 8, 1, out);
  }
  std::fclose(in);
  return std::fclose(out) == 0 ? 0 : 1;
}
