# A proxy of an operating system for one static Linux program: it starts the program and takes its system calls.

  .section .text.start, "ax"
  .globl _start
_start:
  la t0, trap_entry
  csrw mtvec, t0
  li t0, 0x1e000               # mstatus.FS and XS, as a kernel switches them on for a process
  csrs mstatus, t0
  csrw fcsr, zero
  la sp, proxy_stack_end
  csrw mscratch, sp
  call user_stack              # a0: the program's stack pointer
  mv sp, a0
  la t0, user_entry
  li a0, 0                     # nothing to call at exit
  li ra, 0
  jr t0

# Everything but a0 is kept, as Linux does.
  .balign 4
trap_entry:
  csrrw sp, mscratch, sp
  addi sp, sp, -128
  sd ra, 0(sp)
  sd t0, 8(sp)
  sd t1, 16(sp)
  sd t2, 24(sp)
  sd t3, 32(sp)
  sd t4, 40(sp)
  sd t5, 48(sp)
  sd t6, 56(sp)
  sd a1, 64(sp)
  sd a2, 72(sp)
  sd a3, 80(sp)
  sd a4, 88(sp)
  sd a5, 96(sp)
  sd a6, 104(sp)
  sd a7, 112(sp)
  csrr t0, mcause
  li t1, 11                    # a call of the environment
  bne t0, t1, 1f
  csrr t0, mepc
  addi t0, t0, 4
  csrw mepc, t0
  mv a6, a7
  call system_call
  ld ra, 0(sp)
  ld t0, 8(sp)
  ld t1, 16(sp)
  ld t2, 24(sp)
  ld t3, 32(sp)
  ld t4, 40(sp)
  ld t5, 48(sp)
  ld t6, 56(sp)
  ld a1, 64(sp)
  ld a2, 72(sp)
  ld a3, 80(sp)
  ld a4, 88(sp)
  ld a5, 96(sp)
  ld a6, 104(sp)
  ld a7, 112(sp)
  addi sp, sp, 128
  csrrw sp, mscratch, sp
  mret
1:
  addi a0, t0, 64              # any other trap ends the program
  j leave

  .globl leave
leave:
  slli a0, a0, 1
  ori a0, a0, 1
  fence
  la t0, tohost
2:
  sd a0, 0(t0)
  j 2b

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
proxy_stack_end:
