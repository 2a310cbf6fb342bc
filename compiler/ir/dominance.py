"""Which blocks of a region come before which others on every way through it.

Source: Cooper, Harvey, Kennedy, "A Simple, Fast Dominance Algorithm" (2001), immediate dominators by intersection along
the tree in reverse postorder.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import Block, Region


def dominator_tree(region: Region) -> Mapping[Block, list[Block]]:
    """For every block the blocks whose immediate dominator it is, in the order of the text.

    Blocks that nothing leads to are in it with no block above them.
    """
    blocks = list(region.blocks)
    if not blocks:
        return {}
    order = _reverse_postorder(blocks[0])
    number = {block: index for index, block in enumerate(order)}
    before: list[list[int]] = [[] for _ in order]
    for block in order:
        for successor in _successors(block):
            before[number[successor]].append(number[block])
    above = [-1] * len(order)
    above[0] = 0
    changed = True
    while changed:
        changed = False
        for index in range(1, len(order)):
            known = [predecessor for predecessor in before[index] if above[predecessor] >= 0]
            dominator = known[0]
            for predecessor in known[1:]:
                dominator = _meeting(above, dominator, predecessor)
            if above[index] != dominator:
                above[index], changed = dominator, True
    tree: dict[Block, list[Block]] = {block: [] for block in blocks}
    for block in blocks:
        if number.get(block):
            tree[order[above[number[block]]]].append(block)
    return tree


def _meeting(above: list[int], left: int, right: int) -> int:
    while left != right:
        while left > right:
            left = above[left]
        while right > left:
            right = above[right]
    return left


def _successors(block: Block) -> list[Block]:
    return list(block.last_op.successors) if block.last_op is not None else []


def _reverse_postorder(entry: Block) -> list[Block]:
    done: list[Block] = []
    seen = {entry}
    stack = [(entry, iter(_successors(entry)))]
    while stack:
        block, rest = stack[-1]
        for successor in rest:
            if successor not in seen:
                seen.add(successor)
                stack.append((successor, iter(_successors(successor))))
                break
        else:
            done.append(block)
            stack.pop()
    return done[::-1]
