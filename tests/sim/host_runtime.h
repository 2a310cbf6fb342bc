// For the programs that test the host core: start-up code, console and traps.
#pragma once
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

extern volatile uint64_t tohost, fromhost;

// What the last trap was. The handler skips the instruction that trapped.
extern volatile uint64_t trap_count, trap_cause, trap_pc, trap_value;

uint64_t system_call(uint64_t number, uint64_t a, uint64_t b, uint64_t c);
void print(const char* format, ...);  // %s, %d, %u and %x, of 64 bits

#define STRING_(x) #x
#define STRING(x) STRING_(x)
#define read_csr(name)                                        \
  ({                                                          \
    uint64_t value_;                                          \
    __asm__ volatile("csrr %0, " STRING(name) : "=r"(value_) : : "memory"); \
    value_;                                                   \
  })
#define write_csr(name, value) __asm__ volatile("csrw " STRING(name) ", %0" : : "r"((uint64_t)(value)) : "memory")
#define set_csr(name, value) __asm__ volatile("csrs " STRING(name) ", %0" : : "r"((uint64_t)(value)) : "memory")
#define clear_csr(name, value) __asm__ volatile("csrc " STRING(name) ", %0" : : "r"((uint64_t)(value)) : "memory")
#define command(funct, a, b) \
  __asm__ volatile(".insn r 0x7b, 3, " STRING(funct) ", x0, %0, %1" : : "r"((uint64_t)(a)), "r"((uint64_t)(b)) : "memory")
#define command_response(funct, a, b)                                                                  \
  ({                                                                                                   \
    uint64_t value_;                                                                                   \
    __asm__ volatile(".insn r 0x7b, 7, " STRING(funct) ", %0, %1, %2"                                  \
                     : "=r"(value_) : "r"((uint64_t)(a)), "r"((uint64_t)(b)) : "memory");              \
    value_;                                                                                            \
  })
