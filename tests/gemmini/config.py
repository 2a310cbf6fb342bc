"""What a machine is made of, as far as its results and its commands depend on it."""

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class GemminiConfig:
    """The configuration fields that change results or limits, named and defaulted as in sim/cpp/config.h."""

    dim: int = 16
    ws: bool = True
    os: bool = True
    scratchpad_rows: int = 16384
    accumulator_rows: int = 1024
    partial_sum_bits: int = 32
    input_format: int = 0
    dma_max_bytes: int = 64
    counters: int = 8
    loop_ws: bool = True
    loop_conv: bool = True
    training_convs: bool = True
    depthwise_convs: bool = True
    first_layer: bool = True
    max_pool: bool = True
    activations: bool = True
    normalizations: bool = False
    mvin_scale: bool = True
    mvin_scale_acc: bool = False
    accumulator_scale: bool = True
    read_small_width: bool = True
    read_full_width: bool = True
    preload_d: bool = True
    write_to_scratchpad: bool = True
    requantization: bool = False
    packed_weights: bool = False
    block_weights: bool = False

    @property
    def element_bytes(self) -> int:
        """Of an element of the scratchpad."""
        return 2 if self.input_format >= 3 else 1

    @property
    def element_bits(self) -> int:
        """Of an element of the scratchpad."""
        return 8 * self.element_bytes

    def lines(self) -> str:
        """The text that sim/cpp/config.cpp reads."""
        return "".join(f"{f.name} {int(getattr(self, f.name))}\n" for f in fields(self))
