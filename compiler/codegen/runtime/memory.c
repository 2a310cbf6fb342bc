// What compilers expect to exist. Built without the recognition of loops, which would call these again.
#include "runtime.h"

void* memset(void* to, int byte, size_t count) {
  char* target = to;
  const uint64_t word = (uint8_t)byte * 0x0101010101010101ull;
  while (count && (uintptr_t)target & 7) *target++ = (char)byte, --count;
  for (; count >= 8; count -= 8, target += 8) *(uint64_t*)target = word;
  while (count--) *target++ = (char)byte;
  return to;
}

void* memcpy(void* to, const void* from, size_t count) {
  char* target = to;
  const char* source = from;
  if ((((uintptr_t)target ^ (uintptr_t)source) & 7) == 0) {
    while (count && (uintptr_t)target & 7) *target++ = *source++, --count;
    for (; count >= 8; count -= 8, target += 8, source += 8) *(uint64_t*)target = *(const uint64_t*)source;
  }
  while (count--) *target++ = *source++;
  return to;
}

void* memmove(void* to, const void* from, size_t count) {
  char* target = to;
  const char* source = from;
  if (target <= source || target >= source + count) return memcpy(to, from, count);
  while (count--) target[count] = source[count];
  return to;
}

int memcmp(const void* a, const void* b, size_t count) {
  const uint8_t *left = a, *right = b;
  for (size_t i = 0; i < count; ++i)
    if (left[i] != right[i]) return left[i] < right[i] ? -1 : 1;
  return 0;
}
