#include <array>
#include <vector>

#include "riscv.h"

namespace baco::riscv {
namespace {

struct Row {
  Op op;
  const char* name;
  Format format;
  Pattern pattern;
};

constexpr Row kRows[] = {
#define BACO_ROW(name, format, pattern) {Op::name, #name, Format::format, pattern},
    BACO_RISCV_INSTRUCTIONS(BACO_ROW)
#undef BACO_ROW
};

// Rows by bits 6..2, the major opcode.
const std::array<std::vector<const Row*>, 32>& rows_by_opcode() {
  static const auto table = [] {
    std::array<std::vector<const Row*>, 32> rows;
    for (const Row& row : kRows) rows[row.pattern.match >> 2 & 31].push_back(&row);
    return rows;
  }();
  return table;
}

uint32_t bits(uint32_t word, int high, int low) { return word >> low & ((2u << (high - low)) - 1); }

int32_t sign_extend(uint32_t value, int width) {
  return static_cast<int32_t>(value << (32 - width)) >> (32 - width);
}

int32_t immediate_i(uint32_t word) { return sign_extend(bits(word, 31, 20), 12); }
int32_t immediate_s(uint32_t word) { return sign_extend(bits(word, 31, 25) << 5 | bits(word, 11, 7), 12); }
int32_t immediate_b(uint32_t word) {
  return sign_extend(
      bits(word, 31, 31) << 12 | bits(word, 7, 7) << 11 | bits(word, 30, 25) << 5 | bits(word, 11, 8) << 1, 13);
}
int32_t immediate_j(uint32_t word) {
  return sign_extend(
      bits(word, 31, 31) << 20 | bits(word, 19, 12) << 12 | bits(word, 20, 20) << 11 | bits(word, 30, 21) << 1, 21);
}

uint8_t destination(uint32_t number) { return static_cast<uint8_t>(number == 0 ? kNowhere : number); }

}  // namespace

Decoded decode(uint32_t word) {
  Decoded d;
  d.word = word;
  if ((word & 3) != 3) return d;
  const Row* row = nullptr;
  for (const Row* candidate : rows_by_opcode()[word >> 2 & 31]) {
    if ((word & candidate->pattern.mask) == candidate->pattern.match) {
      row = candidate;
      break;
    }
  }
  if (row == nullptr) return d;
  d.op = row->op;
  d.funct3 = static_cast<uint8_t>(bits(word, 14, 12));
  const auto rd = static_cast<uint8_t>(bits(word, 11, 7));
  const auto rs1 = static_cast<uint8_t>(bits(word, 19, 15));
  const auto rs2 = static_cast<uint8_t>(bits(word, 24, 20));
  const auto frd = static_cast<uint8_t>(kFloat + rd), frs1 = static_cast<uint8_t>(kFloat + rs1),
             frs2 = static_cast<uint8_t>(kFloat + rs2);
  switch (row->format) {
    case Format::kNone:
      break;
    case Format::kR:
      d.rd = destination(rd), d.rs1 = rs1, d.rs2 = rs2;
      break;
    case Format::kI:
      d.rd = destination(rd), d.rs1 = rs1, d.imm = immediate_i(word);
      break;
    case Format::kShift:
      d.rd = destination(rd), d.rs1 = rs1, d.imm = static_cast<int32_t>(bits(word, 25, 20));
      break;
    case Format::kStore:
      d.rs1 = rs1, d.rs2 = rs2, d.imm = immediate_s(word);
      break;
    case Format::kBranch:
      d.rs1 = rs1, d.rs2 = rs2, d.imm = immediate_b(word);
      break;
    case Format::kUpper:
      d.rd = destination(rd), d.imm = static_cast<int32_t>(word & 0xfffff000u);
      break;
    case Format::kJump:
      d.rd = destination(rd), d.imm = immediate_j(word);
      break;
    case Format::kCsr:
      d.rd = destination(rd), d.rs1 = rs1, d.imm = static_cast<int32_t>(bits(word, 31, 20));
      break;
    case Format::kCsrImm:
      d.rd = destination(rd), d.extra = rs1, d.imm = static_cast<int32_t>(bits(word, 31, 20));
      break;
    case Format::kLoadF:
      d.rd = frd, d.rs1 = rs1, d.imm = immediate_i(word);
      break;
    case Format::kStoreF:
      d.rs1 = rs1, d.rs2 = frs2, d.imm = immediate_s(word);
      break;
    case Format::kFused:
      d.rd = frd, d.rs1 = frs1, d.rs2 = frs2, d.rs3 = static_cast<uint8_t>(kFloat + bits(word, 31, 27));
      break;
    case Format::kFff:
      d.rd = frd, d.rs1 = frs1, d.rs2 = frs2;
      break;
    case Format::kFf:
      d.rd = frd, d.rs1 = frs1;
      break;
    case Format::kXff:
      d.rd = destination(rd), d.rs1 = frs1, d.rs2 = frs2;
      break;
    case Format::kXf:
      d.rd = destination(rd), d.rs1 = frs1;
      break;
    case Format::kFx:
      d.rd = frd, d.rs1 = rs1;
      break;
    case Format::kRocc:
      // rs2 without rs1 is no RoCC format (Rocket does not decode it)
      if ((d.funct3 & 3) == 1) {
        d.op = Op::ILLEGAL;
        break;
      }
      d.extra = static_cast<uint8_t>(bits(word, 31, 25));
      if (d.funct3 & 4) d.rd = destination(rd);
      if (d.funct3 & 2) d.rs1 = rs1;
      if (d.funct3 & 1) d.rs2 = rs2;
      break;
  }
  return d;
}

const char* name(Op op) {
  if (op == Op::ILLEGAL) return "ILLEGAL";
  if (op == Op::WATCHED) return "WATCHED";
  return kRows[static_cast<int>(op) - 1].name;
}

}  // namespace baco::riscv
