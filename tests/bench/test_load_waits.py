"""What the array of a small log waits for, counted by hand."""

from __future__ import annotations

from baco.bench.load_waits import load_waits

LOG = """# baco command log 1, dim 16
unit,id,funct,rs1,rs2,allocated,issued,done
execute,0,6,0x0,0x0,5,10,20
front,0,6,0x0,0x0,1,,
load,0,1,0x0,0x0,12,13,59
execute,1,4,0x0,0x0,25,60,80
store,0,3,0x0,0x0,70,75,98
execute,2,4,0x0,0x0,90,100,120
execute,3,4,0x0,0x0,110,121,130
execute,4,6,0x0,0x0,210,215,230
"""
STEPS = [
    {"start": 2, "operator": "unit", "what": "P4 > P4: chain 16x64 weights of a group copies 1,1,1"},
    {"start": 200, "operator": "layer", "what": "P4: loop_ws 1,1,1 order ijk"},
]


def test_waits_are_told_by_what_ends_last_before_them() -> None:
    assert load_waits(LOG.splitlines(), STEPS) == {
        "unit": {"begin": 8, "host": 5 + 10, "MVIN2": 35, "MVOUT": 10, "other": 1}
    }
