"""From accelerator commands to programs: LLVM IR text, object code, and ELF files with their data and runtime."""
