// Main memory as an AXI4 manager: the memory port of an accelerator, or of several behind an arbiter, as bursts that
// increment, never cross 4 KiB and have one ID, so that answers come in order. What was asked for has the number of who asked,
// which errors come with.
module baco_axi4_memory #(
    parameter ADDR_BITS = `BACO_ADDR_BITS,
    parameter DMA_BITS = `BACO_DMA_BITS,
    parameter REQUESTS = `BACO_DMA_REQUESTS,         // read bursts in flight
    parameter TAG_BITS = 1
) (
    input wire clock,
    input wire reset,
    input wire halted,                               // nothing more is taken, what comes is dropped
    output wire idle,                                // no burst is under way
    input wire rd_req_valid,
    output wire rd_req_ready,
    input wire [ADDR_BITS-1:0] rd_req_addr,
    input wire [2:0] rd_req_size,
    input wire [TAG_BITS-1:0] rd_req_tag,
    output wire rd_resp_valid,
    input wire rd_resp_ready,
    output wire [DMA_BITS-1:0] rd_resp_data,
    input wire wr_req_valid,
    output wire wr_req_ready,
    input wire [ADDR_BITS-1:0] wr_req_addr,
    input wire [DMA_BITS-1:0] wr_req_data,
    input wire [DMA_BITS/8-1:0] wr_req_mask,
    input wire [TAG_BITS-1:0] wr_req_tag,
    output wire wr_ack_valid,
    output wire read_error,
    output wire [1:0] read_response,
    output wire [ADDR_BITS-1:0] read_address,
    output wire [TAG_BITS-1:0] read_tag,
    output wire write_error,
    output wire [1:0] write_response,
    output wire [ADDR_BITS-1:0] write_address,
    output wire [TAG_BITS-1:0] write_tag,
    output wire awvalid,
    input wire awready,
    output wire awid,
    output wire [ADDR_BITS-1:0] awaddr,
    output wire [7:0] awlen,
    output wire [2:0] awsize,
    output wire [1:0] awburst,
    output wire awlock,
    output wire [3:0] awcache,
    output wire [2:0] awprot,
    output wire [3:0] awqos,
    output wire wvalid,
    input wire wready,
    output wire [DMA_BITS-1:0] wdata,
    output wire [DMA_BITS/8-1:0] wstrb,
    output wire wlast,
    input wire bvalid,
    output wire bready,
    input wire [1:0] bresp,
    output wire arvalid,
    input wire arready,
    output wire arid,
    output wire [ADDR_BITS-1:0] araddr,
    output wire [7:0] arlen,
    output wire [2:0] arsize,
    output wire [1:0] arburst,
    output wire arlock,
    output wire [3:0] arcache,
    output wire [2:0] arprot,
    output wire [3:0] arqos,
    input wire rvalid,
    output wire rready,
    input wire [DMA_BITS-1:0] rdata,
    input wire [1:0] rresp,
    input wire rlast
);
  wire reads_idle, writes_idle;
  baco_axi4_reads #(.ADDR_BITS(ADDR_BITS), .DMA_BITS(DMA_BITS), .REQUESTS(REQUESTS), .TAG_BITS(TAG_BITS)) reads (
      .clock(clock), .reset(reset), .halted(halted), .idle(reads_idle),
      .req_valid(rd_req_valid), .req_ready(rd_req_ready), .req_addr(rd_req_addr), .req_size(rd_req_size), .req_tag(rd_req_tag),
      .resp_valid(rd_resp_valid), .resp_ready(rd_resp_ready), .resp_data(rd_resp_data),
      .arvalid(arvalid), .arready(arready), .araddr(araddr), .arlen(arlen),
      .rvalid(rvalid), .rready(rready), .rdata(rdata), .rresp(rresp), .rlast(rlast),
      .error(read_error), .error_response(read_response), .error_address(read_address), .error_tag(read_tag));
  baco_axi4_writes #(.ADDR_BITS(ADDR_BITS), .DMA_BITS(DMA_BITS), .TAG_BITS(TAG_BITS)) writes (
      .clock(clock), .reset(reset), .halted(halted), .idle(writes_idle),
      .req_valid(wr_req_valid), .req_ready(wr_req_ready), .req_addr(wr_req_addr), .req_data(wr_req_data),
      .req_mask(wr_req_mask), .req_tag(wr_req_tag), .ack_valid(wr_ack_valid),
      .awvalid(awvalid), .awready(awready), .awaddr(awaddr), .awlen(awlen),
      .wvalid(wvalid), .wready(wready), .wdata(wdata), .wstrb(wstrb), .wlast(wlast),
      .bvalid(bvalid), .bready(bready), .bresp(bresp),
      .error(write_error), .error_response(write_response), .error_address(write_address), .error_tag(write_tag));
  assign idle = reads_idle && writes_idle;

  // What is the same for every burst: whole beats, increasing addresses, data that may be buffered and merged (normal memory,
  // not cached), unprivileged, secure.
  localparam [31:0] BEAT_LOG = $clog2(DMA_BITS / 8);
  assign awid = 1'b0;
  assign awsize = BEAT_LOG[2:0];
  assign awburst = 2'b01;
  assign awlock = 1'b0;
  assign awcache = 4'b0011;
  assign awprot = 3'b000;
  assign awqos = 4'b0000;
  assign arid = 1'b0;
  assign arsize = BEAT_LOG[2:0];
  assign arburst = 2'b01;
  assign arlock = 1'b0;
  assign arcache = 4'b0011;
  assign arprot = 3'b000;
  assign arqos = 4'b0000;
endmodule
