"""What an architect hands over to a hardware team: one folder with everything about an accelerator that is to be built.

`hardware` writes Verilog, file list, constraints and what must be known of ports and memories; `testbench` a test that runs in plain
simulators; `sheet` a data sheet. What these show of programs and of other rooms' models is passed in.
"""
