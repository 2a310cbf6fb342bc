// Read side of the memory interface: turns jobs into requests of naturally aligned chunks.
//
// A job is `job_spans` runs of contiguous bytes, whose first bytes are `job_stride` apart. Each is `job_last_row` and
// `job_row_bytes` long together.
// Every span is covered by the fewest power-of-two chunks that contain no beat without a needed byte: the bus
// carries nothing that is thrown away, and memory beyond the needed beats is never touched. Spans follow one another at
// one a cycle, jobs too, so requests run ahead of the data over as many jobs as are queued; only the number of requests
// in flight is bounded. Responses come strictly in request order, which is why nothing but the beat count of each
// request has to be remembered: the consumer walks the same jobs and knows which bytes a beat holds.
module baco_dma_read #(
    parameter DMA_BITS = 128,       // bits of a beat
    parameter DMA_MAX_BYTES = 64,   // largest request
    parameter DMA_REQUESTS = 16,    // requests in flight, at most 511
    parameter ADDR_BITS = 40,       // bits of a memory address
    parameter SPAN_BITS = 16,       // bits of the length of a span in bytes
    parameter ROW_BITS = 9          // bits of the length of a row in bytes
) (
    input  wire                 clock,
    input  wire                 reset,
    input  wire                 job_valid,           // a job is offered
    output wire                 job_ready,           // it is taken in this cycle
    input  wire [ADDR_BITS-1:0] job_addr,            // address of the first byte of the first span
    input  wire [ADDR_BITS-1:0] job_stride,          // bytes from span to span, modulo the address space
    input  wire [SPAN_BITS-1:0] job_last_row,        // bytes before the last row of a span
    input  wire [ROW_BITS-1:0]  job_row_bytes,       // bytes of a row, 1 or more
    input  wire [15:0]          job_spans,           // number of spans, 1 or more
    output wire                 rd_req_valid,        // a request is offered to memory
    input  wire                 rd_req_ready,        // memory accepts it
    output wire [ADDR_BITS-1:0] rd_req_addr,         // its address, a multiple of its size
    output wire [2:0]           rd_req_size,         // log2 of its bytes
    input  wire                 beat_taken,          // a response beat has been consumed in this cycle
    output wire                 sending,             // a job is being turned into requests
    output wire                 first_waiting,       // the first request of a job is not accepted in this cycle
    output wire                 refused,             // a span waits for the one before it to be requested
    output wire [7:0]           bytes_requested,     // bytes of the request accepted in this cycle, else 0
    output wire [8:0]           requests_in_flight   // requests accepted whose last beat has not been consumed
);
  localparam BEAT = DMA_BITS / 8;
  localparam BEAT_LOG = $clog2(BEAT);
  localparam CHUNK = DMA_MAX_BYTES > BEAT ? DMA_MAX_BYTES : BEAT;
  localparam CHUNK_LOG = $clog2(CHUNK);
  localparam COUNT_BITS = SPAN_BITS + 1 - BEAT_LOG;  // beats of a span
  localparam [31:0] REQUESTS = DMA_REQUESTS;
  localparam [31:0] BEAT_LOG_WORD = BEAT_LOG;
  localparam [8:0] LIMIT = REQUESTS[8:0];
  localparam [2:0] BEAT_SIZE = BEAT_LOG_WORD[2:0];
  localparam [ROW_BITS:0] ROUND_UP = {{(ROW_BITS + 1 - BEAT_LOG) {1'b0}}, {BEAT_LOG{1'b1}}};

  // The job being walked; its next span starts at walk_addr.
  reg walk_valid;
  reg walk_first;
  reg [ADDR_BITS-1:0] walk_addr;
  reg [ADDR_BITS-1:0] walk_stride;
  reg [SPAN_BITS-1:0] walk_last_row;
  reg [ROW_BITS-1:0] walk_row_bytes;
  reg [15:0] walk_left;

  // The span being requested: beats that remain from span_beat on.
  reg span_valid;
  reg span_first;
  reg [ADDR_BITS-BEAT_LOG-1:0] span_beat;
  reg [COUNT_BITS-1:0] span_left;

  reg [8:0] in_flight;

  // The largest aligned chunk that does not reach beyond the span.
  reg [2:0] size;
  reg [COUNT_BITS-1:0] chunk;
  integer s;
  always @* begin
    size = BEAT_SIZE;
    chunk = {{(COUNT_BITS - 1) {1'b0}}, 1'b1};
    for (s = 1; s <= CHUNK_LOG - BEAT_LOG; s = s + 1)
      if ((span_beat & ~({(ADDR_BITS - BEAT_LOG) {1'b1}} << s)) == {(ADDR_BITS - BEAT_LOG) {1'b0}} &&
          (span_left >> s) != {COUNT_BITS{1'b0}}) begin
        size = BEAT_SIZE + s[2:0];
        chunk = {{(COUNT_BITS - 1) {1'b0}}, 1'b1} << s;
      end
  end

  assign rd_req_valid = span_valid && in_flight != LIMIT;
  assign rd_req_addr = {span_beat, {BEAT_LOG{1'b0}}};
  assign rd_req_size = size;

  wire accepted = rd_req_valid && rd_req_ready;
  wire span_done = accepted && span_left == chunk;
  wire span_ready = !span_valid || span_done;
  wire job_done = walk_valid && span_ready && walk_left == 16'd1;
  assign job_ready = !walk_valid || job_done;

  wire [ROW_BITS:0] walk_past = {1'b0, walk_row_bytes} + {{(ROW_BITS + 1 - BEAT_LOG) {1'b0}}, walk_addr[BEAT_LOG-1:0]}
      + ROUND_UP;
  wire [SPAN_BITS:0] walk_end = {1'b0, walk_last_row} + {{(SPAN_BITS - ROW_BITS) {1'b0}}, walk_past};
  wire _unused = &{1'b0, walk_end[BEAT_LOG-1:0]};

  always @(posedge clock) begin
    if (reset) begin
      walk_valid <= 1'b0;
      span_valid <= 1'b0;
    end else begin
      if (job_ready) walk_valid <= job_valid;
      if (span_ready) span_valid <= walk_valid;
    end
    if (job_ready && job_valid) begin
      walk_first <= 1'b1;
      walk_addr <= job_addr;
      walk_stride <= job_stride;
      walk_last_row <= job_last_row;
      walk_row_bytes <= job_row_bytes;
      walk_left <= job_spans;
    end else if (walk_valid && span_ready) begin
      walk_first <= 1'b0;
      walk_addr <= walk_addr + walk_stride;
      walk_left <= walk_left - 16'd1;
    end
    if (walk_valid && span_ready) begin
      span_first <= walk_first;
      span_beat <= walk_addr[ADDR_BITS-1:BEAT_LOG];
      span_left <= walk_end[SPAN_BITS:BEAT_LOG];
    end else if (accepted) begin
      span_first <= 1'b0;
      span_beat <= span_beat + {{(ADDR_BITS - BEAT_LOG - COUNT_BITS) {1'b0}}, chunk};
      span_left <= span_left - chunk;
    end
  end

  // Sizes of the requests in flight, to know which beat is the last of its request.
  wire [2:0] oldest_size;
  wire sizes_valid;
  wire sizes_ready;
  reg [4:0] beats_seen;
  wire [5:0] oldest_beats = 6'd1 << (oldest_size - BEAT_SIZE);
  wire finished = beat_taken && {1'b0, beats_seen} + 6'd1 == oldest_beats;
  wire _unused_sizes = &{1'b0, sizes_valid, sizes_ready};  // never empty under a beat, never full under LIMIT
  baco_fifo #(.WIDTH(3), .DEPTH(DMA_REQUESTS)) sizes (
      .clock(clock), .reset(reset), .in_valid(accepted), .in_ready(sizes_ready), .in_data(size),
      .out_valid(sizes_valid), .out_ready(finished), .out_data(oldest_size));

  always @(posedge clock)
    if (reset) begin
      beats_seen <= 5'd0;
      in_flight <= 9'd0;
    end else begin
      if (beat_taken) beats_seen <= finished ? 5'd0 : beats_seen + 5'd1;
      if (accepted && !finished) in_flight <= in_flight + 9'd1;
      if (finished && !accepted) in_flight <= in_flight - 9'd1;
    end

  assign sending = walk_valid || span_valid;
  assign first_waiting = span_valid && span_first && !accepted;
  assign refused = walk_valid && !span_ready;
  assign bytes_requested = accepted ? 8'd1 << size : 8'd0;
  assign requests_in_flight = in_flight;
endmodule
