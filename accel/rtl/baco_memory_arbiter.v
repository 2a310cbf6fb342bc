// One memory port for the units of a system, each of which has a port of the same kind. Reads and writes are arbitrated by
// themselves, request by request in turn; what passes loses no cycle here. The memory answers in the order of requests, so
// queues of who asked say who is meant.
//   * A read request is a burst and stays whole: all its beats go to who asked before those of the next one come.
//   * Beats of writes at consecutive addresses stay together within an aligned block of BLOCK bytes, so that a bus can make
//     bursts of them; then it is another unit's turn.
module baco_memory_arbiter #(
    parameter UNITS = 2,
    parameter ADDR_BITS = 40,
    parameter DMA_BITS = 128,
    parameter READS = 32,                // requests under way, of all units
    parameter WRITES = 64,               // beats without their acknowledgement, of all units
    parameter BLOCK = 128                // bytes, a power of two of at least two beats
) (
    input wire clock,
    input wire reset,
    // units, the first in the lowest bits
    input wire [UNITS-1:0] unit_rd_req_valid,
    output wire [UNITS-1:0] unit_rd_req_ready,
    input wire [UNITS*ADDR_BITS-1:0] unit_rd_req_addr,
    input wire [UNITS*3-1:0] unit_rd_req_size,
    output wire [UNITS-1:0] unit_rd_resp_valid,
    input wire [UNITS-1:0] unit_rd_resp_ready,
    output wire [UNITS*DMA_BITS-1:0] unit_rd_resp_data,
    input wire [UNITS-1:0] unit_wr_req_valid,
    output wire [UNITS-1:0] unit_wr_req_ready,
    input wire [UNITS*ADDR_BITS-1:0] unit_wr_req_addr,
    input wire [UNITS*DMA_BITS-1:0] unit_wr_req_data,
    input wire [UNITS*DMA_BITS/8-1:0] unit_wr_req_mask,
    output wire [UNITS-1:0] unit_wr_ack_valid,
    // memory
    output wire rd_req_valid,
    input wire rd_req_ready,
    output reg [ADDR_BITS-1:0] rd_req_addr,
    output reg [2:0] rd_req_size,
    output wire [UNITS-1:0] rd_req_unit, // who asks, its bit
    input wire rd_resp_valid,
    output wire rd_resp_ready,
    input wire [DMA_BITS-1:0] rd_resp_data,
    output wire wr_req_valid,
    input wire wr_req_ready,
    output reg [ADDR_BITS-1:0] wr_req_addr,
    output reg [DMA_BITS-1:0] wr_req_data,
    output reg [DMA_BITS/8-1:0] wr_req_mask,
    output wire [UNITS-1:0] wr_req_unit,
    input wire wr_ack_valid
);
  localparam [31:0] BEAT = DMA_BITS / 8;
  localparam BEAT_LOG = $clog2(DMA_BITS / 8);
  localparam [31:0] BEAT_SIZE = BEAT_LOG;
  localparam BLOCK_LOG = $clog2(BLOCK);
  localparam [ADDR_BITS-1:0] STEP = {{(ADDR_BITS - 8) {1'b0}}, BEAT[7:0]};
  integer unit;

  // ---------------------------------------------------------------- reads
  wire read_space;
  wire [UNITS-1:0] reader, _unused_last_reader;
  wire read_goes = rd_req_valid && rd_req_ready;
  baco_arbiter #(.UNITS(UNITS)) readers (
      .clock(clock), .reset(reset), .waiting(unit_rd_req_valid), .goes_on(1'b0), .accepted(read_goes),
      .last(_unused_last_reader), .grant(reader));
  assign rd_req_unit = reader;
  assign rd_req_valid = reader != {UNITS{1'b0}} && read_space;
  assign unit_rd_req_ready = reader & {UNITS{rd_req_ready && read_space}};
  always @* begin
    rd_req_addr = {ADDR_BITS{1'b0}};
    rd_req_size = 3'd0;
    for (unit = 0; unit < UNITS; unit = unit + 1) begin
      rd_req_addr = rd_req_addr | (unit_rd_req_addr[unit*ADDR_BITS +: ADDR_BITS] & {ADDR_BITS{reader[unit]}});
      rd_req_size = rd_req_size | (unit_rd_req_size[unit*3 +: 3] & {3{reader[unit]}});
    end
  end

  // whose beats come, and how many of them, less one
  wire expected;
  wire [UNITS-1:0] receiver;
  wire [7:0] beats;
  reg [7:0] received;
  wire beat = rd_resp_valid && rd_resp_ready;
  wire last_beat = received == beats;
  baco_fifo #(.WIDTH(UNITS + 8), .DEPTH(READS)) asked (
      .clock(clock), .reset(reset), .in_valid(read_goes), .in_ready(read_space),
      .in_data({reader, (8'd1 << (rd_req_size - BEAT_SIZE[2:0])) - 8'd1}),
      .out_valid(expected), .out_ready(beat && last_beat), .out_data({receiver, beats}));
  assign unit_rd_resp_valid = receiver & {UNITS{rd_resp_valid && expected}};
  assign rd_resp_ready = expected && (receiver & unit_rd_resp_ready) != {UNITS{1'b0}};
  assign unit_rd_resp_data = {UNITS{rd_resp_data}};
  always @(posedge clock)
    if (reset) received <= 8'd0;
    else if (beat) received <= last_beat ? 8'd0 : received + 8'd1;

  // ---------------------------------------------------------------- writes
  wire write_space;
  wire [UNITS-1:0] writer, last_writer;
  reg [ADDR_BITS-1:0] next;              // address of a beat that follows
  reg [ADDR_BITS-1:0] last_addr;         // of the next beat of who wrote before
  wire write_goes = wr_req_valid && wr_req_ready;
  wire follows = (unit_wr_req_valid & last_writer) != {UNITS{1'b0}} && last_addr == next &&
                 next[BLOCK_LOG-1:0] != {BLOCK_LOG{1'b0}};
  baco_arbiter #(.UNITS(UNITS)) writers (
      .clock(clock), .reset(reset), .waiting(unit_wr_req_valid), .goes_on(follows), .accepted(write_goes),
      .last(last_writer), .grant(writer));
  assign wr_req_unit = writer;
  assign wr_req_valid = writer != {UNITS{1'b0}} && write_space;
  assign unit_wr_req_ready = writer & {UNITS{wr_req_ready && write_space}};
  always @* begin
    wr_req_addr = {ADDR_BITS{1'b0}};
    wr_req_data = {DMA_BITS{1'b0}};
    wr_req_mask = {DMA_BITS / 8{1'b0}};
    last_addr = {ADDR_BITS{1'b0}};
    for (unit = 0; unit < UNITS; unit = unit + 1) begin
      wr_req_addr = wr_req_addr | (unit_wr_req_addr[unit*ADDR_BITS +: ADDR_BITS] & {ADDR_BITS{writer[unit]}});
      wr_req_data = wr_req_data | (unit_wr_req_data[unit*DMA_BITS +: DMA_BITS] & {DMA_BITS{writer[unit]}});
      wr_req_mask = wr_req_mask | (unit_wr_req_mask[unit*DMA_BITS/8 +: DMA_BITS/8] & {DMA_BITS / 8{writer[unit]}});
      last_addr = last_addr | (unit_wr_req_addr[unit*ADDR_BITS +: ADDR_BITS] & {ADDR_BITS{last_writer[unit]}});
    end
  end
  always @(posedge clock) if (write_goes) next <= wr_req_addr + STEP;

  wire [UNITS-1:0] acknowledged;
  wire written;
  baco_fifo #(.WIDTH(UNITS), .DEPTH(WRITES)) wrote (
      .clock(clock), .reset(reset), .in_valid(write_goes), .in_ready(write_space), .in_data(writer),
      .out_valid(written), .out_ready(wr_ack_valid), .out_data(acknowledged));
  assign unit_wr_ack_valid = acknowledged & {UNITS{wr_ack_valid && written}};
  wire _unused = &{1'b0, _unused_last_reader};
endmodule
