// Reads of the accelerator as AXI4 bursts: a request is a burst. Requests are naturally aligned chunks of at most 128 bytes,
// so that none crosses 4 KiB; one ID keeps answers in their order.
module baco_axi4_reads #(
    parameter ADDR_BITS = 40,
    parameter DMA_BITS = 128,
    parameter REQUESTS = 16,             // bursts in flight
    parameter TAG_BITS = 1
) (
    input wire clock,
    input wire reset,
    input wire halted,                   // nothing more is taken from the accelerator, what comes for it is dropped
    output wire idle,                    // no burst is under way
    // the accelerator's port
    input wire req_valid,
    output wire req_ready,
    input wire [ADDR_BITS-1:0] req_addr,
    input wire [2:0] req_size,           // log2 of the bytes
    input wire [TAG_BITS-1:0] req_tag,   // who asks
    output wire resp_valid,
    input wire resp_ready,
    output wire [DMA_BITS-1:0] resp_data,
    // AXI4
    output wire arvalid,
    input wire arready,
    output wire [ADDR_BITS-1:0] araddr,
    output wire [7:0] arlen,
    input wire rvalid,
    output wire rready,
    input wire [DMA_BITS-1:0] rdata,
    input wire [1:0] rresp,
    input wire rlast,
    output wire error,                   // a beat of a burst came with an error
    output wire [1:0] error_response,
    output wire [ADDR_BITS-1:0] error_address,  // of its burst
    output wire [TAG_BITS-1:0] error_tag
);
  localparam [31:0] BEAT_LOG = $clog2(DMA_BITS / 8);

  // beats of a request, less one
  wire [7:0] beats = 8'd1 << (req_size - BEAT_LOG[2:0]);
  wire address_space, burst_space;
  wire accepted = req_valid && req_ready;
  assign req_ready = address_space && burst_space && !halted;
  baco_fifo #(.WIDTH(ADDR_BITS + 8), .DEPTH(2)) addresses (
      .clock(clock), .reset(reset), .in_valid(accepted), .in_ready(address_space), .in_data({req_addr, beats - 8'd1}),
      .out_valid(arvalid), .out_ready(arready), .out_data({araddr, arlen}));

  // where the bursts in flight begin and who asked for them, for errors
  wire under_way;
  wire beat = rvalid && rready;
  baco_fifo #(.WIDTH(TAG_BITS + ADDR_BITS), .DEPTH(REQUESTS)) bursts (
      .clock(clock), .reset(reset), .in_valid(accepted), .in_ready(burst_space), .in_data({req_tag, req_addr}),
      .out_valid(under_way), .out_ready(beat && rlast), .out_data({error_tag, error_address}));

  wire resp_full;
  baco_fifo #(.WIDTH(DMA_BITS), .DEPTH(2)) answers (
      .clock(clock), .reset(reset), .in_valid(rvalid), .in_ready(rready), .in_data(rdata),
      .out_valid(resp_full), .out_ready(resp_ready || halted), .out_data(resp_data));
  assign resp_valid = resp_full && !halted;

  assign idle = !under_way;
  assign error = beat && rresp[1];
  assign error_response = rresp;
endmodule
