// A stand-in with the ports of baco_accelerator, small enough to build in seconds, to test the harness with.
// One command at a time: MVIN reads rs2[47:32] bytes at rs1 as one request and keeps the last beat; MVOUT writes that beat
// at rs1; COUNTER_OP answers rs1 + 1; PRELOAD hangs for ever; COMPUTE takes rs2 cycles; 99 is refused.
module baco_accelerator #(parameter DMA_BITS = `BACO_DMA_BITS) (
  input wire clock, input wire reset,
  input wire cmd_valid, output wire cmd_ready, input wire [6:0] cmd_funct, input wire [4:0] cmd_rd, input wire cmd_xd,
  input wire [63:0] cmd_rs1, input wire [63:0] cmd_rs2,
  output reg resp_valid, input wire resp_ready, output reg [4:0] resp_rd, output reg [63:0] resp_data,
  output wire busy,
  output reg error_valid, output reg [3:0] error_code, output reg [6:0] error_funct, output reg [63:0] error_rs1,
  output reg [63:0] error_rs2,
  output wire rd_req_valid, input wire rd_req_ready, output wire [39:0] rd_req_addr, output wire [2:0] rd_req_size,
  input wire rd_resp_valid, output wire rd_resp_ready, input wire [DMA_BITS-1:0] rd_resp_data,
  output wire wr_req_valid, input wire wr_req_ready, output wire [39:0] wr_req_addr, output wire [DMA_BITS-1:0] wr_req_data,
  output wire [DMA_BITS/8-1:0] wr_req_mask, input wire wr_ack_valid,
  output wire event_alloc, output wire [1:0] event_alloc_class, output wire [5:0] event_alloc_id,
  output wire [6:0] event_alloc_funct, output wire [63:0] event_alloc_rs1, output wire [63:0] event_alloc_rs2,
  output wire [2:0] event_alloc_loop, output wire [3:0] event_loops,
  output wire event_ld_issue, output wire [5:0] event_ld_issue_id, output wire event_ld_done, output wire [5:0] event_ld_done_id,
  output wire event_ex_issue, output wire [5:0] event_ex_issue_id, output wire [2:0] event_ex_done,
  output wire [5:0] event_ex_done_id0, output wire [5:0] event_ex_done_id1, output wire [5:0] event_ex_done_id2,
  output wire event_st_issue, output wire [5:0] event_st_issue_id, output wire event_st_done, output wire [5:0] event_st_done_id,
  output wire [7:0] event_units
);
  localparam IDLE = 0, REQUEST = 1, BEATS = 2, WRITE = 3, ACK = 4, HANG = 5, WORK = 6;
  localparam BEAT = DMA_BITS / 8;
  reg [2:0] state;
  reg [63:0] rs1, rs2;
  reg [15:0] beats;
  reg [63:0] work;
  reg [DMA_BITS-1:0] data;
  wire take = cmd_valid && cmd_ready;
  wire load = cmd_funct == 2, store = cmd_funct == 3, compute = cmd_funct == 4, hang = cmd_funct == 6;
  wire last_beat = state == BEATS && rd_resp_valid && beats == 1;
  wire acked = state == ACK && wr_ack_valid;
  wire worked = state == WORK && work == 0;
  assign cmd_ready = state == IDLE && !resp_valid;
  assign busy = state != IDLE;
  assign rd_req_valid = state == REQUEST;
  assign rd_req_addr = rs1[39:0];
  assign rd_req_size = rs2[47:32] == 4 ? 2 : rs2[47:32] == 8 ? 3 : rs2[47:32] == 16 ? 4 : rs2[47:32] == 32 ? 5 : 6;
  assign rd_resp_ready = state == BEATS;
  assign wr_req_valid = state == WRITE;
  assign wr_req_addr = rs1[39:0];
  assign wr_req_data = data;
  assign wr_req_mask = {BEAT{1'b1}};
  assign event_alloc = take && (load || store || compute || hang);
  assign event_alloc_class = load ? 0 : store ? 2 : 1;
  assign event_alloc_id = 3;
  assign event_alloc_funct = cmd_funct;
  assign event_alloc_rs1 = cmd_rs1;
  assign event_alloc_rs2 = cmd_rs2;
  assign event_alloc_loop = 0;
  assign event_loops = 0;
  assign event_ld_issue = state == REQUEST && rd_req_ready;
  assign event_ld_issue_id = 3;
  assign event_ld_done = last_beat;
  assign event_ld_done_id = 3;
  assign event_ex_issue = 0;
  assign event_ex_issue_id = 0;
  assign event_ex_done = {2'b0, worked};
  assign event_ex_done_id0 = 3;
  assign event_ex_done_id1 = 0;
  assign event_ex_done_id2 = 0;
  assign event_st_issue = state == WRITE && wr_req_ready;
  assign event_st_issue_id = 3;
  assign event_st_done = acked;
  assign event_st_done_id = 3;
  assign event_units = {2'b0, wr_req_valid && wr_req_ready, rd_resp_valid && rd_resp_ready, state == WORK,
                        state == WRITE || state == ACK, state == WORK || state == HANG, state == REQUEST || state == BEATS};
  always @(posedge clock) begin
    if (resp_valid && resp_ready) resp_valid <= 0;
    if (take) begin
      rs1 <= cmd_rs1;
      rs2 <= cmd_rs2;
      beats <= cmd_rs2[47:32] > BEAT ? cmd_rs2[47:32] / BEAT : 1;
      work <= cmd_rs2;
      if (load) state <= REQUEST;
      if (store) state <= WRITE;
      if (compute) state <= WORK;
      if (hang) state <= HANG;
      if (cmd_xd) begin
        resp_valid <= 1;
        resp_rd <= cmd_rd;
        resp_data <= cmd_rs1 + 1;
      end
      if (cmd_funct == 99 && !error_valid) begin
        error_valid <= 1;
        error_code <= 1;
        error_funct <= cmd_funct;
        error_rs1 <= cmd_rs1;
        error_rs2 <= cmd_rs2;
      end
    end
    if (state == REQUEST && rd_req_ready) state <= BEATS;
    if (state == BEATS && rd_resp_valid) begin
      data <= rd_resp_data;
      beats <= beats - 1;
      if (beats == 1) state <= IDLE;
    end
    if (state == WRITE && wr_req_ready) state <= ACK;
    if (acked) state <= IDLE;
    if (state == WORK) begin
      work <= work - 1;
      if (work == 0) state <= IDLE;
    end
    if (reset) begin
      state <= IDLE;
      resp_valid <= 0;
      error_valid <= 0;
    end
  end
endmodule
