// The RV64GC instructions of the host core as data, their decoder, and the expansion of compressed instructions.
//
// Source of all encodings: "The RISC-V Instruction Set Manual", volume I (RV32/64G instruction listings and the C
// extension's tables) and volume II (mret, wfi, sfence.vma).
#pragma once
#include <cstdint>

namespace baco::riscv {

// Which fields an instruction uses and which register file each belongs to.
enum class Format : uint8_t {
  kNone,      // no operands
  kR,         // x[rd], x[rs1], x[rs2]
  kI,         // x[rd], x[rs1], 12-bit immediate
  kShift,     // x[rd], x[rs1], 6-bit shift amount
  kStore,     // x[rs1], x[rs2], 12-bit immediate
  kBranch,    // x[rs1], x[rs2], 13-bit offset
  kUpper,     // x[rd], 20-bit immediate in bits 31..12
  kJump,      // x[rd], 21-bit offset
  kCsr,       // x[rd], x[rs1], CSR number
  kCsrImm,    // x[rd], CSR number, 5-bit immediate (in the rs1 field)
  kLoadF,     // f[rd], x[rs1], 12-bit immediate
  kStoreF,    // x[rs1], f[rs2], 12-bit immediate
  kFused,     // f[rd], f[rs1], f[rs2], f[rs3]
  kFff,       // f[rd], f[rs1], f[rs2]
  kFf,        // f[rd], f[rs1]
  kXff,       // x[rd], f[rs1], f[rs2]
  kXf,        // x[rd], f[rs1]
  kFx,        // f[rd], x[rs1]
  kRocc,      // accelerator command: registers as its xd, xs1, xs2 bits say
};

struct Pattern {
  uint32_t match, mask;
};

constexpr Pattern exact(uint32_t word) { return {word, 0xffffffffu}; }
constexpr Pattern major(uint32_t opcode) { return {opcode, 0x7f}; }
constexpr Pattern minor(uint32_t funct3, uint32_t opcode) { return {funct3 << 12 | opcode, 0x707f}; }
constexpr Pattern full(uint32_t funct7, uint32_t funct3, uint32_t opcode) {
  return {funct7 << 25 | funct3 << 12 | opcode, 0xfe00707fu};
}
constexpr Pattern shift(uint32_t funct6, uint32_t funct3) { return {funct6 << 26 | funct3 << 12 | 0x13, 0xfc00707fu}; }
constexpr Pattern amo(uint32_t funct5, uint32_t width) { return {funct5 << 27 | width << 12 | 0x2f, 0xf800707fu}; }
constexpr Pattern load_reserved(uint32_t width) { return {0x02u << 27 | width << 12 | 0x2f, 0xf9f0707fu}; }
constexpr Pattern fused(uint32_t format, uint32_t opcode) { return {format << 25 | opcode, 0x0600007fu}; }
constexpr Pattern fp(uint32_t funct7) { return {funct7 << 25 | 0x53, 0xfe00007fu}; }  // funct3 is the rounding mode
constexpr Pattern fp1(uint32_t funct7, uint32_t rs2) { return {funct7 << 25 | rs2 << 20 | 0x53, 0xfff0007fu}; }
constexpr Pattern fp3(uint32_t funct7, uint32_t funct3) { return full(funct7, funct3, 0x53); }
constexpr Pattern fp13(uint32_t funct7, uint32_t rs2, uint32_t funct3) {
  return {funct7 << 25 | rs2 << 20 | funct3 << 12 | 0x53, 0xfff0707fu};
}

// X(name, format, pattern), one row an instruction.
#define BACO_RISCV_INSTRUCTIONS(X)              \
  X(LUI, kUpper, major(0x37))                   \
  X(AUIPC, kUpper, major(0x17))                 \
  X(JAL, kJump, major(0x6f))                    \
  X(JALR, kI, minor(0, 0x67))                   \
  X(BEQ, kBranch, minor(0, 0x63))               \
  X(BNE, kBranch, minor(1, 0x63))               \
  X(BLT, kBranch, minor(4, 0x63))               \
  X(BGE, kBranch, minor(5, 0x63))               \
  X(BLTU, kBranch, minor(6, 0x63))              \
  X(BGEU, kBranch, minor(7, 0x63))              \
  X(LB, kI, minor(0, 0x03))                     \
  X(LH, kI, minor(1, 0x03))                     \
  X(LW, kI, minor(2, 0x03))                     \
  X(LD, kI, minor(3, 0x03))                     \
  X(LBU, kI, minor(4, 0x03))                    \
  X(LHU, kI, minor(5, 0x03))                    \
  X(LWU, kI, minor(6, 0x03))                    \
  X(SB, kStore, minor(0, 0x23))                 \
  X(SH, kStore, minor(1, 0x23))                 \
  X(SW, kStore, minor(2, 0x23))                 \
  X(SD, kStore, minor(3, 0x23))                 \
  X(ADDI, kI, minor(0, 0x13))                   \
  X(SLTI, kI, minor(2, 0x13))                   \
  X(SLTIU, kI, minor(3, 0x13))                  \
  X(XORI, kI, minor(4, 0x13))                   \
  X(ORI, kI, minor(6, 0x13))                    \
  X(ANDI, kI, minor(7, 0x13))                   \
  X(SLLI, kShift, shift(0x00, 1))               \
  X(SRLI, kShift, shift(0x00, 5))               \
  X(SRAI, kShift, shift(0x10, 5))               \
  X(ADD, kR, full(0x00, 0, 0x33))               \
  X(SUB, kR, full(0x20, 0, 0x33))               \
  X(SLL, kR, full(0x00, 1, 0x33))               \
  X(SLT, kR, full(0x00, 2, 0x33))               \
  X(SLTU, kR, full(0x00, 3, 0x33))              \
  X(XOR, kR, full(0x00, 4, 0x33))               \
  X(SRL, kR, full(0x00, 5, 0x33))               \
  X(SRA, kR, full(0x20, 5, 0x33))               \
  X(OR, kR, full(0x00, 6, 0x33))                \
  X(AND, kR, full(0x00, 7, 0x33))               \
  X(ADDIW, kI, minor(0, 0x1b))                  \
  X(SLLIW, kShift, full(0x00, 1, 0x1b))         \
  X(SRLIW, kShift, full(0x00, 5, 0x1b))         \
  X(SRAIW, kShift, full(0x20, 5, 0x1b))         \
  X(ADDW, kR, full(0x00, 0, 0x3b))              \
  X(SUBW, kR, full(0x20, 0, 0x3b))              \
  X(SLLW, kR, full(0x00, 1, 0x3b))              \
  X(SRLW, kR, full(0x00, 5, 0x3b))              \
  X(SRAW, kR, full(0x20, 5, 0x3b))              \
  X(MUL, kR, full(0x01, 0, 0x33))               \
  X(MULH, kR, full(0x01, 1, 0x33))              \
  X(MULHSU, kR, full(0x01, 2, 0x33))            \
  X(MULHU, kR, full(0x01, 3, 0x33))             \
  X(DIV, kR, full(0x01, 4, 0x33))               \
  X(DIVU, kR, full(0x01, 5, 0x33))              \
  X(REM, kR, full(0x01, 6, 0x33))               \
  X(REMU, kR, full(0x01, 7, 0x33))              \
  X(MULW, kR, full(0x01, 0, 0x3b))              \
  X(DIVW, kR, full(0x01, 4, 0x3b))              \
  X(DIVUW, kR, full(0x01, 5, 0x3b))             \
  X(REMW, kR, full(0x01, 6, 0x3b))              \
  X(REMUW, kR, full(0x01, 7, 0x3b))             \
  X(LR_W, kR, load_reserved(2))                 \
  X(SC_W, kR, amo(0x03, 2))                     \
  X(AMOSWAP_W, kR, amo(0x01, 2))                \
  X(AMOADD_W, kR, amo(0x00, 2))                 \
  X(AMOXOR_W, kR, amo(0x04, 2))                 \
  X(AMOAND_W, kR, amo(0x0c, 2))                 \
  X(AMOOR_W, kR, amo(0x08, 2))                  \
  X(AMOMIN_W, kR, amo(0x10, 2))                 \
  X(AMOMAX_W, kR, amo(0x14, 2))                 \
  X(AMOMINU_W, kR, amo(0x18, 2))                \
  X(AMOMAXU_W, kR, amo(0x1c, 2))                \
  X(LR_D, kR, load_reserved(3))                 \
  X(SC_D, kR, amo(0x03, 3))                     \
  X(AMOSWAP_D, kR, amo(0x01, 3))                \
  X(AMOADD_D, kR, amo(0x00, 3))                 \
  X(AMOXOR_D, kR, amo(0x04, 3))                 \
  X(AMOAND_D, kR, amo(0x0c, 3))                 \
  X(AMOOR_D, kR, amo(0x08, 3))                  \
  X(AMOMIN_D, kR, amo(0x10, 3))                 \
  X(AMOMAX_D, kR, amo(0x14, 3))                 \
  X(AMOMINU_D, kR, amo(0x18, 3))                \
  X(AMOMAXU_D, kR, amo(0x1c, 3))                \
  X(FLW, kLoadF, minor(2, 0x07))                \
  X(FLD, kLoadF, minor(3, 0x07))                \
  X(FSW, kStoreF, minor(2, 0x27))               \
  X(FSD, kStoreF, minor(3, 0x27))               \
  X(FMADD_S, kFused, fused(0, 0x43))            \
  X(FMSUB_S, kFused, fused(0, 0x47))            \
  X(FNMSUB_S, kFused, fused(0, 0x4b))           \
  X(FNMADD_S, kFused, fused(0, 0x4f))           \
  X(FMADD_D, kFused, fused(1, 0x43))            \
  X(FMSUB_D, kFused, fused(1, 0x47))            \
  X(FNMSUB_D, kFused, fused(1, 0x4b))           \
  X(FNMADD_D, kFused, fused(1, 0x4f))           \
  X(FADD_S, kFff, fp(0x00))                     \
  X(FSUB_S, kFff, fp(0x04))                     \
  X(FMUL_S, kFff, fp(0x08))                     \
  X(FDIV_S, kFff, fp(0x0c))                     \
  X(FSQRT_S, kFf, fp1(0x2c, 0))                 \
  X(FSGNJ_S, kFff, fp3(0x10, 0))                \
  X(FSGNJN_S, kFff, fp3(0x10, 1))               \
  X(FSGNJX_S, kFff, fp3(0x10, 2))               \
  X(FMIN_S, kFff, fp3(0x14, 0))                 \
  X(FMAX_S, kFff, fp3(0x14, 1))                 \
  X(FLE_S, kXff, fp3(0x50, 0))                  \
  X(FLT_S, kXff, fp3(0x50, 1))                  \
  X(FEQ_S, kXff, fp3(0x50, 2))                  \
  X(FCVT_W_S, kXf, fp1(0x60, 0))                \
  X(FCVT_WU_S, kXf, fp1(0x60, 1))               \
  X(FCVT_L_S, kXf, fp1(0x60, 2))                \
  X(FCVT_LU_S, kXf, fp1(0x60, 3))               \
  X(FCVT_S_W, kFx, fp1(0x68, 0))                \
  X(FCVT_S_WU, kFx, fp1(0x68, 1))               \
  X(FCVT_S_L, kFx, fp1(0x68, 2))                \
  X(FCVT_S_LU, kFx, fp1(0x68, 3))               \
  X(FMV_X_W, kXf, fp13(0x70, 0, 0))             \
  X(FCLASS_S, kXf, fp13(0x70, 0, 1))            \
  X(FMV_W_X, kFx, fp13(0x78, 0, 0))             \
  X(FADD_D, kFff, fp(0x01))                     \
  X(FSUB_D, kFff, fp(0x05))                     \
  X(FMUL_D, kFff, fp(0x09))                     \
  X(FDIV_D, kFff, fp(0x0d))                     \
  X(FSQRT_D, kFf, fp1(0x2d, 0))                 \
  X(FSGNJ_D, kFff, fp3(0x11, 0))                \
  X(FSGNJN_D, kFff, fp3(0x11, 1))               \
  X(FSGNJX_D, kFff, fp3(0x11, 2))               \
  X(FMIN_D, kFff, fp3(0x15, 0))                 \
  X(FMAX_D, kFff, fp3(0x15, 1))                 \
  X(FLE_D, kXff, fp3(0x51, 0))                  \
  X(FLT_D, kXff, fp3(0x51, 1))                  \
  X(FEQ_D, kXff, fp3(0x51, 2))                  \
  X(FCVT_W_D, kXf, fp1(0x61, 0))                \
  X(FCVT_WU_D, kXf, fp1(0x61, 1))               \
  X(FCVT_L_D, kXf, fp1(0x61, 2))                \
  X(FCVT_LU_D, kXf, fp1(0x61, 3))               \
  X(FCVT_D_W, kFx, fp1(0x69, 0))                \
  X(FCVT_D_WU, kFx, fp1(0x69, 1))               \
  X(FCVT_D_L, kFx, fp1(0x69, 2))                \
  X(FCVT_D_LU, kFx, fp1(0x69, 3))               \
  X(FCVT_S_D, kFf, fp1(0x20, 1))                \
  X(FCVT_D_S, kFf, fp1(0x21, 0))                \
  X(FMV_X_D, kXf, fp13(0x71, 0, 0))             \
  X(FCLASS_D, kXf, fp13(0x71, 0, 1))            \
  X(FMV_D_X, kFx, fp13(0x79, 0, 0))             \
  X(CSRRW, kCsr, minor(1, 0x73))                \
  X(CSRRS, kCsr, minor(2, 0x73))                \
  X(CSRRC, kCsr, minor(3, 0x73))                \
  X(CSRRWI, kCsrImm, minor(5, 0x73))            \
  X(CSRRSI, kCsrImm, minor(6, 0x73))            \
  X(CSRRCI, kCsrImm, minor(7, 0x73))            \
  X(ECALL, kNone, exact(0x00000073))            \
  X(EBREAK, kNone, exact(0x00100073))           \
  X(MRET, kNone, exact(0x30200073))             \
  X(WFI, kNone, exact(0x10500073))              \
  X(SFENCE_VMA, kR, (Pattern{0x12000073, 0xfe007fffu})) \
  X(FENCE, kNone, minor(0, 0x0f))               \
  X(FENCE_I, kNone, minor(1, 0x0f))             \
  X(ACCELERATOR, kRocc, major(0x7b))

enum class Op : uint8_t {
  ILLEGAL,
#define BACO_NAME(name, format, pattern) name,
  BACO_RISCV_INSTRUCTIONS(BACO_NAME)
#undef BACO_NAME
  WATCHED,  // stands in the host core's decoded form for an instruction that is to be noticed (host.h)
};

// Register numbers of a decoded instruction: x0..x31 are 0..31, f0..f31 are 32..63. Unused sources read x0, and
// results for x0 go to kNowhere, so neither needs a test when executed.
constexpr uint8_t kFloat = 32;
constexpr uint8_t kNowhere = 64;
constexpr int kRegisters = 65;

struct Decoded {
  Op op = Op::ILLEGAL;
  uint8_t length = 4;   // bytes: 2 or 4
  uint8_t rd = kNowhere;
  uint8_t rs1 = 0, rs2 = 0, rs3 = 0;
  uint8_t funct3 = 0;   // rounding mode, or xd/xs1/xs2 of an accelerator command
  uint8_t extra = 0;    // funct7 of an accelerator command, immediate of a CSR instruction
  int32_t imm = 0;      // sign extended; CSR number
  uint32_t word = 0;    // as fetched (16 bits if compressed), for trap values
};

// A 32-bit instruction. Op::ILLEGAL if it is none of RV64GC's.
Decoded decode(uint32_t word);

// The 32-bit equivalent of a 16-bit instruction; 0, which is illegal, if it is reserved or undefined.
uint32_t expand(uint16_t word);

// True if `word` is the first half of a 32-bit instruction.
inline bool is_long(uint16_t word) { return (word & 3) == 3; }

const char* name(Op op);

}  // namespace baco::riscv
