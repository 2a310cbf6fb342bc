// The accelerator on AXI4: commands come through registers on AXI4-Lite, main memory is reached as an AXI4 manager.
//
// What registers mean is told once, in baco.accel.bus. Programs write the operands of a command and then COMMAND; the
// interrupt is a level, high while something that INTERRUPT enables is true. Bursts increment, never cross 4 KiB and have one
// ID, so that answers come in order. After an error on the bus everything still ends: what was read is whatever the bus gave,
// the first error is kept in registers. A reset through CONTROL lets all transactions end before the accelerator forgets them.
module baco_axi4 #(
    parameter ADDR_BITS = `BACO_ADDR_BITS,
    parameter DMA_BITS = `BACO_DMA_BITS,             // data width of the manager
    parameter DMA_REQUESTS = `BACO_DMA_REQUESTS,     // read bursts in flight
    parameter COMMAND_QUEUE = 16                     // commands that wait for the accelerator
) (
    input wire aclk,
    input wire aresetn,                              // synchronous, active low
    output wire irq,                                 // level, active high
    // AXI4-Lite subordinate: registers of 32 bits
    input wire s_axi_awvalid,
    output wire s_axi_awready,
    input wire [11:0] s_axi_awaddr,
    input wire [2:0] s_axi_awprot,                   // not looked at
    input wire s_axi_wvalid,
    output wire s_axi_wready,
    input wire [31:0] s_axi_wdata,
    input wire [3:0] s_axi_wstrb,                    // registers are written whole: else nothing is, and the answer is an error
    output wire s_axi_bvalid,
    input wire s_axi_bready,
    output wire [1:0] s_axi_bresp,
    input wire s_axi_arvalid,
    output wire s_axi_arready,
    input wire [11:0] s_axi_araddr,
    input wire [2:0] s_axi_arprot,                   // not looked at
    output wire s_axi_rvalid,
    input wire s_axi_rready,
    output wire [31:0] s_axi_rdata,
    output wire [1:0] s_axi_rresp,
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
    input wire m_axi_rlast
);
  wire bus_idle;
  wire halted;                                       // the accelerator is cut off from the bus, or in reset
  wire restart;                                      // the accelerator and what it left behind are reset
  wire reset = !aresetn || restart;

  wire cmd_valid, cmd_ready, cmd_xd, resp_valid, resp_ready, accelerator_busy;
  wire [6:0] cmd_funct;
  wire [4:0] cmd_rd, resp_rd;
  wire [63:0] cmd_rs1, cmd_rs2, resp_data;
  wire error_valid;
  wire [3:0] error_code;
  wire [6:0] error_funct;
  wire [63:0] error_rs1, error_rs2;
  wire read_error, write_error;
  wire [1:0] read_response, write_response;
  wire [ADDR_BITS-1:0] read_address, write_address;
  baco_axi4_commands #(.ADDR_BITS(ADDR_BITS), .COMMAND_QUEUE(COMMAND_QUEUE)) commands (
      .clock(aclk), .reset(!aresetn), .irq(irq),
      .awvalid(s_axi_awvalid), .awready(s_axi_awready), .awaddr(s_axi_awaddr), .wvalid(s_axi_wvalid), .wready(s_axi_wready),
      .wdata(s_axi_wdata), .wstrb(s_axi_wstrb), .bvalid(s_axi_bvalid), .bready(s_axi_bready), .bresp(s_axi_bresp),
      .arvalid(s_axi_arvalid), .arready(s_axi_arready), .araddr(s_axi_araddr), .rvalid(s_axi_rvalid), .rready(s_axi_rready),
      .rdata(s_axi_rdata), .rresp(s_axi_rresp),
      .cmd_valid(cmd_valid), .cmd_ready(cmd_ready), .cmd_funct(cmd_funct), .cmd_rd(cmd_rd), .cmd_xd(cmd_xd),
      .cmd_rs1(cmd_rs1), .cmd_rs2(cmd_rs2), .resp_valid(resp_valid), .resp_ready(resp_ready), .resp_rd(resp_rd),
      .resp_data(resp_data), .busy(accelerator_busy), .error_valid(error_valid), .error_code(error_code),
      .error_funct(error_funct), .error_rs1(error_rs1), .error_rs2(error_rs2),
      .read_error(read_error), .read_response(read_response), .read_address(read_address),
      .write_error(write_error), .write_response(write_response), .write_address(write_address),
      .bus_idle(bus_idle), .halted(halted), .restart(restart));

  // ---------------------------------------------------------------- the accelerator and its memory
  wire rd_req_valid, rd_req_ready, rd_resp_valid, rd_resp_ready, wr_req_valid, wr_req_ready, wr_ack_valid;
  wire [ADDR_BITS-1:0] rd_req_addr, wr_req_addr;
  wire [2:0] rd_req_size;
  wire [DMA_BITS-1:0] rd_resp_data, wr_req_data;
  wire [DMA_BITS/8-1:0] wr_req_mask;
  baco_accelerator accelerator (
      .clock(aclk), .reset(reset),
      .cmd_valid(cmd_valid), .cmd_ready(cmd_ready), .cmd_funct(cmd_funct), .cmd_rd(cmd_rd), .cmd_xd(cmd_xd),
      .cmd_rs1(cmd_rs1), .cmd_rs2(cmd_rs2), .resp_valid(resp_valid), .resp_ready(resp_ready), .resp_rd(resp_rd),
      .resp_data(resp_data), .busy(accelerator_busy), .error_valid(error_valid), .error_code(error_code),
      .error_funct(error_funct), .error_rs1(error_rs1), .error_rs2(error_rs2),
      .rd_req_valid(rd_req_valid), .rd_req_ready(rd_req_ready), .rd_req_addr(rd_req_addr), .rd_req_size(rd_req_size),
      .rd_resp_valid(rd_resp_valid), .rd_resp_ready(rd_resp_ready), .rd_resp_data(rd_resp_data),
      .wr_req_valid(wr_req_valid), .wr_req_ready(wr_req_ready), .wr_req_addr(wr_req_addr), .wr_req_data(wr_req_data),
      .wr_req_mask(wr_req_mask), .wr_ack_valid(wr_ack_valid),
      // verilator lint_off PINCONNECTEMPTY
      .event_alloc(), .event_alloc_class(), .event_alloc_id(), .event_alloc_funct(), .event_alloc_rs1(), .event_alloc_rs2(),
      .event_alloc_loop(), .event_ld_issue(), .event_ld_issue_id(), .event_ld_done(), .event_ld_done_id(), .event_ex_issue(),
      .event_ex_issue_id(), .event_ex_done(), .event_ex_done_id0(), .event_ex_done_id1(), .event_ex_done_id2(),
      .event_st_issue(), .event_st_issue_id(), .event_st_done(), .event_st_done_id(), .event_loops(), .event_units());
  // verilator lint_on PINCONNECTEMPTY

  wire [1:0] _unused_tags;
  baco_axi4_memory #(.ADDR_BITS(ADDR_BITS), .DMA_BITS(DMA_BITS), .REQUESTS(DMA_REQUESTS)) memory (
      .clock(aclk), .reset(reset), .halted(halted), .idle(bus_idle),
      .rd_req_valid(rd_req_valid), .rd_req_ready(rd_req_ready), .rd_req_addr(rd_req_addr), .rd_req_size(rd_req_size),
      .rd_req_tag(1'b0), .rd_resp_valid(rd_resp_valid), .rd_resp_ready(rd_resp_ready), .rd_resp_data(rd_resp_data),
      .wr_req_valid(wr_req_valid), .wr_req_ready(wr_req_ready), .wr_req_addr(wr_req_addr), .wr_req_data(wr_req_data),
      .wr_req_mask(wr_req_mask), .wr_req_tag(1'b0), .wr_ack_valid(wr_ack_valid),
      .read_error(read_error), .read_response(read_response), .read_address(read_address), .read_tag(_unused_tags[0]),
      .write_error(write_error), .write_response(write_response), .write_address(write_address), .write_tag(_unused_tags[1]),
      .awvalid(m_axi_awvalid), .awready(m_axi_awready), .awid(m_axi_awid), .awaddr(m_axi_awaddr), .awlen(m_axi_awlen),
      .awsize(m_axi_awsize), .awburst(m_axi_awburst), .awlock(m_axi_awlock), .awcache(m_axi_awcache), .awprot(m_axi_awprot),
      .awqos(m_axi_awqos), .wvalid(m_axi_wvalid), .wready(m_axi_wready), .wdata(m_axi_wdata), .wstrb(m_axi_wstrb),
      .wlast(m_axi_wlast), .bvalid(m_axi_bvalid), .bready(m_axi_bready), .bresp(m_axi_bresp), .arvalid(m_axi_arvalid),
      .arready(m_axi_arready), .arid(m_axi_arid), .araddr(m_axi_araddr), .arlen(m_axi_arlen), .arsize(m_axi_arsize),
      .arburst(m_axi_arburst), .arlock(m_axi_arlock), .arcache(m_axi_arcache), .arprot(m_axi_arprot), .arqos(m_axi_arqos),
      .rvalid(m_axi_rvalid), .rready(m_axi_rready), .rdata(m_axi_rdata), .rresp(m_axi_rresp), .rlast(m_axi_rlast));
  wire _unused = &{1'b0, s_axi_awprot, s_axi_arprot, m_axi_bid, m_axi_rid, _unused_tags};
endmodule
