// What every compiled program brings along: exit and console through HTIF, and the check of results.
#pragma once
#include <stddef.h>
#include <stdint.h>

// Ends the program; 0 means that all is well.
_Noreturn void exit(int code);

// Console output.
void print(const char* text);
void print_number(int64_t value);
void print_hex(uint64_t value);

// Elements of a buffer: bytes of one, and how to print it.
enum { ELEMENT_SIGNED = 0x10, ELEMENT_FLOAT = 0x20 };

// A buffer and what it must hold.
struct check {
  const char* name;
  const void* found;
  const void* expected;
  uint64_t count;         // elements
  uint64_t element;       // bytes of one, | ELEMENT_SIGNED or ELEMENT_FLOAT
  uint64_t rank;          // 0..8
  const uint64_t* shape;  // `rank` sizes, row-major
};

// Compares `count` buffers, prints the first wrong element of each and how many are wrong; 1 if any is, else 0.
int check_buffers(const struct check* checks, uint64_t count);
