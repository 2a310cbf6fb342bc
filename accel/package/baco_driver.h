// Commands of an accelerator from C, on whichever way it is reached:
//   BACO_AXI4 defined: by the registers of baco_axi4; BACO_AXI4 is the address of the first one (registers.md has them all).
//     Systems that reach registers otherwise define BACO_READ(offset) and BACO_WRITE(offset, value) before.
//   else: by the custom instruction 3 of a RISC-V core of 64 bits with a RoCC port.
//
// Addresses in operands are physical on AXI4: what the accelerator's manager puts on the bus. Nothing there looks into the
// processor's caches: write back what the accelerator is to read, and invalidate what it wrote, as your system does that.
#ifndef BACO_DRIVER_H
#define BACO_DRIVER_H
#include <stdint.h>

#ifdef BACO_AXI4
#include "baco_registers.h"

#ifndef BACO_READ
#define BACO_READ(offset) (*(volatile const uint32_t*)((uintptr_t)(BACO_AXI4) + (offset)))
#define BACO_WRITE(offset, value) (*(volatile uint32_t*)((uintptr_t)(BACO_AXI4) + (offset)) = (value))
#endif
#define BACO_FIELD(word, field) ((uint32_t)(word) >> BACO_AXI_##field & BACO_AXI_##field##_MASK)
#define BACO_BIT(field) ((uint32_t)1 << BACO_AXI_##field)

// What went wrong, as baco_problem_of tells it.
struct baco_problem {
  unsigned illegal;       // 1: a command was illegal
  unsigned code, funct;   //   why (commands.md), its function code
  uint64_t rs1, rs2;      //   its operands
  unsigned bus;           // AXI's response to an access of main memory that failed: 2 SLVERR, 3 DECERR; 0: none did
  unsigned write;         //   1: a write
  uint64_t address;       //   of its burst
};

static inline uint64_t baco_read_64(unsigned low) {
  uint64_t value = BACO_READ(low);
  return value | (uint64_t)BACO_READ(low + 4) << 32;
}

// 1 if there is an accelerator behind the registers.
static inline int baco_present(void) { return BACO_READ(BACO_AXI_ID) == BACO_AXI_IDENTIFIER; }

static inline void baco_send(unsigned funct, uint64_t rs1, uint64_t rs2, unsigned result) {
  while (BACO_FIELD(BACO_READ(BACO_AXI_STATUS), STATUS_FREE) == 0) {}  // rather here than on the bus
  BACO_WRITE(BACO_AXI_RS1_LOW, (uint32_t)rs1);
  BACO_WRITE(BACO_AXI_RS1_HIGH, (uint32_t)(rs1 >> 32));
  BACO_WRITE(BACO_AXI_RS2_LOW, (uint32_t)rs2);
  BACO_WRITE(BACO_AXI_RS2_HIGH, (uint32_t)(rs2 >> 32));
  __sync_synchronize();  // what the command reads in memory is there
  BACO_WRITE(BACO_AXI_COMMAND, (uint32_t)(funct | result << BACO_AXI_COMMAND_RESULT));
}

// Send a command.
static inline void baco_command(unsigned funct, uint64_t rs1, uint64_t rs2) { baco_send(funct, rs1, rs2, 0); }

// Send a command that gives a result, and wait for that.
static inline uint64_t baco_command_result(unsigned funct, uint64_t rs1, uint64_t rs2) {
  uint64_t value;
  baco_send(funct, rs1, rs2, 1);
  while (!BACO_FIELD(BACO_READ(BACO_AXI_STATUS), STATUS_HAS_RESULT)) {}
  value = baco_read_64(BACO_AXI_RESULT_LOW);
  BACO_WRITE(BACO_AXI_CONTROL, BACO_BIT(CONTROL_TAKE_RESULT));
  return value;
}

// Whether commands wait or are under way.
static inline int baco_busy(void) { return (int)BACO_FIELD(BACO_READ(BACO_AXI_STATUS), STATUS_BUSY); }

// Wait until all commands are done and what they wrote is in memory.
static inline void baco_fence(void) {
  while (baco_busy()) {}
  __sync_synchronize();
}

// Whether something went wrong since the last reset, and what. After a problem: baco_reset.
static inline int baco_problem_of(struct baco_problem* problem) {
  uint32_t status = BACO_READ(BACO_AXI_STATUS), error, bus;
  problem->illegal = BACO_FIELD(status, STATUS_ILLEGAL);
  error = problem->illegal ? BACO_READ(BACO_AXI_ERROR) : 0;
  problem->code = BACO_FIELD(error, ERROR_CODE);
  problem->funct = BACO_FIELD(error, ERROR_FUNCT);
  problem->rs1 = problem->illegal ? baco_read_64(BACO_AXI_ERROR_RS1_LOW) : 0;
  problem->rs2 = problem->illegal ? baco_read_64(BACO_AXI_ERROR_RS2_LOW) : 0;
  bus = BACO_READ(BACO_AXI_BUS_ERROR);
  problem->bus = BACO_FIELD(bus, BUS_ERROR_VALID) ? BACO_FIELD(bus, BUS_ERROR_RESPONSE) : 0;
  problem->write = problem->bus ? BACO_FIELD(bus, BUS_ERROR_WRITE) : 0;
  problem->address = problem->bus ? baco_read_64(BACO_AXI_BUS_ADDRESS_LOW) : 0;
  return problem->illegal || problem->bus;
}

// Let all transactions end, and put the accelerator where it was after power-up; commands that wait are lost.
static inline void baco_reset(void) {
  BACO_WRITE(BACO_AXI_CONTROL, BACO_BIT(CONTROL_RESET));
  while (BACO_FIELD(BACO_READ(BACO_AXI_STATUS), STATUS_RESETTING)) {}
  BACO_WRITE(BACO_AXI_CONTROL, BACO_BIT(CONTROL_FORGET_BUS_ERROR));
}

// When the interrupt is high: BACO_BIT(INTERRUPT_ON_IDLE) and others of INTERRUPT, together; 0: never.
static inline void baco_interrupt(uint32_t enabled) { BACO_WRITE(BACO_AXI_INTERRUPT, enabled); }

#else  // RoCC

// Send a command; its function code is a constant. (0x7b: custom-3; 3 and 7: both operands are registers, and rd is one.)
#define baco_command(funct, rs1, rs2)                              \
  __asm__ __volatile__(".insn r 0x7b, 3, %2, x0, %0, %1"           \
                       :                                           \
                       : "r"((uint64_t)(rs1)), "r"((uint64_t)(rs2)), "i"(funct) : "memory")

// Send a command that gives a result, and wait for that.
#define baco_command_result(funct, rs1, rs2)                       \
  __extension__({                                                  \
    uint64_t baco_value;                                           \
    __asm__ __volatile__(".insn r 0x7b, 7, %3, %0, %1, %2"         \
                         : "=r"(baco_value)                        \
                         : "r"((uint64_t)(rs1)), "r"((uint64_t)(rs2)), "i"(funct) : "memory"); \
    baco_value;                                                    \
  })

// Wait until all commands are done and what they wrote is in memory.
static inline void baco_fence(void) { __asm__ __volatile__("fence" ::: "memory"); }

#endif
#endif  // BACO_DRIVER_H
