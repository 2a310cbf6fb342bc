// A tiled product by LOOP_WS, as a host core issues it. The compiler's command line gives the sizes: DIM, ROWS, COLS,
// INNER (elements, multiples of DIM) and the tile TILE_I, TILE_J, TILE_K (blocks); the operands come from another file.
#include <stdint.h>

extern const int8_t operand_a[], operand_b[];
static int8_t result[ROWS * COLS] __attribute__((aligned(4096)));
volatile uint64_t tohost __attribute__((section(".tohost"), aligned(64)));
volatile uint64_t fromhost __attribute__((section(".tohost"), aligned(64)));

#define COMMAND(funct, a, b) \
  __asm__ volatile(".insn r 0x7b, 3, " #funct ", x0, %0, %1" : : "r"((uint64_t)(a)), "r"((uint64_t)(b)) : "memory")
#define ADDRESS(pointer) ((uint64_t)(uintptr_t)(pointer))
#define ONE 0x3f800000ull

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

__attribute__((used)) void run(void) {
  COMMAND(0, ONE << 32 | 1 << 16 | 1 << 2, 1ull << 48);
  COMMAND(0, ONE << 32 | DIM << 16 | 0 << 3 | 1, INNER);
  COMMAND(0, ONE << 32 | DIM << 16 | 1 << 3 | 1, COLS);
  COMMAND(0, ONE << 32 | DIM << 16 | 2 << 3 | 1, COLS);
  COMMAND(0, 2, 0x3c000000ull << 32 | COLS);
  for (uint64_t i = 0; i < ROWS / DIM; i += TILE_I)
    for (uint64_t j = 0; j < COLS / DIM; j += TILE_J)
      for (uint64_t k = 0; k < INNER / DIM; k += TILE_K) {
        const uint64_t ni = least(TILE_I, ROWS / DIM - i), nj = least(TILE_J, COLS / DIM - j);
        const uint64_t nk = least(TILE_K, INNER / DIM - k);
        COMMAND(9, 0, nk << 32 | nj << 16 | ni);
        COMMAND(10, ADDRESS(operand_a + (i * INNER + k) * DIM), ADDRESS(operand_b + (k * COLS + j) * DIM));
        COMMAND(11, 0, k + TILE_K >= INNER / DIM ? ADDRESS(result + (i * COLS + j) * DIM) : 0);
        COMMAND(12, INNER, COLS);
        COMMAND(13, 0, COLS);
        COMMAND(8, k > 0, 0);
      }
  __asm__ volatile("fence" : : : "memory");
  tohost = 1;
  for (;;) {
  }
}

__attribute__((naked, section(".text.start"))) void _start(void) {
  // the accelerator is usable once mstatus.XS is not zero
  __asm__ volatile("la sp, stack_top\n\tli t0, 0x18000\n\tcsrs mstatus, t0\n\tj run");
}
