// CVA6 (OpenHW Group, 64 bits, with floating point and a write-through data cache) with flat ports, as the SoC connects it. Its
// sources are those of the package pythondata-cpu-cva6, patched as baco.accel.verilog.core says; what is not in that package, its
// divider of floating-point numbers, is ours.
module baco_core #(
    parameter logic [63:0] MEMORY_BASE = 64'h8000_0000,  // main memory: cached, and programs run there
    parameter logic [63:0] MEMORY_BYTES = 64'h8000_0000,
    parameter logic [63:0] ROM_BASE = 64'h1_0000
) (
    input logic clock,
    input logic reset,
    // CV-X-IF, and what the core knows of commits and fences
    output logic issue_valid,
    input logic issue_ready,
    output logic [31:0] issue_instr,
    output logic [2:0] issue_id,
    output logic [63:0] issue_rs1,
    output logic [63:0] issue_rs2,
    output logic [2:0] oldest_id,
    output logic stores_done,
    output logic flush,
    input logic result_valid,
    input logic [2:0] result_id,
    input logic [63:0] result_data,
    input logic result_we,
    input logic result_exc,
    output logic fence_waiting,
    input logic fence_go,
    input logic flush_cache,
    output logic flush_cache_ack,
    // lines of the data cache that somebody else has written to; all of the set are forgotten
    input logic snoop_valid,
    output logic snoop_ready,
    input logic [63:0] snoop_addr,
    // what is executed, and events: instruction miss, data miss, mispredicted branch, fence that waits
    output logic [1:0] retire_valid,
    output logic [63:0] retire_pc0,
    output logic [63:0] retire_pc1,
    output logic [3:0] core_events,
    // AXI4
    output logic awvalid,
    input logic awready,
    output logic [3:0] awid,
    output logic [63:0] awaddr,
    output logic [2:0] awsize,
    output logic awlock,
    output logic [5:0] awatop,
    output logic wvalid,
    input logic wready,
    output logic [63:0] wdata,
    output logic [7:0] wstrb,
    input logic bvalid,
    output logic bready,
    input logic [3:0] bid,
    input logic [1:0] bresp,
    output logic arvalid,
    input logic arready,
    output logic [3:0] arid,
    output logic [63:0] araddr,
    output logic [7:0] arlen,
    output logic arlock,
    input logic rvalid,
    output logic rready,
    input logic [3:0] rid,
    input logic [63:0] rdata,
    input logic [1:0] rresp,
    input logic rlast
);
  function automatic ariane_pkg::ariane_cfg_t configuration();
    configuration = ariane_pkg::ArianeDefaultConfig;
    configuration.NrExecuteRegionRules = 2;
    configuration.ExecuteRegionAddrBase = 1024'({MEMORY_BASE, ROM_BASE});
    configuration.ExecuteRegionLength = 1024'({MEMORY_BYTES, 64'h1000});
    configuration.NrCachedRegionRules = 1;
    configuration.CachedRegionAddrBase = 1024'(MEMORY_BASE);
    configuration.CachedRegionLength = 1024'(MEMORY_BYTES);
  endfunction

  cvxif_pkg::cvxif_req_t extension;
  cvxif_pkg::cvxif_resp_t answer;
  ariane_axi::req_t request;
  ariane_axi::resp_t response;

  cva6 #(.ArianeCfg(configuration())) cva6 (
      .clk_i(clock), .rst_ni(!reset), .boot_addr_i(ROM_BASE), .hart_id_i('0), .irq_i('0), .ipi_i('0), .time_irq_i('0),
      .debug_req_i('0), .cvxif_req_o(extension), .cvxif_resp_i(answer), .oldest_id_o(oldest_id), .stores_done_o(stores_done), .flush_o(flush),
      .fence_waiting_o(fence_waiting), .fence_go_i(fence_go), .flush_cache_i(flush_cache),
      .flush_cache_ack_o(flush_cache_ack), .snoop_valid_i(snoop_valid), .snoop_ready_o(snoop_ready),
      .snoop_addr_i(snoop_addr), .retire_valid_o(retire_valid), .retire_pc0_o(retire_pc0), .retire_pc1_o(retire_pc1),
      .events_o(core_events), .axi_req_o(request), .axi_resp_i(response));

  assign issue_valid = extension.x_issue_valid;
  assign issue_instr = extension.x_issue_req.instr;
  assign issue_id = extension.x_issue_req.id;
  assign issue_rs1 = extension.x_issue_req.rs[0];
  assign issue_rs2 = extension.x_issue_req.rs[1];
  always_comb begin
    answer = '0;
    answer.x_compressed_ready = 1'b1;
    answer.x_issue_ready = issue_ready;
    answer.x_issue_resp.accept = 1'b1;
    answer.x_result_valid = result_valid;
    answer.x_result.id = result_id;
    answer.x_result.data = result_data;
    answer.x_result.we = result_we;
    answer.x_result.exc = result_exc;
    answer.x_result.exccode = 6'd2;
  end

  assign awvalid = request.aw_valid;
  assign awid = request.aw.id;
  assign awaddr = request.aw.addr;
  assign awsize = request.aw.size;
  assign awlock = request.aw.lock;
  assign awatop = request.aw.atop;
  assign wvalid = request.w_valid;
  assign wdata = request.w.data;
  assign wstrb = request.w.strb;
  assign bready = request.b_ready;
  assign arvalid = request.ar_valid;
  assign arid = request.ar.id;
  assign araddr = request.ar.addr;
  assign arlen = request.ar.len;
  assign arlock = request.ar.lock;
  assign rready = request.r_ready;
  always_comb begin
    response = '0;
    response.aw_ready = awready;
    response.w_ready = wready;
    response.b_valid = bvalid;
    response.b.id = bid;
    response.b.resp = bresp;
    response.ar_ready = arready;
    response.r_valid = rvalid;
    response.r.id = rid;
    response.r.data = rdata;
    response.r.resp = rresp;
    response.r.last = rlast;
  end
endmodule

// The divider that CVA6's floating-point unit expects, by its name there.
module div_sqrt_top_mvp (
    input logic Clk_CI,
    input logic Rst_RBI,
    input logic Div_start_SI,
    input logic Sqrt_start_SI,
    input logic [63:0] Operand_a_DI,
    input logic [63:0] Operand_b_DI,
    input logic [2:0] RM_SI,
    input logic [5:0] Precision_ctl_SI,
    input logic [1:0] Format_sel_SI,
    input logic Kill_SI,
    output logic [63:0] Result_DO,
    output logic [4:0] Fflags_SO,
    output logic Ready_SO,
    output logic Done_SO
);
  baco_divide_root divider (
      .clock(Clk_CI), .reset(!Rst_RBI), .kill(Kill_SI), .start(Div_start_SI || Sqrt_start_SI), .root(Sqrt_start_SI),
      .wide(Format_sel_SI[0]), .rounding(RM_SI), .a(Operand_a_DI), .b(Operand_b_DI), .ready(Ready_SO), .done(Done_SO),
      .result(Result_DO), .flags(Fflags_SO));
endmodule
