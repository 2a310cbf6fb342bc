"""Command logs of simulations: reading them, and drawing them as pictures, pages and traces for other viewers."""

from sim.trace.image import draw_image
from sim.trace.log import Log, LogEntry, read_log
from sim.trace.page import draw_html
from sim.trace.perfetto import write_perfetto

__all__ = ["Log", "LogEntry", "draw_html", "draw_image", "read_log", "write_perfetto"]
