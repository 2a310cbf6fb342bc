"""What functions for `baco.pipeline` are written with, beside numpy: `from baco import pipelines`."""

from baco.workloads.pipelines.functions import resize, stencil, top
from baco.workloads.pipelines.node import PipelineError
from baco.workloads.pipelines.ranges import scale
from baco.workloads.pipelines.trace import Numbers

__all__ = ["Numbers", "PipelineError", "resize", "scale", "stencil", "top"]
