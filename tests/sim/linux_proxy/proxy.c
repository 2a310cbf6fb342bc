// System calls that C libraries make of a small static program, answered as Linux does; addresses are physical.
#include <stdint.h>

extern volatile uint64_t tohost, fromhost;
// Of the linker script: where the program is, and what memory it may have beside.
extern char user_entry[], user_headers[], user_header_count[], user_end[], user_limit[];
_Noreturn void leave(uint64_t code);

enum { WRITE = 64, WRITEV = 66, IOCTL = 29, EXIT = 93, EXIT_GROUP = 94, SET_TID_ADDRESS = 96, SET_ROBUST_LIST = 99 };
enum { SIGPROCMASK = 135, SIGACTION = 134, BRK = 214, MUNMAP = 215, MMAP = 222, MPROTECT = 226, MLOCKALL = 230 };
enum { NOT_A_TERMINAL = 25, NO_MEMORY = 12, NO_SUCH_CALL = 38, PAGE = 4096 };
enum { HEAP = 16 << 20 };  // bytes for brk; what is mapped lies behind

static uint64_t write_bytes(uint64_t file, uint64_t address, uint64_t count) {
  static volatile uint64_t call[8] __attribute__((aligned(64)));
  call[0] = WRITE;
  call[1] = file;
  call[2] = address;
  call[3] = count;
  __asm__ volatile("fence" : : : "memory");
  tohost = (uint64_t)call;
  while (fromhost == 0) {}
  fromhost = 0;
  return call[0];
}

static uint64_t up(uint64_t address) { return (address + PAGE - 1) / PAGE * PAGE; }

static uint64_t write_pieces(uint64_t file, const uint64_t* pieces, uint64_t count) {
  uint64_t total = 0;
  for (uint64_t i = 0; i < count; ++i) total += write_bytes(file, pieces[2 * i], pieces[2 * i + 1]);
  return total;
}

uint64_t system_call(uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4, uint64_t a5, uint64_t number) {
  static uint64_t end_of_heap, mapped;
  const uint64_t heap = up((uint64_t)user_end);
  (void)a3, (void)a4, (void)a5;
  if (!mapped) end_of_heap = heap, mapped = heap + HEAP;
  switch (number) {
    case WRITE: return write_bytes(a0, a1, a2);
    case WRITEV: return write_pieces(a0, (const uint64_t*)a1, a2);
    case EXIT:
    case EXIT_GROUP: leave(a0);
    case BRK:
      if (a0 >= heap && a0 <= heap + HEAP) end_of_heap = a0;
      return end_of_heap;
    case MMAP: {
      const uint64_t first = mapped;
      if (a1 > (uint64_t)user_limit - first) return -(uint64_t)NO_MEMORY;
      mapped = up(first + a1);
      return first;
    }
    case SET_TID_ADDRESS: return 1;
    case IOCTL: return -(uint64_t)NOT_A_TERMINAL;
    case MUNMAP:
    case MPROTECT:
    case MLOCKALL:
    case SIGPROCMASK:
    case SIGACTION:
    case SET_ROBUST_LIST: return 0;
    default: return -(uint64_t)NO_SUCH_CALL;
  }
}

// Linux's: argument count, arguments, environment, auxiliary values.
uint64_t user_stack(void) {
  static const char name[] = "program";
  static const uint64_t random[2] = {0x0123456789abcdef, 0xfedcba9876543210};
  const uint64_t words[] = {
      1, (uint64_t)name, 0, 0,
      3, (uint64_t)user_headers, 4, 56, 5, (uint64_t)user_header_count, 6, PAGE, 9, (uint64_t)user_entry,
      25, (uint64_t)random, 0, 0,
  };
  uint64_t* top = (uint64_t*)((uint64_t)user_limit + (8 << 20) - sizeof words);
  for (uint64_t i = 0; i < sizeof words / sizeof *words; ++i) top[i] = words[i];
  return (uint64_t)top;
}
