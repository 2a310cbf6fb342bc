# Smallest start: stack, coprocessor on, main, exit with its result.
  .section .text.start, "ax"
  .globl _start
_start:
  la sp, stack_end
  li t0, 0x1e000          # mstatus.FS and XS dirty
  csrs mstatus, t0
  call main
  slli a0, a0, 1
  ori a0, a0, 1
  la t0, tohost
  sd a0, 0(t0)
1:
  j 1b

  .section .tohost, "aw", @progbits
  .align 6
  .globl tohost
tohost: .dword 0
  .align 6
  .globl fromhost
fromhost: .dword 0

  .section .bss
  .align 4
  .space 16384
stack_end:
