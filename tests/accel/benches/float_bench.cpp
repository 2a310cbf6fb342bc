// Puts operands through a combinational module of floating point and writes what it says.
// Arguments: input file, output file. Input: records of two uint32 operands; output: uint32. ADD, PRODUCT, NARROW (whose second
// operand is `relu`, with `power` from bit 8 on) or ELEMENT (a code and its format from bit 8 on, and a power) says which module.
#include <cstdint>
#include <cstdio>

#include "Vdut.h"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  FILE* in = std::fopen(argv[1], "rb");
  FILE* out = std::fopen(argv[2], "wb");
  if (!in || !out) return 2;
  Vdut dut;
  uint32_t record[2];
  while (std::fread(record, 4, 2, in) == 2) {
#ifdef ELEMENT
    dut.code = record[0] & 255;
    dut.format = record[0] >> 8;
    dut.power = record[1];
    dut.eval();
    uint32_t value = dut.number;
#else
    dut.x = record[0];
#ifdef NARROW
    dut.relu = record[1] & 1;
    dut.power = record[1] >> 8 & 255;
    dut.eval();
    uint32_t value = dut.code;
#else
    dut.y = record[1];
    dut.eval();
#ifdef ADD
    uint32_t value = dut.sum;
#else
    uint32_t value = dut.product;
#endif
#endif
#endif
    std::fwrite(&value, 4, 1, out);
  }
  std::fclose(in);
  return std::fclose(out) == 0 ? 0 : 1;
}
