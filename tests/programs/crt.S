# Start-up of the test programs: machine mode, floating point and accelerator on, traps reported as exit codes.
# Ends the run through HTIF: `tohost` = exit code * 2 + 1.

  .section .text.start, "ax"
  .globl _start
_start:
  la t0, trap_entry
  csrw mtvec, t0
  li t0, 0x1e000               # mstatus.FS and XS: both dirty
  csrs mstatus, t0
  csrr t0, misa                # bits 63:62 are 2 on a 64-bit hart
  bltz t0, 1f
  li a0, 126
  j exit
1:
  csrw fcsr, zero              # round to nearest even, no flags
  .option push
  .option norelax
  la gp, __global_pointer$
  .option pop
  la sp, stack_end
  csrr t0, mhartid             # one hart runs the program, any other sleeps
2:
  bnez t0, 2b
  la t0, bss_start
  la t1, bss_end
3:
  bgeu t0, t1, 4f
  sd zero, 0(t0)
  addi t0, t0, 8
  j 3b
4:
  call main
  .globl exit
exit:
  slli a0, a0, 1
  ori a0, a0, 1
  fence                        # what the accelerator still does belongs to the run
  la t0, tohost
  sd a0, 0(t0)
5:
  j 5b

  .balign 4
trap_entry:                    # no program expects a trap: 64 + cause
  csrr a0, mcause
  andi a0, a0, 63
  addi a0, a0, 64
  j exit

  .section .tohost, "aw", @progbits
  .balign 64
  .globl tohost
tohost: .dword 0
  .balign 64
  .globl fromhost
fromhost: .dword 0

  .section .stack, "aw", @nobits
  .balign 16
  .space 65536
stack_end:
