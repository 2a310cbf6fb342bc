// What the test programs share: console, random numbers, comparisons that end the program.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "gemmini_params.h"

void print(const char* text);
void print_number(int64_t value);
_Noreturn void exit(int code);

// Uniform in [least, most]; the same sequence in every run.
int random_between(int least, int most);
// `count` random int8 values of the whole range.
void random_bytes(void* to, size_t count);
// `count` random int32 values in [-limit, limit].
void random_words(int32_t* to, size_t count, int32_t limit);

// Ends the program with exit code 1 at the first difference, told as: what, case, index, wanted and found.
void check_bytes(const char* what, int number, const int8_t* found, const int8_t* wanted, size_t count);
void check_words(const char* what, int number, const int32_t* found, const int32_t* wanted, size_t count);
void check(const char* what, int number, int64_t found, int64_t wanted);

void* memset(void* to, int byte, size_t count);
void* memcpy(void* restrict to, const void* restrict from, size_t count);

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static inline int least(int a, int b) { return a < b ? a : b; }
static inline int most(int a, int b) { return a > b ? a : b; }
static inline int blocks(int size) { return (size + DIM - 1) / DIM; }

// The hardware's arithmetic in integers only, so that it owes nothing to the floating point under test.

// x * scale (the bits of a finite float32) as int8: x to float32, product to float32, to a whole number, each to the
// nearest and to even in the middle, then saturated.
int8_t scaled(int32_t x, uint32_t scale_bits);
// x / 2^shift to the nearest whole number, to even in the middle.
int64_t rounded_shift(int64_t x, int shift);

static inline uint32_t float_bits(float value) {
  uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  return bits;
}
static inline int8_t saturated(int64_t x) { return (int8_t)(x > 127 ? 127 : x < -128 ? -128 : x); }
// What a scaled store makes of an accumulator element.
static inline int8_t stored(int32_t x, uint32_t scale_bits, int relu) {
  return scaled(relu && x < 0 ? 0 : x, scale_bits);
}
