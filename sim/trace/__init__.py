"""Command logs of simulations: reading them, and drawing them as pictures, pages and traces for other viewers."""

from baco.sim.trace.image import draw_image
from baco.sim.trace.log import Log, LogEntry, read_log
from baco.sim.trace.page import draw_html
from baco.sim.trace.perfetto import write_perfetto

__all__ = ["Log", "LogEntry", "draw_html", "draw_image", "read_log", "write_perfetto"]
