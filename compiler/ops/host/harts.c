// What harts of a system wait for: flags that others raise, and the time. A flag is a count that grows.
#include "host.h"

// Until the flag counts so far; what its hart did before is then seen.
void harts_wait(int64_t flag, int64_t count) {
  while (*(volatile const int64_t*)flag < count) {
  }
  __asm__ volatile("fence" ::: "memory");
}

// Behind a fence of the caller's: all that this hart and its accelerator did is in memory.
void harts_signal(int64_t flag, int64_t count) { *(volatile int64_t*)flag = count; }

// Until so many cycles have passed since reset.
void harts_sleep(int64_t until) {
  int64_t now;
  do {
    __asm__ volatile("csrr %0, mcycle" : "=r"(now));
  } while (now < until);
}
