"""Whether a chain of products runs as one unit: predicted cycles against those of its operators one by one."""

from __future__ import annotations

from accel.config import Accelerator
from common.errors import InfeasibleError
from compiler.latency import predict_layers
from compiler.network.chains import ChainCode, ChainScheduler
from compiler.network.lowered import Scheduler
from compiler.network.prediction import chain_cost, row_cost
from compiler.network.row_code import RowCode
from compiler.styles.fused.chain import ChainSchedule, ProductChain
from compiler.styles.fused.predict import choose_chain

__all__ = ["chain_scheduler"]


def chain_scheduler(accelerator: Accelerator, schedule: Scheduler) -> ChainScheduler:
    """Chooses one unit where that is predicted to take no more cycles than the operators with their own schedules."""

    def chosen(chain: ProductChain, between: RowCode | None) -> ChainSchedule | None:
        try:
            fused = choose_chain(chain, accelerator)
        except InfeasibleError:
            return None
        layers = [chain.first, chain.second]
        try:
            alone = predict_layers(layers, [schedule(one)[0] for one in layers], accelerator)
        except InfeasibleError:  # the host would compute one of them
            return fused
        cycles = sum(one.cycles.item() for one in alone)
        if between is not None:
            cycles += row_cost(between, accelerator).cycles
        return fused if chain_cost(ChainCode(chain, fused), accelerator).cycles <= cycles else None

    return chosen
