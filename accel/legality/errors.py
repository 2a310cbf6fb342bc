"""Why a command is refused: the codes that every engine reports, of which a program sees the first."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ErrorCode:
    """One code.

    Args:
        code: what the error port of the accelerator shows, 1..15.
        name: as rules and generated constants write it.
        reason: a few words for messages.
        meaning: one sentence for the reference documentation.
    """

    code: int
    name: str
    reason: str
    meaning: str


#: Every code, ascending.
ERRORS = (
    ErrorCode(1, "UNKNOWN_COMMAND", "unknown command", "no command has this function code"),
    ErrorCode(2, "NOT_BUILT", "feature not built", "the command, or what it asks for, is not built"),
    ErrorCode(3, "TRANSPOSES", "illegal transposes", "the dataflow cannot transpose these operands together"),
    ErrorCode(4, "BAD_SIZE", "bad size", "a size is zero or larger than what there is room for"),
    ErrorCode(
        5, "BAD_FLAGS", "illegal flags", "fields that exclude each other, or an operand in the wrong memory"
    ),
    ErrorCode(
        6, "LOCAL_ADDRESS", "local address beyond the memory", "rows that the local memory does not have"
    ),
    ErrorCode(7, "OUT_OF_TURN", "PRELOAD and COMPUTE not in pairs", "PRELOAD and COMPUTE do not alternate"),
    ErrorCode(
        8,
        "NOTHING_TO_ADD_TO",
        "no sums to accumulate on",
        "the array holds nothing that COMPUTE_ACCUMULATED could use",
    ),
    ErrorCode(
        9,
        "NO_RESULT",
        "no result to give",
        "a register is to receive a result (xd), but the command has none",
    ),
    ErrorCode(
        10, "NOT_CONFIGURED", "used before its configuration", "the CONFIG command that it needs never came"
    ),
    ErrorCode(
        11,
        "INCOMPLETE",
        "macro without its full configuration",
        "a configuration command of the macro is missing",
    ),
    ErrorCode(
        12,
        "ROWS_IN_USE",
        "rows that are still in use",
        "rows that the PRELOAD before, or the command itself, still needs as they are",
    ),
    ErrorCode(
        13,
        "UNSUITABLE",
        "configuration that the macro cannot work with",
        "a CONFIG that contradicts what the macro asks",
    ),
    ErrorCode(
        15,
        "MAIN_MEMORY",
        "address outside main memory",
        "a load or store reaches bytes that main memory does not have",
    ),
)
#: The one error that the accelerator cannot see itself: the memory system behind its ports reports it.
MAIN_MEMORY = 15


def error_reason(code: int) -> str:
    """The reason of a code in a few words, also for a number that is no code."""
    return next((one.reason for one in ERRORS if one.code == code), f"error code {code}")
