/* RoCC commands and console output for test programs. */
#include <stdint.h>

extern volatile uint64_t tohost;

#define COMMAND(funct, a, b) \
  asm volatile(".insn r 0x7b, 3, " #funct ", x0, %0, %1" : : "r"((uint64_t)(a)), "r"((uint64_t)(b)) : "memory")
#define QUERY(funct, result, a, b) \
  asm volatile(".insn r 0x7b, 7, " #funct ", %0, %1, %2" : "=r"(result) : "r"((uint64_t)(a)), "r"((uint64_t)(b)))
#define FENCE() asm volatile("fence" : : : "memory")

static void print(const char* text) {
  for (; *text; ++text) {
    tohost = (1ull << 56) | (1ull << 48) | (unsigned char)*text;
    while (tohost) {
    }
  }
}
