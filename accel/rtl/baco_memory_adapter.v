// An accelerator's memory port on a wider one, whose least request and whose beats are all of its width.
//   * A read that is less than a beat asks for all of it. Beats that come are kept, so that the wider port moves on while the
//     accelerator takes its own, one a cycle.
//   * Beats of writes at consecutive addresses that come without a gap leave as one.
module baco_memory_adapter #(
    parameter ADDR_BITS = 40,
    parameter UNIT_BITS = 64,            // of the accelerator's port
    parameter DMA_BITS = 128,            // of the wider one, twice as much or more
    parameter READS = 16,                // requests under way
    parameter BEATS = 4,                 // of the wider port that are kept
    parameter WRITES = 64                // beats of the wider port without their acknowledgement
) (
    input wire clock,
    input wire reset,
    // the accelerator
    input wire unit_rd_req_valid,
    output wire unit_rd_req_ready,
    input wire [ADDR_BITS-1:0] unit_rd_req_addr,
    input wire [2:0] unit_rd_req_size,   // log2 of the bytes
    output wire unit_rd_resp_valid,
    input wire unit_rd_resp_ready,
    output wire [UNIT_BITS-1:0] unit_rd_resp_data,
    input wire unit_wr_req_valid,
    output wire unit_wr_req_ready,
    input wire [ADDR_BITS-1:0] unit_wr_req_addr,
    input wire [UNIT_BITS-1:0] unit_wr_req_data,
    input wire [UNIT_BITS/8-1:0] unit_wr_req_mask,
    output wire unit_wr_ack_valid,
    // the wider port
    output wire rd_req_valid,
    input wire rd_req_ready,
    output wire [ADDR_BITS-1:0] rd_req_addr,
    output wire [2:0] rd_req_size,
    input wire rd_resp_valid,
    output wire rd_resp_ready,
    input wire [DMA_BITS-1:0] rd_resp_data,
    output wire wr_req_valid,
    input wire wr_req_ready,
    output wire [ADDR_BITS-1:0] wr_req_addr,
    output reg [DMA_BITS-1:0] wr_req_data,
    output reg [DMA_BITS/8-1:0] wr_req_mask,
    input wire wr_ack_valid
);
  localparam RATIO = DMA_BITS / UNIT_BITS;
  localparam LANE_BITS = $clog2(RATIO);
  localparam UNIT_LOG = $clog2(UNIT_BITS / 8);
  localparam BEAT_LOG = UNIT_LOG + LANE_BITS;
  localparam [31:0] UNIT_SIZE = UNIT_LOG, BEAT_SIZE = BEAT_LOG, ONE = 1;
  localparam [LANE_BITS-1:0] LAST_LANE = {LANE_BITS{1'b1}};
  localparam ACK_BITS = $clog2(WRITES * RATIO + 1);
  integer number;

  // ---------------------------------------------------------------- reads
  wire read_space;
  wire read_goes = rd_req_valid && rd_req_ready;
  assign rd_req_valid = unit_rd_req_valid && read_space;
  assign unit_rd_req_ready = rd_req_ready && read_space;
  assign rd_req_size = unit_rd_req_size < BEAT_SIZE[2:0] ? BEAT_SIZE[2:0] : unit_rd_req_size;
  assign rd_req_addr = {unit_rd_req_addr[ADDR_BITS-1:BEAT_LOG], {BEAT_LOG{1'b0}}};

  // of the oldest request: its first lane, and how many beats of the accelerator, less one
  wire expected, kept;
  wire [LANE_BITS-1:0] first_lane;
  wire [7:0] beats;
  reg [7:0] given;
  wire gives = unit_rd_resp_valid && unit_rd_resp_ready;
  wire last_given = given == beats;
  wire [LANE_BITS-1:0] lane = first_lane + given[LANE_BITS-1:0];
  wire [DMA_BITS-1:0] oldest;
  wire [DMA_BITS-1:0] from_lane = oldest >> ({{32 - LANE_BITS{1'b0}}, lane} * UNIT_BITS);
  baco_fifo #(.WIDTH(LANE_BITS + 8), .DEPTH(READS)) asked (
      .clock(clock), .reset(reset), .in_valid(read_goes), .in_ready(read_space),
      .in_data({unit_rd_req_addr[UNIT_LOG +: LANE_BITS], (8'd1 << (unit_rd_req_size - UNIT_SIZE[2:0])) - 8'd1}),
      .out_valid(expected), .out_ready(gives && last_given), .out_data({first_lane, beats}));
  baco_fifo #(.WIDTH(DMA_BITS), .DEPTH(BEATS)) answers (
      .clock(clock), .reset(reset), .in_valid(rd_resp_valid), .in_ready(rd_resp_ready), .in_data(rd_resp_data),
      .out_valid(kept), .out_ready(gives && (last_given || lane == LAST_LANE)), .out_data(oldest));
  assign unit_rd_resp_valid = expected && kept;
  assign unit_rd_resp_data = from_lane[UNIT_BITS-1:0];
  always @(posedge clock)
    if (reset) given <= 8'd0;
    else if (gives) given <= last_given ? 8'd0 : given + 8'd1;

  // ---------------------------------------------------------------- writes
  reg held, offered;                     // a beat is there; it has been offered, and does not change any more
  reg [ADDR_BITS-1:BEAT_LOG] held_addr;
  reg [LANE_BITS-1:0] first, last;       // lanes that it has
  wire write_space;
  wire [LANE_BITS-1:0] into = unit_wr_req_addr[UNIT_LOG +: LANE_BITS];
  wire follows = unit_wr_req_valid && held && !offered && last != LAST_LANE && into == last + ONE[LANE_BITS-1:0] &&
                 unit_wr_req_addr[ADDR_BITS-1:BEAT_LOG] == held_addr;
  wire write_goes = wr_req_valid && wr_req_ready;
  wire takes = unit_wr_req_valid && unit_wr_req_ready;
  assign wr_req_valid = held && !follows && write_space;
  assign wr_req_addr = {held_addr, {BEAT_LOG{1'b0}}};
  assign unit_wr_req_ready = !held || follows || write_goes;
  always @(posedge clock) begin
    if (reset) begin
      held <= 1'b0;
      offered <= 1'b0;
    end else begin
      held <= takes || (held && !write_goes);
      offered <= wr_req_valid && !write_goes;
    end
    if (takes) begin
      held_addr <= unit_wr_req_addr[ADDR_BITS-1:BEAT_LOG];
      last <= into;
      if (!follows) first <= into;
      for (number = 0; number < RATIO; number = number + 1)
        if (into == number[LANE_BITS-1:0]) begin
          wr_req_data[number*UNIT_BITS +: UNIT_BITS] <= unit_wr_req_data;
          wr_req_mask[number*UNIT_BITS/8 +: UNIT_BITS/8] <= unit_wr_req_mask;
        end else if (!follows) wr_req_mask[number*UNIT_BITS/8 +: UNIT_BITS/8] <= {UNIT_BITS / 8{1'b0}};
    end
  end

  // how many of the accelerator's beats an acknowledgement is for, less one
  wire written;
  wire [LANE_BITS-1:0] more;
  reg [ACK_BITS-1:0] acknowledged;       // that it has not been told yet
  wire [ACK_BITS-1:0] come = {{ACK_BITS - LANE_BITS{1'b0}}, more} + {{ACK_BITS - 1{1'b0}}, 1'b1};
  baco_fifo #(.WIDTH(LANE_BITS), .DEPTH(WRITES)) wrote (
      .clock(clock), .reset(reset), .in_valid(write_goes), .in_ready(write_space), .in_data(last - first),
      .out_valid(written), .out_ready(wr_ack_valid), .out_data(more));
  assign unit_wr_ack_valid = acknowledged != {ACK_BITS{1'b0}};
  always @(posedge clock)
    if (reset) acknowledged <= {ACK_BITS{1'b0}};
    else
      acknowledged <= acknowledged + (wr_ack_valid ? come : {ACK_BITS{1'b0}}) - {{ACK_BITS - 1{1'b0}}, unit_wr_ack_valid};
  wire _unused = &{1'b0, written, from_lane, unit_rd_req_addr[UNIT_LOG-1:0], unit_wr_req_addr[UNIT_LOG-1:0]};
endmodule
