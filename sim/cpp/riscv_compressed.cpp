// Every 16-bit instruction stands for one 32-bit instruction; the expansion is the C extension's definition.
#include "riscv.h"

namespace baco::riscv {
namespace {

constexpr uint32_t kOpImm = 0x13, kOpImm32 = 0x1b, kOp = 0x33, kOp32 = 0x3b, kLoad = 0x03, kStoreOp = 0x23,
                   kLoadFp = 0x07, kStoreFp = 0x27, kLui = 0x37, kJal = 0x6f, kJalr = 0x67, kBranchOp = 0x63;
constexpr uint32_t kIllegal = 0;

// The 16-bit word, with its fields by bit position.
struct Half {
  uint32_t w;
  uint32_t at(int high, int low) const { return w >> low & ((2u << (high - low)) - 1); }
  uint32_t bit(int i) const { return w >> i & 1; }
  uint32_t rd() const { return at(11, 7); }
  uint32_t rs2() const { return at(6, 2); }
  uint32_t rd_short() const { return 8 + at(4, 2); }   // rd' or rs2'
  uint32_t rs1_short() const { return 8 + at(9, 7); }  // rs1' or rd'
  uint32_t imm6() const { return bit(12) << 5 | at(6, 2); }
  int32_t simm6() const { return static_cast<int32_t>(imm6() << 26) >> 26; }
  uint32_t offset_w() const { return bit(5) << 6 | at(12, 10) << 3 | bit(6) << 2; }
  uint32_t offset_d() const { return at(6, 5) << 6 | at(12, 10) << 3; }
};

uint32_t i_type(int32_t imm, uint32_t rs1, uint32_t funct3, uint32_t rd, uint32_t opcode) {
  return static_cast<uint32_t>(imm) << 20 | rs1 << 15 | funct3 << 12 | rd << 7 | opcode;
}
uint32_t s_type(uint32_t imm, uint32_t rs2, uint32_t rs1, uint32_t funct3, uint32_t opcode) {
  return (imm >> 5 & 0x7f) << 25 | rs2 << 20 | rs1 << 15 | funct3 << 12 | (imm & 31) << 7 | opcode;
}
uint32_t r_type(uint32_t funct7, uint32_t rs2, uint32_t rs1, uint32_t funct3, uint32_t rd, uint32_t opcode) {
  return funct7 << 25 | rs2 << 20 | rs1 << 15 | funct3 << 12 | rd << 7 | opcode;
}
uint32_t load(uint32_t offset, uint32_t rs1, uint32_t width, uint32_t rd, uint32_t opcode) {
  return i_type(static_cast<int32_t>(offset), rs1, width, rd, opcode);
}
uint32_t jal(uint32_t imm, uint32_t rd) {
  return (imm >> 20 & 1) << 31 | (imm >> 1 & 0x3ff) << 21 | (imm >> 11 & 1) << 20 | (imm >> 12 & 0xff) << 12 |
         rd << 7 | kJal;
}
uint32_t branch(uint32_t imm, uint32_t rs1, uint32_t funct3) {  // against x0
  return (imm >> 12 & 1) << 31 | (imm >> 5 & 0x3f) << 25 | rs1 << 15 | funct3 << 12 | (imm >> 1 & 15) << 8 |
         (imm >> 11 & 1) << 7 | kBranchOp;
}

uint32_t quadrant0(Half h) {
  const uint32_t base = h.rs1_short(), data = h.rd_short();
  switch (h.at(15, 13)) {
    case 0: {  // c.addi4spn
      const uint32_t imm = h.at(10, 7) << 6 | h.at(12, 11) << 4 | h.bit(5) << 3 | h.bit(6) << 2;
      return imm == 0 ? kIllegal : i_type(static_cast<int32_t>(imm), 2, 0, data, kOpImm);
    }
    case 1: return load(h.offset_d(), base, 3, data, kLoadFp);       // c.fld
    case 2: return load(h.offset_w(), base, 2, data, kLoad);         // c.lw
    case 3: return load(h.offset_d(), base, 3, data, kLoad);         // c.ld
    case 5: return s_type(h.offset_d(), data, base, 3, kStoreFp);    // c.fsd
    case 6: return s_type(h.offset_w(), data, base, 2, kStoreOp);    // c.sw
    case 7: return s_type(h.offset_d(), data, base, 3, kStoreOp);    // c.sd
    default: return kIllegal;
  }
}

uint32_t arithmetic(Half h) {
  const uint32_t r = h.rs1_short(), s = h.rd_short();
  switch (h.at(11, 10)) {
    case 0: return i_type(static_cast<int32_t>(h.imm6()), r, 5, r, kOpImm);          // c.srli
    case 1: return i_type(static_cast<int32_t>(0x400 | h.imm6()), r, 5, r, kOpImm);  // c.srai
    case 2: return i_type(h.simm6(), r, 7, r, kOpImm);                               // c.andi
    default: break;
  }
  switch (h.bit(12) << 2 | h.at(6, 5)) {
    case 0: return r_type(0x20, s, r, 0, r, kOp);    // c.sub
    case 1: return r_type(0x00, s, r, 4, r, kOp);    // c.xor
    case 2: return r_type(0x00, s, r, 6, r, kOp);    // c.or
    case 3: return r_type(0x00, s, r, 7, r, kOp);    // c.and
    case 4: return r_type(0x20, s, r, 0, r, kOp32);  // c.subw
    case 5: return r_type(0x00, s, r, 0, r, kOp32);  // c.addw
    default: return kIllegal;
  }
}

uint32_t quadrant1(Half h) {
  const uint32_t rd = h.rd();
  switch (h.at(15, 13)) {
    case 0: return i_type(h.simm6(), rd, 0, rd, kOpImm);                              // c.nop, c.addi
    case 1: return rd == 0 ? kIllegal : i_type(h.simm6(), rd, 0, rd, kOpImm32);       // c.addiw
    case 2: return i_type(h.simm6(), 0, 0, rd, kOpImm);                               // c.li
    case 3: {
      if (h.imm6() == 0) return kIllegal;
      if (rd != 2) return static_cast<uint32_t>(h.simm6()) << 12 | rd << 7 | kLui;    // c.lui
      const uint32_t imm = h.bit(12) << 9 | h.at(4, 3) << 7 | h.bit(5) << 6 | h.bit(2) << 5 | h.bit(6) << 4;
      return i_type(static_cast<int32_t>(imm << 22) >> 22, 2, 0, 2, kOpImm);          // c.addi16sp
    }
    case 4: return arithmetic(h);
    case 5: {  // c.j
      const uint32_t imm = h.bit(12) << 11 | h.bit(8) << 10 | h.at(10, 9) << 8 | h.bit(6) << 7 | h.bit(7) << 6 |
                           h.bit(2) << 5 | h.bit(11) << 4 | h.at(5, 3) << 1;
      return jal(static_cast<uint32_t>(static_cast<int32_t>(imm << 20) >> 20), 0);
    }
    default: {  // c.beqz, c.bnez
      const uint32_t imm =
          h.bit(12) << 8 | h.at(6, 5) << 6 | h.bit(2) << 5 | h.at(11, 10) << 3 | h.at(4, 3) << 1;
      const auto offset = static_cast<uint32_t>(static_cast<int32_t>(imm << 23) >> 23);
      return branch(offset, h.rs1_short(), h.bit(13));
    }
  }
}

uint32_t quadrant2(Half h) {
  const uint32_t rd = h.rd(), rs2 = h.rs2();
  const uint32_t load_d = h.at(4, 2) << 6 | h.bit(12) << 5 | h.at(6, 5) << 3;
  const uint32_t load_w = h.at(3, 2) << 6 | h.bit(12) << 5 | h.at(6, 4) << 2;
  const uint32_t store_d = h.at(9, 7) << 6 | h.at(12, 10) << 3;
  const uint32_t store_w = h.at(8, 7) << 6 | h.at(12, 9) << 2;
  switch (h.at(15, 13)) {
    case 0: return i_type(static_cast<int32_t>(h.imm6()), rd, 1, rd, kOpImm);  // c.slli
    case 1: return load(load_d, 2, 3, rd, kLoadFp);                            // c.fldsp
    case 2: return rd == 0 ? kIllegal : load(load_w, 2, 2, rd, kLoad);         // c.lwsp
    case 3: return rd == 0 ? kIllegal : load(load_d, 2, 3, rd, kLoad);         // c.ldsp
    case 4:
      if (rs2 != 0) return r_type(0, rs2, h.bit(12) ? rd : 0, 0, rd, kOp);     // c.add, c.mv
      if (rd != 0) return i_type(0, rd, 0, h.bit(12), kJalr);                  // c.jalr, c.jr
      return h.bit(12) ? 0x00100073u : kIllegal;                               // c.ebreak
    case 5: return s_type(store_d, rs2, 2, 3, kStoreFp);                       // c.fsdsp
    case 6: return s_type(store_w, rs2, 2, 2, kStoreOp);                       // c.swsp
    default: return s_type(store_d, rs2, 2, 3, kStoreOp);                      // c.sdsp
  }
}

}  // namespace

uint32_t expand(uint16_t word) {
  const Half half{word};
  switch (word & 3) {
    case 0: return quadrant0(half);
    case 1: return quadrant1(half);
    case 2: return quadrant2(half);
    default: return kIllegal;  // not a 16-bit instruction
  }
}

}  // namespace baco::riscv
