#include "runtime.h"

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

// Binds the program to the accelerator whose header it was compiled with.
__asm__(
    ".pushsection .note.baco, \"a\", @note\n"
    "  .balign 4\n"
    "  .long 5, 2f - 1f, 1\n"
    "  .asciz \"baco\"\n"
    "  .balign 4\n"
    "1: .ascii " TEXT(BACO_CONFIG_HASH) "\n"
    "2: .balign 4\n"
    ".popsection\n");

extern volatile uint64_t tohost, fromhost;

static size_t length(const char* text) {
  size_t count = 0;
  while (text[count]) ++count;
  return count;
}

// HTIF: write(1, text, length), as the proxy kernel's programs do it.
void print(const char* text) {
  static volatile uint64_t call[8] __attribute__((aligned(64)));
  call[0] = 64;
  call[1] = 1;
  call[2] = (uint64_t)text;
  call[3] = length(text);
  __asm__ volatile("fence" : : : "memory");
  tohost = (uint64_t)call;
  while (fromhost == 0) {
  }
  fromhost = 0;
  __asm__ volatile("fence" : : : "memory");
}

void print_number(int64_t value) {
  char digits[24];
  size_t at = sizeof digits - 1;
  uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
  digits[at] = 0;
  do {
    digits[--at] = (char)('0' + rest % 10);
    rest /= 10;
  } while (rest);
  if (value < 0) digits[--at] = '-';
  print(digits + at);
}

static uint64_t state = 0x9e3779b97f4a7c15;

static uint32_t random_word(void) {  // xorshift64*, Marsaglia 2003 and Vigna 2016
  state ^= state >> 12;
  state ^= state << 25;
  state ^= state >> 27;
  return (uint32_t)(state * 0x2545f4914f6cdd1d >> 32);
}

int random_between(int least, int most) { return least + (int)(random_word() % (uint32_t)(most - least + 1)); }

void random_bytes(void* to, size_t count) {
  for (size_t i = 0; i < count; ++i) ((int8_t*)to)[i] = (int8_t)random_word();
}

void random_words(int32_t* to, size_t count, int32_t limit) {
  for (size_t i = 0; i < count; ++i) to[i] = random_between(-limit, limit);
}

static _Noreturn void differ(const char* what, int number, size_t index, int64_t found, int64_t wanted) {
  print("wrong: ");
  print(what);
  print(", case ");
  print_number(number);
  print(", element ");
  print_number((int64_t)index);
  print(": ");
  print_number(found);
  print(" instead of ");
  print_number(wanted);
  print("\n");
  exit(1);
}

void check_bytes(const char* what, int number, const int8_t* found, const int8_t* wanted, size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (found[i] != wanted[i]) differ(what, number, i, found[i], wanted[i]);
}

void check_words(const char* what, int number, const int32_t* found, const int32_t* wanted, size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (found[i] != wanted[i]) differ(what, number, i, found[i], wanted[i]);
}

void check(const char* what, int number, int64_t found, int64_t wanted) {
  if (found != wanted) differ(what, number, 0, found, wanted);
}

// x / 2^shift, x not negative.
static uint64_t rounded(uint64_t x, int shift) {
  if (shift <= 0) return x;
  if (shift > 63) return 0;
  const uint64_t whole = x >> shift, rest = x & ((1ull << shift) - 1), half = 1ull << (shift - 1);
  return whole + (rest > half || (rest == half && (whole & 1)));
}

int64_t rounded_shift(int64_t x, int shift) {
  return x < 0 ? -(int64_t)rounded(0 - (uint64_t)x, shift) : (int64_t)rounded((uint64_t)x, shift);
}

// Rounds a magnitude to the 24 bits of a float32's significand; the exponent follows.
static uint64_t significand(uint64_t x, int* exponent) {
  const int extra = x >> 24 ? 40 - __builtin_clzll(x) : 0;
  *exponent += extra;
  return rounded(x, extra);
}

int8_t scaled(int32_t x, uint32_t scale_bits) {
  const int biased = (int)(scale_bits >> 23 & 255);
  int exponent = (biased ? biased : 1) - 150;
  const uint64_t factor = (scale_bits & 0x7fffff) | (biased ? 0x800000 : 0);
  uint64_t product = significand(x < 0 ? 0 - (uint64_t)x : (uint64_t)x, &exponent) * factor;
  product = significand(product, &exponent);
  uint64_t whole = exponent < 0 ? rounded(product, -exponent) : product ? ~0ull : 0;
  if (exponent >= 0 && exponent < 8) whole = product << exponent;
  const int negative = (x < 0) != (int)(scale_bits >> 31);
  return saturated(negative ? -(int64_t)(whole > 1000 ? 1000 : whole) : (int64_t)(whole > 1000 ? 1000 : whole));
}

// What the compiler may call.
void* memset(void* to, int byte, size_t count) {
  for (volatile char* p = to; count; --count) *p++ = (char)byte;
  return to;
}
void* memcpy(void* restrict to, const void* restrict from, size_t count) {
  const char* source = from;
  for (volatile char* p = to; count; --count) *p++ = *source++;
  return to;
}
