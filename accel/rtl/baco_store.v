// The store controller: CONFIG (store), MVOUT and MVOUT_SPAD.
//
// Stores run in program order and as one stream: the walk of the next starts the cycle after the last local row of
// the one before has been read, while that one's rows are still being scaled and written. So a store is done, for the
// purpose of local dependencies, when its last row has been read; memory writes follow and are only awaited by `busy`.
// MVOUT_SPAD is done when its last row has been written, and the next command waits for it. Its rows are read ahead of
// the writes: where its source and destination overlap, the result is not defined.
//
//   commands -> queue -> walk (local rows) -> convert (slices of bytes) -> packer (beats) -> memory
//                                                                       -> scratchpad rows (MVOUT_SPAD)
module baco_store #(
    parameter DIM = 16,            // elements in a local row
    parameter SP_ROWS = 16384,     // scratchpad rows
    parameter ACC_ROWS = 1024,     // accumulator rows
    parameter DMA_BITS = 128,      // memory bus
    parameter DMA_MAX_BYTES = 64,  // with DMA_REQUESTS: bound on the bytes in flight
    parameter DMA_REQUESTS = 16,
    parameter STORE_QUEUE = 2,     // commands waiting
    parameter ADDR_BITS = 40,      // memory address, 32 or more
    parameter ID_BITS = 6          // reservation station entry
) (
    input wire clock,
    input wire reset,
    input wire cmd_valid,                         // CONFIG (store), MVOUT or MVOUT_SPAD
    output wire cmd_ready,
    input wire [ID_BITS-1:0] cmd_id,
    input wire [6:0] cmd_funct,
    input wire [63:0] cmd_rs1,
    input wire [63:0] cmd_rs2,
    output reg done_valid,                        // a command is done; in order
    output reg [ID_BITS-1:0] done_id,
    output wire sp_read_valid,                    // read a scratchpad row
    input wire sp_read_ready,
    output wire [$clog2(SP_ROWS)-1:0] sp_read_row,
    input wire [DIM*8-1:0] sp_read_data,          // in the cycle after the read was accepted, only then
    output wire acc_read_valid,                   // read an accumulator row
    input wire acc_read_ready,
    output wire [$clog2(ACC_ROWS)-1:0] acc_read_row,
    input wire [DIM*32-1:0] acc_read_data,        // in the cycle after the read was accepted, only then
    output reg sp_write_valid,                    // write elements of a scratchpad row (MVOUT_SPAD)
    input wire sp_write_ready,
    output reg [$clog2(SP_ROWS)-1:0] sp_write_row,
    output reg [DIM-1:0] sp_write_mask,           // elements that are written
    output reg [DIM*8-1:0] sp_write_data,
    output wire wr_req_valid,                     // write one beat to memory
    input wire wr_req_ready,
    output wire [ADDR_BITS-1:0] wr_req_addr,      // aligned to beats
    output wire [DMA_BITS-1:0] wr_req_data,
    output wire [DMA_BITS/8-1:0] wr_req_mask,     // bytes that are written
    input wire wr_ack_valid,                      // one for each beat accepted, in order
    output wire busy,                             // commands, data or unacknowledged writes
    output wire [7:0] events,                     // 0 active, 1 waits for the DMA, 2 pooling configured, 3 read refused,
                                                  // 4 DMA active, 5 beat waits, 6 beat accepted
    output wire [7:0] bytes_sent,                 // bytes written by the beat accepted in this cycle
    output wire [8:0] requests_in_flight          // beats accepted and not acknowledged
);
  localparam SP_AW = $clog2(SP_ROWS);
  localparam ACC_AW = $clog2(ACC_ROWS);
  localparam ROW_BITS = SP_AW > ACC_AW ? SP_AW : ACC_AW;
  localparam BUS = DMA_BITS / 8;
  localparam SLICE = 4 * DIM < BUS ? 4 * DIM : BUS;
  localparam LANES = DIM < BUS ? DIM : BUS;
  localparam DIM_LOG = $clog2(DIM);
  localparam COL_BITS = DIM > 32 ? $clog2(4 * DIM + 1) : 8;  // of the columns of a row: up to 128, or 4 * DIM
  localparam [6:0] CONFIG = 7'd0;
  localparam [6:0] MVOUT_SPAD = 7'd23;

  // ---- commands: the queue's head, or straight from the port while the queue is empty
  wire queued;
  wire [ID_BITS-1:0] queued_id;
  wire [6:0] queued_funct;
  wire [63:0] queued_rs1, queued_rs2;
  wire take;                                      // the next command is taken
  baco_fifo #(.WIDTH(ID_BITS + 135), .DEPTH(STORE_QUEUE)) u_commands (
      .clock(clock),
      .reset(reset),
      .in_valid(cmd_valid && (queued || !take)),
      .in_ready(cmd_ready),
      .in_data({cmd_id, cmd_funct, cmd_rs1, cmd_rs2}),
      .out_valid(queued),
      .out_ready(take),
      .out_data({queued_id, queued_funct, queued_rs1, queued_rs2})
  );
  wire next_valid = queued || cmd_valid;
  wire [ID_BITS-1:0] id = queued ? queued_id : cmd_id;
  wire [6:0] funct = queued ? queued_funct : cmd_funct;
  wire [63:0] rs1 = queued ? queued_rs1 : cmd_rs1;
  wire [63:0] rs2 = queued ? queued_rs2 : cmd_rs2;

  // ---- state set by CONFIG
  reg relu;
  reg [31:0] scale;
  reg [ADDR_BITS-1:0] stride;
  reg windowed;                                   // pooling or 1-D mode
  reg pooling;
  reg [1:0] window_edge, window_step, pad_top, pad_left;
  reg [7:0] image_rows, image_cols, pooled_rows, pooled_cols;
  reg [9:0] pad_distance, line_distance;
  reg [ADDR_BITS-1:0] line_stride;

  wire is_config = funct == CONFIG;
  wire is_spad = funct == MVOUT_SPAD;
  wire use_windows = windowed && !is_spad;
  wire [7:0] rows = rs2[55:48];
  wire [COL_BITS-1:0] cols = rs2[32 +: COL_BITS];
  wire at_once = is_config;                       // done when taken

`ifdef BACO_MAX_POOL
  wire new_pooling = rs1[5:4] != 2'd0;
`else
  wire new_pooling = 1'b0;
`endif
  wire [ADDR_BITS-1:0] new_stride = {{(ADDR_BITS-32){1'b0}}, rs2[31:0]};
  always @(posedge clock) begin
    if (take && is_config && rs1[1:0] == 2'd2) begin
`ifdef BACO_ACTIVATIONS
      relu <= rs1[3:2] == 2'd1;
`else
      relu <= 1'b0;
`endif
      if (rs2[63:32] != 32'hffffffff)
        scale <= rs2[63:32];
      stride <= new_stride;
      pooling <= new_pooling;
      windowed <= new_pooling || rs1[7:6] != 2'd0;
      image_rows <= rs1[55:48];
      image_cols <= rs1[63:56];
      line_stride <= new_stride * {{(ADDR_BITS-8){1'b0}}, rs1[31:24]};
      if (new_pooling) begin
        window_edge <= rs1[7:6];
        window_step <= rs1[5:4];
        pad_top <= rs1[9:8];
        pad_left <= rs1[11:10];
        pooled_rows <= rs1[39:32];
        pooled_cols <= rs1[47:40];
        pad_distance <= {8'd0, rs1[9:8]} * {2'd0, rs1[63:56]} + {8'd0, rs1[11:10]};
        line_distance <= {8'd0, rs1[5:4]} * {2'd0, rs1[63:56]};
      end
      else begin                                  // 1-D mode: windows of one element
        window_edge <= 2'd1;
        window_step <= 2'd1;
        pad_top <= 2'd0;
        pad_left <= 2'd0;
        pooled_rows <= rs1[55:48];
        pooled_cols <= rs1[63:56];
        pad_distance <= 10'd0;
        line_distance <= {2'd0, rs1[63:56]};
      end
    end
    if (reset) begin
      relu <= 1'b0;
      scale <= 32'h3f800000;
      stride <= {ADDR_BITS{1'b0}};
      pooling <= 1'b0;
      windowed <= 1'b0;
    end
  end

  // ---- the walk over local rows
  wire active, walk_last;
  wire item_taken;
  wire [ROW_BITS-1:0] item_row;
  wire [ADDR_BITS-1:0] item_addr;
  wire [9:0] item_bytes;
  wire item_acc, item_full, item_spad, item_zero, item_first, item_emit;
  reg [ID_BITS-1:0] active_id;
  reg draining;                                   // a MVOUT_SPAD has read its last row
  wire finishing = item_taken && walk_last;
  wire idle = !active && !draining;
  wire drained;
  assign take = next_valid && (idle || (finishing && !item_spad && !at_once));
  wire start = take && !at_once;

  baco_store_walk #(.DIM(DIM), .ROW_BITS(ROW_BITS), .COL_BITS(COL_BITS), .ADDR_BITS(ADDR_BITS)) u_walk (
      .clock(clock),
      .reset(reset),
      .start(start),
      .start_acc(rs2[31]),
      .start_full(rs2[31] && rs2[29] && !is_spad),
      .start_spad(is_spad),
      .start_windowed(use_windows),
      .start_row(rs2[ROW_BITS-1:0]),
      .start_addr(is_spad ? {{(ADDR_BITS-SP_AW-DIM_LOG){1'b0}}, rs1[SP_AW-1:0], {DIM_LOG{1'b0}}}
                          : rs1[ADDR_BITS-1:0]),
      .start_stride(is_spad ? {{(ADDR_BITS-SP_AW-DIM_LOG){1'b0}}, rs1[32 +: SP_AW], {DIM_LOG{1'b0}}} : stride),
      .start_rows(rows),
      .start_cols(cols),
      .window_edge(window_edge),
      .window_step(window_step),
      .pad_top(pad_top),
      .pad_left(pad_left),
      .image_rows(image_rows),
      .image_cols(image_cols),
      .pooled_rows(pooled_rows),
      .pooled_cols(pooled_cols),
      .pad_distance(pad_distance),
      .line_distance(line_distance),
      .line_stride(line_stride),
      .active(active),
      .item_taken(item_taken),
      .item_row(item_row),
      .item_addr(item_addr),
      .item_bytes(item_bytes),
      .item_acc(item_acc),
      .item_full(item_full),
      .item_spad(item_spad),
      .item_zero(item_zero),
      .item_first(item_first),
      .item_emit(item_emit),
      .item_last(walk_last)
  );

  wire room;
  wire offer = active && room;
  assign sp_read_valid = offer && !item_zero && !item_acc;
  assign acc_read_valid = offer && !item_zero && item_acc;
  assign sp_read_row = item_row[SP_AW-1:0];
  assign acc_read_row = item_row[ACC_AW-1:0];
  assign item_taken = offer && (item_zero || (item_acc ? acc_read_ready : sp_read_ready));

  always @(posedge clock) begin
    done_valid <= (finishing && !item_spad) || (take && at_once) || (draining && drained);
    done_id <= take && at_once ? id : active_id;
    if (start)
      active_id <= id;
    if (finishing && item_spad)
      draining <= 1'b1;
    else if (drained)
      draining <= 1'b0;
    if (reset) begin
      done_valid <= 1'b0;
      draining <= 1'b0;
    end
  end

  // ---- rows to slices
  wire slice_valid, slice_ready, slice_spad;
  wire [ADDR_BITS-1:0] slice_addr;
  wire [6:0] slice_bytes;
  wire [SLICE*8-1:0] slice_data;
  wire starved, convert_busy;
  baco_store_convert #(.DIM(DIM), .DMA_BITS(DMA_BITS), .ADDR_BITS(ADDR_BITS)) u_convert (
      .clock(clock),
      .reset(reset),
      .room(room),
      .item_taken(item_taken),
      .item_addr(item_addr),
      .item_bytes(item_bytes),
      .item_acc(item_acc),
      .item_full(item_full),
      .item_spad(item_spad),
      .item_zero(item_zero),
      .item_first(item_first),
      .item_emit(item_emit),
      .relu(relu),
      .scale(scale),
      .sp_read_data(sp_read_data),
      .acc_read_data(acc_read_data),
      .slice_valid(slice_valid),
      .slice_ready(slice_ready),
      .slice_addr(slice_addr),
      .slice_bytes(slice_bytes),
      .slice_spad(slice_spad),
      .slice_data(slice_data),
      .starved(starved),
      .busy(convert_busy)
  );

  // ---- slices to the scratchpad: their address is row * DIM + column
  wire packer_ready;
  wire sp_write_free = !sp_write_valid || sp_write_ready;
  assign slice_ready = slice_spad ? sp_write_free : packer_ready;
  always @(posedge clock) begin
    if (sp_write_free)
      sp_write_valid <= slice_valid && slice_spad;
    if (sp_write_free && slice_valid && slice_spad) begin
      sp_write_row <= slice_addr[DIM_LOG +: SP_AW];
      sp_write_mask <= ~({DIM{1'b1}} << slice_bytes) << slice_addr[DIM_LOG-1:0];
      sp_write_data <= {(DIM/LANES){slice_data[LANES*8-1:0]}};
    end
    if (reset)
      sp_write_valid <= 1'b0;
  end
  assign drained = !convert_busy && !sp_write_valid;

  // ---- slices to memory
  wire packer_stalled, packer_busy;
  baco_store_packer #(
      .SLICE(SLICE),
      .DMA_BITS(DMA_BITS),
      .DMA_MAX_BYTES(DMA_MAX_BYTES),
      .DMA_REQUESTS(DMA_REQUESTS),
      .ADDR_BITS(ADDR_BITS)
  ) u_packer (
      .clock(clock),
      .reset(reset),
      .slice_valid(slice_valid && !slice_spad),
      .slice_ready(packer_ready),
      .slice_addr(slice_addr),
      .slice_bytes(slice_bytes),
      .slice_data(slice_data),
      .more(active || convert_busy),
      .wr_req_valid(wr_req_valid),
      .wr_req_ready(wr_req_ready),
      .wr_req_addr(wr_req_addr),
      .wr_req_data(wr_req_data),
      .wr_req_mask(wr_req_mask),
      .wr_ack_valid(wr_ack_valid),
      .bytes_sent(bytes_sent),
      .requests_in_flight(requests_in_flight),
      .stalled(packer_stalled),
      .busy(packer_busy)
  );

  assign busy = queued || done_valid || !idle || convert_busy || sp_write_valid || packer_busy;
  assign events = {1'b0, wr_req_valid && wr_req_ready, packer_stalled, packer_busy,
                   offer && !item_taken, pooling, starved, active};
  wire _unused = &{1'b0, rs1, rs2};
endmodule
