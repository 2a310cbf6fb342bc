"""What Gemmini's commands mean, written from the ISA specification alone, on numpy arrays: the one oracle of the functional
model, the RTL and compiled programs. `machine` executes commands; `loop_ws` and `loop_conv` write the loop macros out."""
