"""Published figures that ours stand beside (method specification section 7; thesis Tables 6.6 and 6.7, section 6.6)."""

from __future__ import annotations

#: EDP over that of BACO, geometric mean over the cases of a kind of operator (Table 6.6).
OPERATOR_RATIOS: dict[str, dict[str, float]] = {
    "GEMM": {
        "eyeriss": 13.95,
        "nvdla-small": 28.87,
        "nvdla-large": 3.96,
        "gemmini-default": 4.89,
        "dosa": 1.48,
    },
    "GEMV": {
        "eyeriss": 16.72,
        "nvdla-small": 35.56,
        "nvdla-large": 4.18,
        "gemmini-default": 5.42,
        "dosa": 1.91,
    },
    "Conv1D": {
        "eyeriss": 7.52,
        "nvdla-small": 19.81,
        "nvdla-large": 2.58,
        "gemmini-default": 3.47,
        "dosa": 1.43,
    },
    "Conv2D": {
        "eyeriss": 8.49,
        "nvdla-small": 20.05,
        "nvdla-large": 3.42,
        "gemmini-default": 3.99,
        "dosa": 1.28,
    },
}
#: The text gives only the largest improvements over whole networks (Figure 6.10 has no numbers).
NETWORK_LARGEST = {"dosa": 1.64, "gemmini-default": 5.23}
#: Improvement of ResNet-50's EDP over Gemmini default, parts added one after the other (Table 6.7).
ABLATION: dict[str, float] = {
    "default": 1.00,
    "partition": 1.44,
    "hardware": 1.87,
    "analytical": 1.98,
    "learned": 2.17,
    "importance": 2.32,
}
#: Correlation with RTL cycles on 200 held-out samples (Figure 6.12): analytical model, with a learned one.
ACCURACY = {"analytical": 0.85, "learned": 0.93}
