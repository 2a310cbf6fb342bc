#include "host_runtime.h"

volatile uint64_t tohost __attribute__((section(".tohost"), aligned(64)));
volatile uint64_t fromhost __attribute__((section(".tohost"), aligned(64)));
volatile uint64_t trap_count, trap_cause, trap_pc, trap_value;

int main(void);

static void finish(uint64_t code) {
  tohost = code << 1 | 1;
  for (;;) {
  }
}

void start_c(void) { finish((uint64_t)(int64_t)main()); }

__attribute__((naked, used, section(".text.start"))) void _start(void) {
  __asm__ volatile(
      "la sp, stack_top\n"
      "la t0, trap_entry\n"
      "csrw mtvec, t0\n"
      "li t0, 0x1e000\n"  // FS and XS
      "csrs mstatus, t0\n"
      "call start_c\n");
}

// Records the trap and returns behind the instruction, whose length is in its first two bits.
__attribute__((naked, used, aligned(4))) void trap_entry(void) {
  __asm__ volatile(
      "addi sp, sp, -32\n"
      "sd t0, 0(sp)\n"
      "sd t1, 8(sp)\n"
      "sd t2, 16(sp)\n"
      "la t1, trap_count\n"
      "ld t0, 0(t1)\n"
      "addi t0, t0, 1\n"
      "sd t0, 0(t1)\n"
      "csrr t0, mcause\n"
      "la t1, trap_cause\n"
      "sd t0, 0(t1)\n"
      "csrr t0, mtval\n"
      "la t1, trap_value\n"
      "sd t0, 0(t1)\n"
      "csrr t0, mepc\n"
      "la t1, trap_pc\n"
      "sd t0, 0(t1)\n"
      "lhu t1, 0(t0)\n"
      "andi t1, t1, 3\n"
      "li t2, 3\n"
      "addi t0, t0, 2\n"
      "bne t1, t2, 1f\n"
      "addi t0, t0, 2\n"
      "1: csrw mepc, t0\n"
      "ld t0, 0(sp)\n"
      "ld t1, 8(sp)\n"
      "ld t2, 16(sp)\n"
      "addi sp, sp, 32\n"
      "mret\n");
}

uint64_t system_call(uint64_t number, uint64_t a, uint64_t b, uint64_t c) {
  volatile uint64_t words[8] __attribute__((aligned(64)));
  words[0] = number;
  words[1] = a;
  words[2] = b;
  words[3] = c;
  __asm__ volatile("fence" : : : "memory");
  tohost = (uint64_t)words;
  while (fromhost == 0) {
  }
  fromhost = 0;
  __asm__ volatile("fence" : : : "memory");
  return words[0];
}

static char line[256];
static size_t used;

static void put(char c) {
  line[used++] = c;
  if (c == '\n' || used == sizeof line) {
    system_call(64, 1, (uint64_t)line, used);
    used = 0;
  }
}

static void put_number(uint64_t value, unsigned base) {
  char digits[20];
  int count = 0;
  do {
    digits[count++] = "0123456789abcdef"[value % base];
    value /= base;
  } while (value != 0);
  while (count > 0) put(digits[--count]);
}

void print(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  for (; *format; ++format) {
    if (*format != '%') {
      put(*format);
      continue;
    }
    switch (*++format) {
      case 's':
        for (const char* s = va_arg(arguments, const char*); *s; ++s) put(*s);
        break;
      case 'd': {
        const int64_t value = va_arg(arguments, int64_t);
        if (value < 0) put('-');
        put_number(value < 0 ? 0 - (uint64_t)value : (uint64_t)value, 10);
        break;
      }
      case 'u': put_number(va_arg(arguments, uint64_t), 10); break;
      default: put_number(va_arg(arguments, uint64_t), 16); break;
    }
  }
  va_end(arguments);
}

// What the compiler may call.
void* memcpy(void* restrict to, const void* restrict from, size_t count) {
  for (size_t i = 0; i < count; ++i) ((volatile char*)to)[i] = ((const char*)from)[i];
  return to;
}
void* memset(void* to, int byte, size_t count) {
  for (size_t i = 0; i < count; ++i) ((volatile char*)to)[i] = (char)byte;
  return to;
}
