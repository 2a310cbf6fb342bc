# Start-up of compiled programs: machine mode, floating point and accelerator on, traps reported, one hart.
# Ends the run through HTIF: `tohost` = exit code * 2 + 1.
# For systems of several units, BACO_HARTS is defined: so many harts at most call baco_main, each with its number and on its
# own stack, when hart 0 has cleared memory. What hart 0 returns ends the run; the others sleep then.

#define STACK_BITS 18          /* of a hart's 256 KiB */

  .section .text.start, "ax"
  .globl _start
_start:
  la t0, trap_entry
  csrw mtvec, t0
  li t0, 0x1e000               # mstatus.FS and XS: both dirty
  csrs mstatus, t0
  csrw fcsr, zero              # round to nearest even, no flags
  .option push
  .option norelax
  la gp, __global_pointer$
  .option pop
  la sp, stack_end
#ifdef BACO_HARTS
  csrr a0, mhartid
  slli t0, a0, STACK_BITS
  sub sp, sp, t0
  beqz a0, 2f
1:
  lw t0, started
  beqz t0, 1b
  fence
  call baco_main
  fence
6:
  wfi
  j 6b
#else
  csrr t0, mhartid             # hart 0 runs the program, any other sleeps
1:
  beqz t0, 2f
  wfi
  j 1b
#endif
2:
  la t0, bss_start
  la t1, bss_end
3:
  bgeu t0, t1, 4f
  sd zero, 0(t0)
  addi t0, t0, 8
  j 3b
4:
#ifdef BACO_HARTS
  fence
  li t0, 1
  sw t0, started, t1
  li a0, 0
#endif
  call baco_main               # compiler/codegen/entry.py writes it
  .globl exit
exit:
  slli a0, a0, 1
  ori a0, a0, 1
  fence                        # what the accelerator still does belongs to the run
  la t0, tohost
5:
  sd a0, 0(t0)                 # again and again: a host may have taken it for an older request
  j 5b

  .balign 4
trap_entry:                    # no program expects a trap; report_trap does not return
  la sp, stack_end
#ifdef BACO_HARTS
  csrr t0, mhartid
  slli t0, t0, STACK_BITS
  sub sp, sp, t0
#endif
  csrr a0, mcause
  csrr a1, mepc
  csrr a2, mtval
  j report_trap

  .section .tohost, "aw", @progbits
  .balign 64
  .globl tohost
  .type tohost, @object
  .size tohost, 8              # some simulators want to see it
tohost: .dword 0
  .balign 64
  .globl fromhost
  .type fromhost, @object
  .size fromhost, 8
fromhost: .dword 0

#ifdef BACO_HARTS
  .section .data
  .balign 64
started: .word 0               # hart 0 has cleared memory
  .balign 64
#else
#define BACO_HARTS 1
#endif
  .section .stack, "aw", @nobits
  .balign 16
  .space BACO_HARTS << STACK_BITS
stack_end:
