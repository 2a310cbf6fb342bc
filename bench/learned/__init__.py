"""Residuals learned from measured sets: training, comparison, transfer, and the published FPGA rows."""
