// A system on a chip: a core (baco_core.sv) with the accelerator on its extension port, and one AXI4 manager for the main memory
// of both. The core starts at a boot ROM, which jumps to `boot_address`. The accelerator and the core take turns at memory; what
// the accelerator writes, the core sees behind a fence, what others on the bus write, when they say so (`snoop`).
module baco_soc #(
    parameter ADDR_BITS = `BACO_ADDR_BITS,
    parameter DMA_BITS = `BACO_DMA_BITS,             // data width of the manager, 64 or more
    parameter DMA_REQUESTS = `BACO_DMA_REQUESTS,     // read bursts of the accelerator in flight
    parameter ID_BITS = `BACO_ID_BITS
) (
    input wire clock,
    input wire reset,                                // synchronous, active high
    input wire [ADDR_BITS-1:0] boot_address,         // of the program's first instruction; constant
    // lines of the core's data cache that another manager on the bus has written to: told when the write is in memory, and
    // answers to all reads before it are here
    input wire snoop_valid,
    output wire snoop_ready,
    input wire [ADDR_BITS-1:0] snoop_addr,
    // AXI4 manager: main memory
    output wire m_axi_awvalid,
    input wire m_axi_awready,
    output wire m_axi_awid,
    output wire [ADDR_BITS-1:0] m_axi_awaddr,
    output wire [7:0] m_axi_awlen,
    output wire [2:0] m_axi_awsize,
    output wire [1:0] m_axi_awburst,
    output wire m_axi_awlock,
    output wire [3:0] m_axi_awcache,
    output wire [2:0] m_axi_awprot,
    output wire [3:0] m_axi_awqos,
    output wire m_axi_wvalid,
    input wire m_axi_wready,
    output wire [DMA_BITS-1:0] m_axi_wdata,
    output wire [DMA_BITS/8-1:0] m_axi_wstrb,
    output wire m_axi_wlast,
    input wire m_axi_bvalid,
    output wire m_axi_bready,
    input wire m_axi_bid,                            // one ID: not looked at
    input wire [1:0] m_axi_bresp,
    output wire m_axi_arvalid,
    input wire m_axi_arready,
    output wire m_axi_arid,
    output wire [ADDR_BITS-1:0] m_axi_araddr,
    output wire [7:0] m_axi_arlen,
    output wire [2:0] m_axi_arsize,
    output wire [1:0] m_axi_arburst,
    output wire m_axi_arlock,
    output wire [3:0] m_axi_arcache,
    output wire [2:0] m_axi_arprot,
    output wire [3:0] m_axi_arqos,
    input wire m_axi_rvalid,
    output wire m_axi_rready,
    input wire m_axi_rid,                            // one ID: not looked at
    input wire [DMA_BITS-1:0] m_axi_rdata,
    input wire [1:0] m_axi_rresp,
    input wire m_axi_rlast,
    output reg bus_error,                            // a burst came with an error; until reset
    // to be looked at, or left open: what the core executes, its events, commands, and the accelerator's own
    output wire [1:0] retire_valid,
    output wire [63:0] retire_pc0,
    output wire [63:0] retire_pc1,
    output wire [3:0] core_events,
    output wire stores_done,                         // all that the core has stored is in memory
    output wire cmd_valid,
    output wire cmd_ready,
    output wire [6:0] cmd_funct,
    output wire [4:0] cmd_rd,
    output wire cmd_xd,
    output wire [63:0] cmd_rs1,
    output wire [63:0] cmd_rs2,
    output wire resp_valid,
    output wire resp_ready,
    output wire [63:0] resp_data,
    output wire busy,
    output wire error_valid,
    output wire [3:0] error_code,
    output wire [6:0] error_funct,
    output wire [63:0] error_rs1,
    output wire [63:0] error_rs2,
    output wire event_alloc,
    output wire [1:0] event_alloc_class,
    output wire [ID_BITS-1:0] event_alloc_id,
    output wire [6:0] event_alloc_funct,
    output wire [63:0] event_alloc_rs1,
    output wire [63:0] event_alloc_rs2,
    output wire [2:0] event_alloc_loop,
    output wire event_ld_issue,
    output wire [ID_BITS-1:0] event_ld_issue_id,
    output wire event_ld_done,
    output wire [ID_BITS-1:0] event_ld_done_id,
    output wire event_ex_issue,
    output wire [ID_BITS-1:0] event_ex_issue_id,
    output wire [2:0] event_ex_done,
    output wire [ID_BITS-1:0] event_ex_done_id0,
    output wire [ID_BITS-1:0] event_ex_done_id1,
    output wire [ID_BITS-1:0] event_ex_done_id2,
    output wire event_st_issue,
    output wire [ID_BITS-1:0] event_st_issue_id,
    output wire event_st_done,
    output wire [ID_BITS-1:0] event_st_done_id,
    output wire [3:0] event_loops,
    output wire [7:0] event_units
);
  localparam BEAT = DMA_BITS / 8;
  localparam CORE_READS = 8, CORE_WRITES = 16;

  // ---------------------------------------------------------------- the core
  wire issue_valid, issue_ready, flush, result_valid, result_we, result_exc, fence_waiting, fence_go, flush_cache, flush_cache_ack;
  wire [31:0] issue_instr;
  wire [2:0] issue_id, oldest_id, result_id, awsize;
  wire [63:0] issue_rs1, issue_rs2, result_data, awaddr, wdata, araddr, rdata;
  wire awvalid, awready, awlock, wvalid, wready, bvalid, bready, arvalid, arready, arlock, rvalid, rready, rlast;
  wire [3:0] awid, bid, arid, rid;
  wire [5:0] awatop;
  wire [7:0] wstrb, arlen;
  wire [1:0] bresp, rresp;
  baco_core core (
      .clock(clock), .reset(reset), .issue_valid(issue_valid), .issue_ready(issue_ready), .issue_instr(issue_instr),
      .issue_id(issue_id), .issue_rs1(issue_rs1), .issue_rs2(issue_rs2), .oldest_id(oldest_id), .stores_done(stores_done), .flush(flush),
      .result_valid(result_valid), .result_id(result_id), .result_data(result_data), .result_we(result_we),
      .result_exc(result_exc), .fence_waiting(fence_waiting), .fence_go(fence_go), .flush_cache(flush_cache),
      .flush_cache_ack(flush_cache_ack), .snoop_valid(snoop_valid), .snoop_ready(snoop_ready),
      .snoop_addr({{64 - ADDR_BITS{1'b0}}, snoop_addr}), .retire_valid(retire_valid), .retire_pc0(retire_pc0),
      .retire_pc1(retire_pc1), .core_events(core_events),
      .awvalid(awvalid), .awready(awready), .awid(awid), .awaddr(awaddr), .awsize(awsize), .awlock(awlock), .awatop(awatop),
      .wvalid(wvalid), .wready(wready), .wdata(wdata), .wstrb(wstrb), .bvalid(bvalid), .bready(bready), .bid(bid), .bresp(bresp),
      .arvalid(arvalid), .arready(arready), .arid(arid), .araddr(araddr), .arlen(arlen), .arlock(arlock),
      .rvalid(rvalid), .rready(rready), .rid(rid), .rdata(rdata), .rresp(rresp), .rlast(rlast));

  wire [1:0] rd_req_valid, rd_req_ready, rd_resp_valid, rd_resp_ready, wr_req_valid, wr_req_ready, wr_ack_valid;
  wire [2*ADDR_BITS-1:0] rd_req_addr, wr_req_addr;
  wire [5:0] rd_req_size;
  wire [2*DMA_BITS-1:0] rd_resp_data, wr_req_data;
  wire [2*BEAT-1:0] wr_req_mask;
  baco_core_port #(.ADDR_BITS(ADDR_BITS), .DMA_BITS(DMA_BITS), .READS(CORE_READS), .WRITES(CORE_WRITES)) core_port (
      .clock(clock), .reset(reset), .boot_address({{64 - ADDR_BITS{1'b0}}, boot_address}),
      .awvalid(awvalid), .awready(awready), .awid(awid), .awaddr(awaddr), .awsize(awsize), .awlock(awlock), .awatop(awatop),
      .wvalid(wvalid), .wready(wready), .wdata(wdata), .wstrb(wstrb), .bvalid(bvalid), .bready(bready), .bid(bid), .bresp(bresp),
      .arvalid(arvalid), .arready(arready), .arid(arid), .araddr(araddr), .arlen(arlen), .arlock(arlock),
      .rvalid(rvalid), .rready(rready), .rid(rid), .rdata(rdata), .rresp(rresp), .rlast(rlast),
      .rd_req_valid(rd_req_valid[1]), .rd_req_ready(rd_req_ready[1]), .rd_req_addr(rd_req_addr[ADDR_BITS +: ADDR_BITS]),
      .rd_req_size(rd_req_size[5:3]), .rd_resp_valid(rd_resp_valid[1]), .rd_resp_ready(rd_resp_ready[1]),
      .rd_resp_data(rd_resp_data[DMA_BITS +: DMA_BITS]), .wr_req_valid(wr_req_valid[1]), .wr_req_ready(wr_req_ready[1]),
      .wr_req_addr(wr_req_addr[ADDR_BITS +: ADDR_BITS]), .wr_req_data(wr_req_data[DMA_BITS +: DMA_BITS]),
      .wr_req_mask(wr_req_mask[BEAT +: BEAT]), .wr_ack_valid(wr_ack_valid[1]));

  // ---------------------------------------------------------------- the accelerator
  wire [4:0] _unused_resp_rd;
  baco_cvxif bridge (
      .clock(clock), .reset(reset), .issue_valid(issue_valid), .issue_ready(issue_ready), .issue_instr(issue_instr),
      .issue_id(issue_id), .issue_rs1(issue_rs1), .issue_rs2(issue_rs2), .oldest_id(oldest_id), .stores_done(stores_done), .flush(flush),
      .result_valid(result_valid), .result_id(result_id), .result_data(result_data), .result_we(result_we),
      .result_exc(result_exc), .fence_waiting(fence_waiting), .fence_go(fence_go), .flush_cache(flush_cache),
      .flush_cache_ack(flush_cache_ack), .cmd_valid(cmd_valid), .cmd_ready(cmd_ready), .cmd_funct(cmd_funct), .cmd_rd(cmd_rd),
      .cmd_xd(cmd_xd), .cmd_rs1(cmd_rs1), .cmd_rs2(cmd_rs2), .resp_valid(resp_valid), .resp_ready(resp_ready),
      .resp_data(resp_data), .accelerator_busy(busy), .accelerator_writes(wr_req_valid[0] && wr_req_ready[0]));
  // Nothing moves in it until the next command: its clock stands still. `busy` excludes what settles behind the last command.
  localparam [6:0] SETTLES = 7'd64;
  reg [6:0] awake;
  wire accelerator_clock;
  wire stirs = reset || cmd_valid || resp_valid || busy;
  always @(posedge clock)
    if (stirs) awake <= SETTLES;
    else if (awake != 7'd0) awake <= awake - 7'd1;
  baco_clock_gate gate (.clock(clock), .enable(stirs || awake != 7'd0), .gated(accelerator_clock));
  baco_accelerator accelerator (
      .clock(accelerator_clock), .reset(reset),
      .cmd_valid(cmd_valid), .cmd_ready(cmd_ready), .cmd_funct(cmd_funct), .cmd_rd(cmd_rd), .cmd_xd(cmd_xd),
      .cmd_rs1(cmd_rs1), .cmd_rs2(cmd_rs2), .resp_valid(resp_valid), .resp_ready(resp_ready), .resp_rd(_unused_resp_rd),
      .resp_data(resp_data), .busy(busy), .error_valid(error_valid), .error_code(error_code),
      .error_funct(error_funct), .error_rs1(error_rs1), .error_rs2(error_rs2),
      .rd_req_valid(rd_req_valid[0]), .rd_req_ready(rd_req_ready[0]), .rd_req_addr(rd_req_addr[0 +: ADDR_BITS]),
      .rd_req_size(rd_req_size[2:0]), .rd_resp_valid(rd_resp_valid[0]), .rd_resp_ready(rd_resp_ready[0]),
      .rd_resp_data(rd_resp_data[0 +: DMA_BITS]), .wr_req_valid(wr_req_valid[0]), .wr_req_ready(wr_req_ready[0]),
      .wr_req_addr(wr_req_addr[0 +: ADDR_BITS]), .wr_req_data(wr_req_data[0 +: DMA_BITS]), .wr_req_mask(wr_req_mask[0 +: BEAT]),
      .wr_ack_valid(wr_ack_valid[0]),
      .event_alloc(event_alloc), .event_alloc_class(event_alloc_class), .event_alloc_id(event_alloc_id),
      .event_alloc_funct(event_alloc_funct), .event_alloc_rs1(event_alloc_rs1), .event_alloc_rs2(event_alloc_rs2),
      .event_alloc_loop(event_alloc_loop), .event_ld_issue(event_ld_issue), .event_ld_issue_id(event_ld_issue_id),
      .event_ld_done(event_ld_done), .event_ld_done_id(event_ld_done_id), .event_ex_issue(event_ex_issue),
      .event_ex_issue_id(event_ex_issue_id), .event_ex_done(event_ex_done), .event_ex_done_id0(event_ex_done_id0),
      .event_ex_done_id1(event_ex_done_id1), .event_ex_done_id2(event_ex_done_id2), .event_st_issue(event_st_issue),
      .event_st_issue_id(event_st_issue_id), .event_st_done(event_st_done), .event_st_done_id(event_st_done_id),
      .event_loops(event_loops), .event_units(event_units));

  // ---------------------------------------------------------------- memory
  wire read_valid, read_ready, beat_valid, beat_ready, write_valid, write_ready, write_ack;
  wire [ADDR_BITS-1:0] read_addr, write_addr;
  wire [2:0] read_size;
  wire [DMA_BITS-1:0] beat_data, write_data;
  wire [BEAT-1:0] write_mask;
  wire [1:0] _unused_reader, _unused_writer;
  baco_memory_arbiter #(
      .UNITS(2), .ADDR_BITS(ADDR_BITS), .DMA_BITS(DMA_BITS), .READS(DMA_REQUESTS + CORE_READS)) arbiter (
      .clock(clock), .reset(reset), .unit_rd_req_valid(rd_req_valid), .unit_rd_req_ready(rd_req_ready),
      .unit_rd_req_addr(rd_req_addr), .unit_rd_req_size(rd_req_size), .unit_rd_resp_valid(rd_resp_valid),
      .unit_rd_resp_ready(rd_resp_ready), .unit_rd_resp_data(rd_resp_data), .unit_wr_req_valid(wr_req_valid),
      .unit_wr_req_ready(wr_req_ready), .unit_wr_req_addr(wr_req_addr), .unit_wr_req_data(wr_req_data),
      .unit_wr_req_mask(wr_req_mask), .unit_wr_ack_valid(wr_ack_valid),
      .rd_req_valid(read_valid), .rd_req_ready(read_ready), .rd_req_addr(read_addr), .rd_req_size(read_size),
      .rd_req_unit(_unused_reader), .wr_req_unit(_unused_writer), .rd_resp_valid(beat_valid), .rd_resp_ready(beat_ready), .rd_resp_data(beat_data), .wr_req_valid(write_valid),
      .wr_req_ready(write_ready), .wr_req_addr(write_addr), .wr_req_data(write_data), .wr_req_mask(write_mask),
      .wr_ack_valid(write_ack));

  wire read_error, write_error, _unused_idle, _unused_read_tag, _unused_write_tag;
  wire [1:0] _unused_read_response, _unused_write_response;
  wire [ADDR_BITS-1:0] _unused_read_address, _unused_write_address;
  baco_axi4_memory #(.ADDR_BITS(ADDR_BITS), .DMA_BITS(DMA_BITS), .REQUESTS(DMA_REQUESTS + CORE_READS)) memory (
      .clock(clock), .reset(reset), .halted(1'b0), .idle(_unused_idle),
      .rd_req_valid(read_valid), .rd_req_ready(read_ready), .rd_req_addr(read_addr), .rd_req_size(read_size), .rd_req_tag(1'b0),
      .rd_resp_valid(beat_valid), .rd_resp_ready(beat_ready), .rd_resp_data(beat_data),
      .wr_req_valid(write_valid), .wr_req_ready(write_ready), .wr_req_addr(write_addr), .wr_req_data(write_data),
      .wr_req_mask(write_mask), .wr_req_tag(1'b0), .wr_ack_valid(write_ack),
      .read_error(read_error), .read_response(_unused_read_response), .read_address(_unused_read_address), .read_tag(_unused_read_tag),
      .write_error(write_error), .write_response(_unused_write_response), .write_address(_unused_write_address),
      .write_tag(_unused_write_tag),
      .awvalid(m_axi_awvalid), .awready(m_axi_awready), .awid(m_axi_awid), .awaddr(m_axi_awaddr), .awlen(m_axi_awlen),
      .awsize(m_axi_awsize), .awburst(m_axi_awburst), .awlock(m_axi_awlock), .awcache(m_axi_awcache), .awprot(m_axi_awprot),
      .awqos(m_axi_awqos), .wvalid(m_axi_wvalid), .wready(m_axi_wready), .wdata(m_axi_wdata), .wstrb(m_axi_wstrb),
      .wlast(m_axi_wlast), .bvalid(m_axi_bvalid), .bready(m_axi_bready), .bresp(m_axi_bresp),
      .arvalid(m_axi_arvalid), .arready(m_axi_arready), .arid(m_axi_arid), .araddr(m_axi_araddr), .arlen(m_axi_arlen),
      .arsize(m_axi_arsize), .arburst(m_axi_arburst), .arlock(m_axi_arlock), .arcache(m_axi_arcache), .arprot(m_axi_arprot),
      .arqos(m_axi_arqos), .rvalid(m_axi_rvalid), .rready(m_axi_rready), .rdata(m_axi_rdata), .rresp(m_axi_rresp),
      .rlast(m_axi_rlast));
  always @(posedge clock)
    if (reset) bus_error <= 1'b0;
    else if (read_error || write_error) bus_error <= 1'b1;

  wire _unused = &{1'b0, m_axi_bid, m_axi_rid};
endmodule
