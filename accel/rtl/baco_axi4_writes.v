// Writes of the accelerator as AXI4 bursts: beats at consecutive addresses are gathered into bursts of up to 16 that do not
// cross 4 KiB. A burst goes out when the next beat is not its neighbour, when it is full, or when none has come for some
// cycles; the answer to it acknowledges its beats, one a cycle, in order.
module baco_axi4_writes #(
    parameter ADDR_BITS = 40,
    parameter DMA_BITS = 128,
    parameter BEATS = 32,                // beats that wait for their burst
    parameter BURSTS = 8,                // bursts in flight
    parameter TAG_BITS = 1
) (
    input wire clock,
    input wire reset,
    input wire halted,                   // nothing more is taken from the accelerator
    output wire idle,                    // no burst is under way
    // the accelerator's port: aligned beats with byte masks, one acknowledgement each
    input wire req_valid,
    output wire req_ready,
    input wire [ADDR_BITS-1:0] req_addr,
    input wire [DMA_BITS-1:0] req_data,
    input wire [DMA_BITS/8-1:0] req_mask,
    input wire [TAG_BITS-1:0] req_tag,   // whose: a burst has one
    output wire ack_valid,
    // AXI4
    output wire awvalid,
    input wire awready,
    output wire [ADDR_BITS-1:0] awaddr,
    output wire [7:0] awlen,
    output wire wvalid,
    input wire wready,
    output wire [DMA_BITS-1:0] wdata,
    output wire [DMA_BITS/8-1:0] wstrb,
    output wire wlast,
    input wire bvalid,
    output wire bready,
    input wire [1:0] bresp,
    output wire error,                   // a burst ended with an error
    output wire [1:0] error_response,
    output wire [ADDR_BITS-1:0] error_address,  // of its first beat
    output wire [TAG_BITS-1:0] error_tag
);
  localparam BEAT = DMA_BITS / 8;
  localparam [31:0] BEAT_BYTES = BEAT;
  localparam [ADDR_BITS-1:0] STEP = {{(ADDR_BITS - 8) {1'b0}}, BEAT_BYTES[7:0]};
  localparam [3:0] LONGEST = 4'd15;      // beats of a burst, less one
  localparam [1:0] PATIENCE = 2'd3;      // cycles that a burst waits for another beat

  // ---------------------------------------------------------------- the burst that is gathered
  reg open;
  reg [ADDR_BITS-1:0] start, next;
  reg [3:0] length;                      // beats so far, less one
  reg [1:0] waited;
  reg [TAG_BITS-1:0] tag;

  wire beat_space, burst_space, answer_space, address_space;
  wire burst_spaces = burst_space && answer_space && address_space;
  assign req_ready = beat_space && burst_spaces && !halted;
  wire beat = req_valid && req_ready;
  wire joins = open && req_addr == next && length != LONGEST && req_addr[11:0] != 12'd0 &&
               req_tag == tag;
  wire late = open && !beat && (waited == PATIENCE || halted) && burst_spaces;
  wire closes = (beat && open && !joins) || late;

  always @(posedge clock) begin
    if (reset) open <= 1'b0;
    else if (beat) open <= 1'b1;
    else if (closes) open <= 1'b0;
    if (beat) begin
      next <= req_addr + STEP;
      waited <= 2'd0;
      length <= joins ? length + 4'd1 : 4'd0;
      if (!joins) {tag, start} <= {req_tag, req_addr};
    end else if (waited != PATIENCE) waited <= waited + 2'd1;
  end

  baco_fifo #(.WIDTH(ADDR_BITS + 4), .DEPTH(BURSTS)) addresses (
      .clock(clock), .reset(reset), .in_valid(closes), .in_ready(address_space), .in_data({start, length}),
      .out_valid(awvalid), .out_ready(awready), .out_data({awaddr, awlen[3:0]}));
  assign awlen[7:4] = 4'd0;

  // ---------------------------------------------------------------- data: beats, and how many of them a burst has
  wire beats_there, length_there;
  wire [3:0] beats_length;
  reg [3:0] sent;                        // beats of the burst that are out
  baco_fifo #(.WIDTH(DMA_BITS + BEAT), .DEPTH(BEATS)) beats (
      .clock(clock), .reset(reset), .in_valid(beat), .in_ready(beat_space), .in_data({req_data, req_mask}),
      .out_valid(beats_there), .out_ready(wvalid && wready), .out_data({wdata, wstrb}));
  baco_fifo #(.WIDTH(4), .DEPTH(BURSTS)) lengths (
      .clock(clock), .reset(reset), .in_valid(closes), .in_ready(burst_space), .in_data(length),
      .out_valid(length_there), .out_ready(wvalid && wready && wlast), .out_data(beats_length));
  assign wvalid = length_there;          // then all of its beats are there
  assign wlast = sent == beats_length;
  always @(posedge clock)
    if (reset) sent <= 4'd0;
    else if (wvalid && wready) sent <= wlast ? 4'd0 : sent + 4'd1;

  // ---------------------------------------------------------------- answers
  wire answer_due;
  wire [3:0] answered;                   // beats of the burst, less one
  reg [8:0] acknowledged;                // beats whose acknowledgement is due
  baco_fifo #(.WIDTH(TAG_BITS + ADDR_BITS + 4), .DEPTH(BURSTS)) answers (
      .clock(clock), .reset(reset), .in_valid(closes), .in_ready(answer_space), .in_data({tag, start, length}),
      .out_valid(answer_due), .out_ready(bvalid && bready), .out_data({error_tag, error_address, answered}));
  assign bready = !acknowledged[8];      // never so many
  assign ack_valid = acknowledged != 9'd0 && !halted;
  always @(posedge clock)
    if (reset) acknowledged <= 9'd0;
    else
      acknowledged <= acknowledged + (bvalid && bready ? {5'd0, answered} + 9'd1 : 9'd0) - (ack_valid ? 9'd1 : 9'd0);

  assign idle = !open && !answer_due;
  assign error = bvalid && bready && bresp[1];
  assign error_response = bresp;
  wire _unused = &{1'b0, beats_there};
endmodule
