// baco_axi4 as a simulator that knows the accelerator's own ports sees it: commands go through the registers, bursts become
// the requests of the memory port. Every channel waits at random; what the caller's memory does stirs the chances, and so does
// +bus_seed=N. With +bus_errors=N one burst of about N ends with an error, and reads nonsense. That is told as error code 15,
// and `restart` then resets the accelerator through its registers, after which there are no more errors.
//
// There is no polling: it reads STATUS when the interrupt rises, so that one that never does is seen as a program that hangs.
`include "baco_config.vh"
module axi4_bench (
    input wire clock,
    input wire reset,
    input wire restart,                              // asked for in a cycle in which nothing is under way: reset by software
    input wire cmd_valid,
    output wire cmd_ready,
    input wire [6:0] cmd_funct,
    input wire [4:0] cmd_rd,
    input wire cmd_xd,
    input wire [63:0] cmd_rs1,
    input wire [63:0] cmd_rs2,
    output wire resp_valid,
    input wire resp_ready,
    output wire [4:0] resp_rd,
    output wire [63:0] resp_data,
    output wire busy,
    output wire error_valid,
    output wire [3:0] error_code,
    output wire [6:0] error_funct,
    output wire [63:0] error_rs1,
    output wire [63:0] error_rs2,
    output wire rd_req_valid,
    input wire rd_req_ready,
    output wire [39:0] rd_req_addr,
    output wire [2:0] rd_req_size,
    input wire rd_resp_valid,
    output wire rd_resp_ready,
    input wire [`BACO_DMA_BITS-1:0] rd_resp_data,
    output wire wr_req_valid,
    input wire wr_req_ready,
    output wire [39:0] wr_req_addr,
    output wire [`BACO_DMA_BITS-1:0] wr_req_data,
    output wire [`BACO_DMA_BITS/8-1:0] wr_req_mask,
    input wire wr_ack_valid,
    output wire event_alloc,
    output wire [1:0] event_alloc_class,
    output wire [`BACO_ID_BITS-1:0] event_alloc_id,
    output wire [6:0] event_alloc_funct,
    output wire [63:0] event_alloc_rs1,
    output wire [63:0] event_alloc_rs2,
    output wire [2:0] event_alloc_loop,
    output wire event_ld_issue,
    output wire [`BACO_ID_BITS-1:0] event_ld_issue_id,
    output wire event_ld_done,
    output wire [`BACO_ID_BITS-1:0] event_ld_done_id,
    output wire event_ex_issue,
    output wire [`BACO_ID_BITS-1:0] event_ex_issue_id,
    output wire [2:0] event_ex_done,
    output wire [`BACO_ID_BITS-1:0] event_ex_done_id0,
    output wire [`BACO_ID_BITS-1:0] event_ex_done_id1,
    output wire [`BACO_ID_BITS-1:0] event_ex_done_id2,
    output wire event_st_issue,
    output wire [`BACO_ID_BITS-1:0] event_st_issue_id,
    output wire event_st_done,
    output wire [`BACO_ID_BITS-1:0] event_st_done_id,
    output wire [3:0] event_loops,
    output wire [7:0] event_units
);
  localparam BITS = `BACO_DMA_BITS, BEAT = BITS / 8;

  wire [31:0] chance, errors;
  wire [7:0] go;
  wire forgotten;
  axi4_chance random (
      .clock(clock), .stirs({rd_req_ready === 1'b1, wr_req_ready === 1'b1, rd_resp_valid === 1'b1, wr_ack_valid === 1'b1}),
      .forgotten(forgotten), .chance(chance), .errors(errors), .go(go));

  wire irq, awvalid, awready, wvalid, wready, arvalid, s_arready, bvalid, bready, s_rvalid, s_rready;
  wire [11:0] address;
  wire [31:0] data, s_rdata;
  wire [1:0] bresp, s_rresp;
  wire m_awvalid, m_wvalid, m_bready, m_arvalid, m_rready, m_wlast;
  wire m_awready, m_wready, m_arready, m_bvalid, m_rvalid, m_rlast;
  wire [1:0] m_bresp, m_rresp;
  wire [BITS-1:0] m_rdata;
  wire [39:0] m_awaddr, m_araddr;
  wire [7:0] m_awlen, m_arlen;
  wire [2:0] m_awsize, m_arsize;
  wire [1:0] m_awburst, m_arburst;
  wire [BITS-1:0] m_wdata;
  wire [BEAT-1:0] m_wstrb;
  baco_axi4 bus (
      .aclk(clock), .aresetn(!reset), .irq(irq),
      .s_axi_awvalid(awvalid), .s_axi_awready(awready), .s_axi_awaddr(address), .s_axi_awprot(3'd0),
      .s_axi_wvalid(wvalid), .s_axi_wready(wready), .s_axi_wdata(data), .s_axi_wstrb(4'hf),
      .s_axi_bvalid(bvalid), .s_axi_bready(bready), .s_axi_bresp(bresp),
      .s_axi_arvalid(arvalid), .s_axi_arready(s_arready), .s_axi_araddr(address), .s_axi_arprot(3'd0),
      .s_axi_rvalid(s_rvalid), .s_axi_rready(s_rready), .s_axi_rdata(s_rdata), .s_axi_rresp(s_rresp),
      .m_axi_awvalid(m_awvalid), .m_axi_awready(m_awready), .m_axi_awid(), .m_axi_awaddr(m_awaddr), .m_axi_awlen(m_awlen),
      .m_axi_awsize(m_awsize), .m_axi_awburst(m_awburst), .m_axi_awlock(), .m_axi_awcache(), .m_axi_awprot(), .m_axi_awqos(),
      .m_axi_wvalid(m_wvalid), .m_axi_wready(m_wready), .m_axi_wdata(m_wdata), .m_axi_wstrb(m_wstrb), .m_axi_wlast(m_wlast),
      .m_axi_bvalid(m_bvalid), .m_axi_bready(m_bready), .m_axi_bid(1'b0), .m_axi_bresp(m_bresp),
      .m_axi_arvalid(m_arvalid), .m_axi_arready(m_arready), .m_axi_arid(), .m_axi_araddr(m_araddr), .m_axi_arlen(m_arlen),
      .m_axi_arsize(m_arsize), .m_axi_arburst(m_arburst), .m_axi_arlock(), .m_axi_arcache(), .m_axi_arprot(), .m_axi_arqos(),
      .m_axi_rvalid(m_rvalid), .m_axi_rready(m_rready), .m_axi_rid(1'b0), .m_axi_rdata(m_rdata), .m_axi_rresp(m_rresp),
      .m_axi_rlast(m_rlast));
  wire broken;
  axi4_checks #(.ADDR_BITS(40), .DMA_BITS(BITS)) checks (
      .aclk(clock), .aresetn(!reset), .broken(broken),
      .s_awvalid(awvalid), .s_awready(awready), .s_awaddr(address), .s_wvalid(wvalid), .s_wready(wready), .s_wdata(data),
      .s_wstrb(4'hf), .s_bvalid(bvalid), .s_bready(bready), .s_bresp(bresp), .s_arvalid(arvalid), .s_arready(s_arready),
      .s_araddr(address), .s_rvalid(s_rvalid), .s_rready(s_rready), .s_rdata(s_rdata), .s_rresp(s_rresp),
      .m_awvalid(m_awvalid), .m_awready(m_awready), .m_awaddr(m_awaddr), .m_awlen(m_awlen), .m_awsize(m_awsize),
      .m_awburst(m_awburst), .m_wvalid(m_wvalid), .m_wready(m_wready), .m_wdata(m_wdata), .m_wstrb(m_wstrb),
      .m_wlast(m_wlast), .m_bvalid(m_bvalid), .m_bready(m_bready), .m_bresp(m_bresp), .m_arvalid(m_arvalid),
      .m_arready(m_arready), .m_araddr(m_araddr), .m_arlen(m_arlen), .m_arsize(m_arsize), .m_arburst(m_arburst),
      .m_rvalid(m_rvalid), .m_rready(m_rready), .m_rdata(m_rdata), .m_rresp(m_rresp), .m_rlast(m_rlast));

  axi4_driver driver (
      .clock(clock), .reset(reset), .chance(chance), .go(go[3:0]), .broken(broken), .restart(restart), .forgotten(forgotten),
      .cmd_valid(cmd_valid), .cmd_ready(cmd_ready), .cmd_funct(cmd_funct), .cmd_rd(cmd_rd), .cmd_xd(cmd_xd),
      .cmd_rs1(cmd_rs1), .cmd_rs2(cmd_rs2), .resp_valid(resp_valid), .resp_ready(resp_ready), .resp_rd(resp_rd),
      .resp_data(resp_data), .busy(busy), .error_valid(error_valid), .error_code(error_code), .error_funct(error_funct),
      .error_rs1(error_rs1), .error_rs2(error_rs2), .irq(irq), .awvalid(awvalid), .awready(awready), .wvalid(wvalid),
      .wready(wready), .arvalid(arvalid), .s_arready(s_arready), .address(address), .data(data), .bvalid(bvalid),
      .bready(bready), .bresp(bresp), .s_rvalid(s_rvalid), .s_rready(s_rready), .s_rdata(s_rdata), .s_rresp(s_rresp));
  axi4_port #(.BITS(BITS)) port (
      .clock(clock), .reset(reset), .chance(chance), .go(go[7:3]), .errors(errors), .m_awvalid(m_awvalid),
      .m_awready(m_awready), .m_awaddr(m_awaddr), .m_awlen(m_awlen), .m_wvalid(m_wvalid), .m_wready(m_wready),
      .m_wdata(m_wdata), .m_wstrb(m_wstrb), .m_wlast(m_wlast), .m_bvalid(m_bvalid), .m_bready(m_bready), .m_bresp(m_bresp),
      .m_arvalid(m_arvalid), .m_arready(m_arready), .m_araddr(m_araddr), .m_arlen(m_arlen), .m_rvalid(m_rvalid),
      .m_rready(m_rready), .m_rdata(m_rdata), .m_rresp(m_rresp), .m_rlast(m_rlast), .rd_req_valid(rd_req_valid),
      .rd_req_ready(rd_req_ready), .rd_req_addr(rd_req_addr), .rd_req_size(rd_req_size), .rd_resp_valid(rd_resp_valid),
      .rd_resp_ready(rd_resp_ready), .rd_resp_data(rd_resp_data), .wr_req_valid(wr_req_valid), .wr_req_ready(wr_req_ready),
      .wr_req_addr(wr_req_addr), .wr_req_data(wr_req_data), .wr_req_mask(wr_req_mask), .wr_ack_valid(wr_ack_valid));

  assign event_alloc = bus.accelerator.event_alloc;
  assign event_alloc_class = bus.accelerator.event_alloc_class;
  assign event_alloc_id = bus.accelerator.event_alloc_id;
  assign event_alloc_funct = bus.accelerator.event_alloc_funct;
  assign event_alloc_rs1 = bus.accelerator.event_alloc_rs1;
  assign event_alloc_rs2 = bus.accelerator.event_alloc_rs2;
  assign event_alloc_loop = bus.accelerator.event_alloc_loop;
  assign event_ld_issue = bus.accelerator.event_ld_issue;
  assign event_ld_issue_id = bus.accelerator.event_ld_issue_id;
  assign event_ld_done = bus.accelerator.event_ld_done;
  assign event_ld_done_id = bus.accelerator.event_ld_done_id;
  assign event_ex_issue = bus.accelerator.event_ex_issue;
  assign event_ex_issue_id = bus.accelerator.event_ex_issue_id;
  assign event_ex_done = bus.accelerator.event_ex_done;
  assign event_ex_done_id0 = bus.accelerator.event_ex_done_id0;
  assign event_ex_done_id1 = bus.accelerator.event_ex_done_id1;
  assign event_ex_done_id2 = bus.accelerator.event_ex_done_id2;
  assign event_st_issue = bus.accelerator.event_st_issue;
  assign event_st_issue_id = bus.accelerator.event_st_issue_id;
  assign event_st_done = bus.accelerator.event_st_done;
  assign event_st_done_id = bus.accelerator.event_st_done_id;
  assign event_loops = bus.accelerator.event_loops;
  assign event_units = bus.accelerator.event_units;
endmodule
