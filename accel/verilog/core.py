"""The core of a SoC: CVA6 out of the package `pythondata-cpu-cva6`, as one text.

Its sources are taken as synthesis takes them, but for what `PATCHES` says: pieces of text that stand there once each, and what is in their
place. Where a version of the package reads otherwise, nothing is guessed, and the user is told which piece is missing.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from baco.common.errors import InputError

PACKAGE = "pythondata_cpu_cva6"
#: What is defined where the core is read: its write-through data cache.
DEFINES = ("WT_DCACHE",)
#: Macros of registers, which many files include.
_MACROS = "common/submodules/common_cells/include/common_cells/registers.svh"
_INCLUDE = re.compile(r'^\s*`include "common_cells/registers.svh".*\n', re.MULTILINE)
#: What is there for simulations only: checks, and a trace of all instructions in a file.
_SIMULATED = re.compile(
    r"^[ \t]*// ?pragma translate_off\b.*?^[ \t]*// ?pragma translate_on\b.*?$", re.MULTILINE | re.DOTALL
)
#: Around memories, which flows of the authors replace by macros: here they are read.
_REPLACED = re.compile(r"^// synthesis translate_o(ff|n)$", re.MULTILINE)
#: In the order in which they are read: packages first.
_FILES: tuple[tuple[str, str], ...] = (
    ("core/include", "cv64a6_imafdc_sv39_config_pkg riscv_pkg"),
    ("corev_apu/riscv-dbg/src", "dm_pkg"),
    ("core/include", "ariane_pkg"),
    ("corev_apu/axi/src", "axi_pkg"),
    ("core/include", "ariane_axi_pkg wt_cache_pkg std_cache_pkg cvxif_pkg"),
    ("core", "cvxif_fu"),
    (
        "common/submodules/common_cells/src",
        "cf_math_pkg fifo_v3 lfsr lzc rr_arb_tree shift_reg unread popcount exp_backoff",
    ),
    (
        "core/fpu/src",
        "fpnew_pkg fpnew_cast_multi fpnew_classifier fpnew_divsqrt_multi fpnew_fma_multi fpnew_fma fpnew_noncomp"
        " fpnew_opgroup_block fpnew_opgroup_fmt_slice fpnew_opgroup_multifmt_slice fpnew_rounding fpnew_top",
    ),
    (
        "core",
        "cva6 alu fpu_wrap branch_unit compressed_decoder controller csr_buffer csr_regfile decoder ex_stage instr_realign"
        " id_stage issue_read_operands issue_stage load_unit load_store_unit lsu_bypass mult multiplier serdiv perf_counters"
        " ariane_regfile_ff re_name scoreboard store_buffer amo_buffer store_unit commit_stage axi_shim",
    ),
    ("core/frontend", "btb bht ras instr_scan instr_queue frontend"),
    (
        "core/cache_subsystem",
        "wt_dcache_ctrl wt_dcache_mem wt_dcache_missunit wt_dcache_wbuffer wt_dcache cva6_icache wt_cache_subsystem"
        " wt_axi_adapter",
    ),
    ("core/pmp/src", "pmp pmp_entry"),
    ("common/local/util", "tc_sram_wrapper"),
    ("corev_apu/src/tech_cells_generic/src/rtl", "tc_sram"),
    ("common/local/util", "sram"),
    ("core/mmu_sv39", "mmu ptw tlb"),
)


@dataclass(frozen=True)
class Patch:
    """A piece of one file, which stands there once, and what is in its place.

    Attributes:
        why: for readers of the Verilog.
    """

    file: str
    old: str
    new: str
    why: str


_TOP, _COMMIT = "core/cva6.sv", "core/commit_stage.sv"
_CACHES, _ADAPTER = "core/cache_subsystem/wt_cache_subsystem.sv", "core/cache_subsystem/wt_axi_adapter.sv"
_PACKAGE_FILE = "core/include/ariane_pkg.sv"

PATCHES: tuple[Patch, ...] = (
    # caches of 32 KiB, 8 ways and lines of 64 bytes, as the C++ host core has: a line is a burst
    Patch(_PACKAGE_FILE, "CONFIG_L1I_SIZE    = 16*1024;", "CONFIG_L1I_SIZE    = 32*1024;", "caches"),
    Patch(
        _PACKAGE_FILE,
        "ICACHE_SET_ASSOC   = 4; // Must be between 4 to 64",
        "ICACHE_SET_ASSOC   = 8;",
        "caches",
    ),
    Patch(_PACKAGE_FILE, "ICACHE_LINE_WIDTH  = 128; // in bit", "ICACHE_LINE_WIDTH  = 512;", "caches"),
    Patch(_PACKAGE_FILE, "DCACHE_LINE_WIDTH  = 128; // in bit", "DCACHE_LINE_WIDTH  = 512;", "caches"),
    Patch(
        _PACKAGE_FILE,
        "ICACHE_USER_LINE_WIDTH  = (AXI_USER_WIDTH == 1) ? 4 : 128; // in bit\n    // D$\n    localparam int unsigned CONFIG_L1D_SIZE ",
        "ICACHE_USER_LINE_WIDTH  = 512;\n    // D$\n    localparam int unsigned CONFIG_L1D_SIZE ",
        "caches",
    ),
    Patch(
        _TOP,
        "  input  cvxif_pkg::cvxif_resp_t       cvxif_resp_i,\n",
        "  input  cvxif_pkg::cvxif_resp_t       cvxif_resp_i,\n"
        "  output logic [TRANS_ID_BITS-1:0]     oldest_id_o,\n"
        "  output logic                         stores_done_o,\n"
        "  output logic                         flush_o,\n"
        "  output logic                         fence_waiting_o,\n"
        "  input  logic                         fence_go_i,\n"
        "  input  logic                         flush_cache_i,\n"
        "  output logic                         flush_cache_ack_o,\n"
        "  input  logic                         snoop_valid_i,\n"
        "  output logic                         snoop_ready_o,\n"
        "  input  logic [63:0]                  snoop_addr_i,\n"
        "  output logic [1:0]                   retire_valid_o,\n"
        "  output logic [63:0]                  retire_pc0_o,\n"
        "  output logic [63:0]                  retire_pc1_o,\n"
        "  output logic [3:0]                   events_o,\n",
        "what the bridge to the accelerator needs to know, and what is looked at",
    ),
    Patch(
        _TOP,
        "  // ---------\n  // CSR\n  // ---------\n  csr_regfile #(",
        "  assign oldest_id_o = commit_instr_id_commit[0].trans_id;\n"
        "  assign stores_done_o = no_st_pending_commit;\n"
        "  assign flush_o = flush_ctrl_id;\n"
        "  assign dcache_flush_ack_cache_ctrl = 1'b0;\n"
        "  assign retire_valid_o = commit_ack;\n"
        "  assign retire_pc0_o = 64'(commit_instr_id_commit[0].pc);\n"
        "  assign retire_pc1_o = 64'(commit_instr_id_commit[1].pc);\n"
        "  assign events_o = {fence_waiting_o & ~fence_go_i, resolved_branch.is_mispredict, dcache_miss_cache_perf,\n"
        "                     icache_miss_cache_perf};\n"
        "  // ---------\n  // CSR\n  // ---------\n  csr_regfile #(",
        "the same",
    ),
    Patch(
        _TOP,
        "    .dcache_flush_i        ( dcache_flush_ctrl_cache     ),\n"
        "    .dcache_flush_ack_o    ( dcache_flush_ack_cache_ctrl ),\n"
        "    // to commit stage\n    .dcache_amo_req_i ",
        "    .dcache_flush_i        ( flush_cache_i               ),\n"
        "    .dcache_flush_ack_o    ( flush_cache_ack_o           ),\n"
        "    .snoop_valid_i, .snoop_ready_o, .snoop_addr_i,\n"
        "    // to commit stage\n    .dcache_amo_req_i ",
        "fences empty the data cache from outside; lines are forgotten that others wrote",
    ),
    Patch(
        _COMMIT,
        "    output logic                                    fence_o,            // flush D$ and pipeline\n",
        "    output logic                                    fence_o,            // flush D$ and pipeline\n"
        "    output logic                                    fence_waiting_o,    // the oldest instruction is a fence\n"
        "    input  logic                                    fence_go_i,         // nothing is under way elsewhere\n",
        "fences wait for the accelerator",
    ),
    Patch(
        _COMMIT,
        "        fence_o            = 1'b0;\n",
        "        fence_o            = 1'b0;\n        fence_waiting_o    = 1'b0;\n",
        "fences wait for the accelerator",
    ),
    Patch(
        _COMMIT,
        "                commit_ack_o[0] = no_st_pending_i;\n                // tell the controller to flush the D$\n"
        "                fence_o = no_st_pending_i;\n",
        "                fence_waiting_o = no_st_pending_i;\n"
        "                commit_ack_o[0] = no_st_pending_i & fence_go_i;\n"
        "                fence_o = no_st_pending_i & fence_go_i;\n",
        "fences wait for the accelerator",
    ),
    Patch(
        _COMMIT,
        "            // ------------------\n            // SFENCE.VMA Logic\n",
        "            // commands see all stores before them\n"
        "            if (commit_instr_i[0].fu == CVXIF) begin\n"
        "                commit_ack_o[0] = no_st_pending_i;\n"
        "                we_gpr_o[0] = no_st_pending_i;\n"
        "            end\n"
        "            // ------------------\n            // SFENCE.VMA Logic\n",
        "stores before a command are in memory when it goes to the accelerator",
    ),
    Patch(
        _CACHES,
        "  output logic                           dcache_flush_ack_o,     // send a single cycle acknowledge signal when the cache is flushed\n",
        "  output logic                           dcache_flush_ack_o,     // send a single cycle acknowledge signal when the cache is flushed\n"
        "  input  logic                           snoop_valid_i,\n"
        "  output logic                           snoop_ready_o,\n"
        "  input  logic [63:0]                    snoop_addr_i,\n",
        "lines are forgotten that others wrote",
    ),
    Patch(
        _CACHES,
        "  ) i_adapter (\n    .clk_i              ( clk_i                   ),\n    .rst_ni             ( rst_ni                  ),\n"
        "    .icache_data_req_i  ( icache_adapter_data_req ),\n    .icache_data_ack_o  ( adapter_icache_data_ack ),\n"
        "    .icache_data_i      ( icache_adapter          ),\n    .icache_rtrn_vld_o  ( adapter_icache_rtrn_vld ),\n"
        "    .icache_rtrn_o      ( adapter_icache          ),\n    .dcache_data_req_i  ( dcache_adapter_data_req ),\n"
        "    .dcache_data_ack_o  ( adapter_dcache_data_ack ),\n    .dcache_data_i      ( dcache_adapter          ),\n"
        "    .dcache_rtrn_vld_o  ( adapter_dcache_rtrn_vld ),\n    .dcache_rtrn_o      ( adapter_dcache          ),\n"
        "    .axi_req_o ",
        "  ) i_adapter (\n    .clk_i              ( clk_i                   ),\n    .rst_ni             ( rst_ni                  ),\n"
        "    .snoop_valid_i, .snoop_ready_o, .snoop_addr_i,\n"
        "    .icache_data_req_i  ( icache_adapter_data_req ),\n    .icache_data_ack_o  ( adapter_icache_data_ack ),\n"
        "    .icache_data_i      ( icache_adapter          ),\n    .icache_rtrn_vld_o  ( adapter_icache_rtrn_vld ),\n"
        "    .icache_rtrn_o      ( adapter_icache          ),\n    .dcache_data_req_i  ( dcache_adapter_data_req ),\n"
        "    .dcache_data_ack_o  ( adapter_dcache_data_ack ),\n    .dcache_data_i      ( dcache_adapter          ),\n"
        "    .dcache_rtrn_vld_o  ( adapter_dcache_rtrn_vld ),\n    .dcache_rtrn_o      ( adapter_dcache          ),\n"
        "    .axi_req_o ",
        "the same",
    ),
    Patch(
        _ADAPTER,
        "  // AXI port\n  output axi_req_t             axi_req_o,\n",
        "  input  logic                 snoop_valid_i,\n  output logic                 snoop_ready_o,\n"
        "  input  logic [63:0]          snoop_addr_i,\n\n  // AXI port\n  output axi_req_t             axi_req_o,\n",
        "the same",
    ),
    Patch(
        _ADAPTER,
        "    axi_rd_rdy        = ~invalidate;\n",
        "    axi_rd_rdy        = ~invalidate & ~snoop_valid_i;\n    snoop_ready_o     = ~invalidate;\n",
        "the same",
    ),
    Patch(
        _ADAPTER,
        "    if (invalidate) begin\n",
        "    if (invalidate || snoop_valid_i) begin\n",
        "the same",
    ),
    Patch(
        _ADAPTER,
        "        dcache_rtrn_inv_d.idx  = dcache_data.paddr[ariane_pkg::DCACHE_INDEX_WIDTH-1:0];\n",
        "        dcache_rtrn_inv_d.idx  = invalidate ? dcache_data.paddr[ariane_pkg::DCACHE_INDEX_WIDTH-1:0]\n"
        "                                            : snoop_addr_i[ariane_pkg::DCACHE_INDEX_WIDTH-1:0];\n",
        "the same",
    ),
    # a product of 0 with the addend -0 became -0 when rounding down
    Patch(
        "core/fpu/src/fpnew_fma.sv",
        "fpnew_pkg::MUL: begin // Set addend to -0 (for proper rounding with RDN)\n"
        "        operand_c = '{sign: 1'b1, exponent: '0, mantissa: '0};\n",
        "fpnew_pkg::MUL: begin\n"
        "        operand_c = '{sign: inp_pipe_rnd_mode_q[NUM_INP_REGS] != fpnew_pkg::RDN, exponent: '0, mantissa: '0};\n",
        "products of 0 keep their sign when rounding down",
    ),
    # Yosys with slang refuses ranges beyond a vector where no simulation comes
    Patch(
        "core/cache_subsystem/wt_dcache_wbuffer.sv",
        "wbuffer_d[wr_ptr].user[k*8 +: 8] = req_port_i.data_wuser[k*8 +: 8];",
        "wbuffer_d[wr_ptr].user = req_port_i.data_wuser;",
        "there are no user bits",
    ),
    # between issue and result, a reader of a register that no command writes must not wait for one, nor get 0
    Patch(
        "core/decoder.sv",
        "                instruction_o.rd    = instr.r4type.rd;\n                instruction_o.op    = ariane_pkg::OFFLOAD;\n",
        "                instruction_o.rd    = instr.instr[14] ? instr.r4type.rd : '0;\n"
        "                instruction_o.op    = ariane_pkg::OFFLOAD;\n",
        "commands without a result write no register",
    ),
)


def core_folder() -> Path:
    """Of the package's sources. Raises InputError where it is not installed."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise InputError(
            "a SoC has the core CVA6, whose package is not installed", hint="pip install 'baco[soc]'"
        )
    return Path(spec.origin).parent / "system_verilog"


def patched(file: str, text: str, patches: tuple[Patch, ...] = PATCHES) -> str:
    """A file of the package as it is read here. Raises InputError where a piece does not stand there once."""
    for patch in patches:
        if patch.file != file:
            continue
        if (times := text.count(patch.old)) != 1:
            raise InputError(
                f"{PACKAGE}: {file} has {times} times what is to be replaced there ({patch.why}):"
                f" {patch.old.strip().splitlines()[0].strip()}",
                hint="take the version that baco was made for: pip install 'baco[soc]'",
            )
        text = text.replace(patch.old, patch.new)
    return text


@cache
def core_verilog() -> str:
    """SystemVerilog of CVA6: all its packages and modules, without an include. Raises InputError as `patched`."""
    return _text(core_folder(), PATCHES)


def _text(folder: Path, patches: tuple[Patch, ...]) -> str:
    texts: Mapping[str, str] = {
        file: (folder / file).read_text(encoding="utf-8")
        for file in [_MACROS, *(f"{at}/{name}.sv" for at, names in _FILES for name in names.split())]
    }
    unknown = {patch.file for patch in patches} - set(texts)
    assert not unknown, unknown
    parts = [f"`define {name}\n" for name in DEFINES]
    parts += [
        _REPLACED.sub("", _SIMULATED.sub("", _INCLUDE.sub("", patched(file, text, patches))))
        for file, text in texts.items()
    ]
    return "\n".join(parts)
