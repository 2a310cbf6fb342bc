// The store controller: CONFIG (store), MVOUT and MVOUT_SPAD; CONFIG_FUNCTION, LOAD_TABLE, CONFIG_OUTPUT and SET_SCALES where
// they are built.
//
// Stores run in program order and as one stream: the walk of the next starts the cycle after the last local row of
// the one before has been read, while that one's rows are still being scaled and written. So a store is done, for the
// purpose of local dependencies, when its last row has been read; memory writes follow and are only awaited by `busy`.
// MVOUT_SPAD is done when its last row has been written, and the next command waits for it. Its rows are read ahead of
// the writes: where its source and destination overlap, the result is not defined. CONFIG_FUNCTION, LOAD_TABLE,
// CONFIG_OUTPUT and SET_SCALES wait until no row is left in the pipeline, since all of it sees what they set.
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
    parameter SCALE_LANES = 128,   // elements of results that are worked on in a cycle at most
    parameter ADDR_BITS = 40,      // memory address, 32 or more
    parameter ID_BITS = 6          // reservation station entry
) (
    input wire clock,
    input wire reset,
    input wire cmd_valid,                         // one of these commands
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
    input wire [DIM*`ELEMENT_BITS-1:0] sp_read_data,          // two cycles after the read was accepted, only then
    output wire acc_read_valid,                   // read an accumulator row
    input wire acc_read_ready,
    output wire [$clog2(ACC_ROWS)-1:0] acc_read_row,
    input wire [DIM*32-1:0] acc_read_data,        // in the cycle after the read was accepted, only then
    output reg sp_write_valid,                    // write elements of a scratchpad row (MVOUT_SPAD)
    input wire sp_write_ready,
    output reg [$clog2(SP_ROWS)-1:0] sp_write_row,
    output reg [DIM-1:0] sp_write_mask,           // elements that are written
    output reg [DIM*`ELEMENT_BITS-1:0] sp_write_data,
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
  localparam MOST = DIM < `BUS_ELEMENTS ? DIM : `BUS_ELEMENTS;
  localparam LANES = MOST < SCALE_LANES ? MOST : SCALE_LANES;
`ifdef BACO_WIDE_ELEMENTS
  localparam DIM_LOG = $clog2(DIM) + 1;           // of the bytes of a row
`else
  localparam DIM_LOG = $clog2(DIM);
`endif
  localparam COL_BITS = 16;                       // of the columns of a row
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
  reg [7:0] line_pixels;                          // of the pooled image
  reg [ADDR_BITS-1:0] line_stride;                // a cycle behind: no walk takes it in its first

  wire is_config = funct == CONFIG;
  wire is_spad = funct == MVOUT_SPAD;
  wire use_windows = windowed && !is_spad;
  wire [7:0] rows = rs2[55:48];
  wire [COL_BITS-1:0] cols = rs2[32 +: COL_BITS];
`ifdef BACO_REQUANTIZATION
  wire is_output = funct == 7'd28 || funct == 7'd29;
`else
  wire is_output = 1'b0;
`endif
`ifdef BACO_NORMALIZATIONS
  wire is_norm = is_config && rs1[1:0] == 2'd3;
  wire waits = (is_norm && !rs1[17]) || is_output;  // constants: none is in use in an empty pipeline
`else
  wire waits = is_output;
`endif
`ifdef BACO_ROW_FUNCTIONS
  wire is_function = funct == 7'd26;
  wire is_table = funct == 7'd27;
  wire exclusive = is_function || is_table || waits;  // waits for an empty pipeline
  wire at_once = is_config || is_function || is_output;  // done when taken
`else
  wire at_once = is_config || is_output;          // done when taken
`endif

`ifdef BACO_MAX_POOL
  wire new_pooling = rs1[5:4] != 2'd0;
`else
  wire new_pooling = 1'b0;
`endif
  always @(posedge clock) begin
    line_stride <= stride * {{(ADDR_BITS-8){1'b0}}, line_pixels};
    if (take && is_config && rs1[1:0] == 2'd2) begin
`ifdef BACO_ACTIVATIONS
      relu <= rs1[3:2] == 2'd1;
`else
      relu <= 1'b0;
`endif
      if (rs2[63:32] != 32'hffffffff)
        scale <= rs2[63:32];
      stride <= {{(ADDR_BITS-32){1'b0}}, rs2[31:0]};
      pooling <= new_pooling;
      windowed <= new_pooling || rs1[7:6] != 2'd0;
      image_rows <= rs1[55:48];
      image_cols <= rs1[63:56];
      line_pixels <= rs1[31:24];
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

`ifdef BACO_REQUANTIZATION
  // ---- scales of columns, zero point and limits of results
  reg by_column;
  reg [7:0] out_zero, out_low, out_high;
  reg [DIM*32-1:0] column_scales;                 // without a value after reset, as tables
  integer pair;
  always @(posedge clock) begin
    if (take && funct == 7'd28) begin
      by_column <= rs1[0];
      out_zero <= rs1[15:8];
      out_low <= rs1[23:16];
      out_high <= rs1[31:24];
    end
    if (take && funct == 7'd29)
      for (pair = 0; pair < DIM / 2; pair = pair + 1)
        if (rs1[7:1] == pair[6:0])
          column_scales[pair*64 +: 64] <= rs2;
    if (reset) begin
      by_column <= 1'b0;
      out_zero <= 8'd0;
      out_low <= 8'h80;
      out_high <= 8'h7f;
    end
  end
`endif

`ifdef BACO_NORMALIZATIONS
  // ---- normalised results
  reg [2:0] activation;                           // 2 layer norm, 3 I-GELU, 4 softmax
  reg norm_slot;                                  // of statistics
  reg [31:0] norm_qb, norm_qc, norm_qln2, norm_qln2_inv;
  wire [2:0] new_norm = rs2[31] && !is_spad ? rs2[28:26] : 3'd0;
  always @(posedge clock) begin
    if (take && is_config && rs1[1:0] == 2'd2) activation <= {1'b0, rs1[3:2]};
    if (take && is_norm) begin
      norm_slot <= rs1[8];
      if (waits) begin
        activation[2] <= rs1[16];
        norm_qb <= rs2[31:0];
        norm_qc <= rs2[63:32];
        if (rs1[18]) norm_qln2_inv <= rs1[63:32];
        else norm_qln2 <= rs1[63:32];
      end
    end
    if (reset) begin
      activation <= 3'd0;
      norm_slot <= 1'b0;
      norm_qb <= 32'd0;
      norm_qc <= 32'd0;
      norm_qln2 <= 32'd0;
      norm_qln2_inv <= 32'd0;
    end
  end
  wire start_statistics = new_norm != 3'd0;
`else
  wire start_statistics = 1'b0;
`endif

  // ---- the walk over local rows
  wire active, walk_last;
  wire item_taken;
  wire starved, converting;
  reg late;                                       // a row of the scratchpad is read that the conversion takes now
  wire convert_busy = converting || late;
  wire [ROW_BITS-1:0] item_row;
  wire [ADDR_BITS-1:0] item_addr;
  wire [9:0] item_bytes;
  wire item_acc, item_full, item_spad, item_zero, item_first, item_emit;
  reg [ID_BITS-1:0] active_id;
  reg draining;                                   // a MVOUT_SPAD has read its last row
  wire finishing = item_taken && walk_last;
  wire drained;
`ifdef BACO_ROW_FUNCTIONS
  reg loading_table;
  wire idle = !active && !draining && !loading_table;
  assign take = next_valid && (exclusive ? idle && !convert_busy : idle || (finishing && !item_spad && !at_once));
  wire start = take && !at_once && !is_table;
`else
  wire idle = !active && !draining;
  assign take = next_valid && (waits ? idle && !convert_busy : idle || (finishing && !item_spad && !at_once));
  wire start = take && !at_once;
`endif

`ifdef BACO_NORMALIZATIONS
  reg [2:0] norm;                                 // normaliser command of the store that is walked
  reg resets;                                     // its statistics begin anew behind it
  wire statistics = norm != 3'd0;                 // no results come of the items
  always @(posedge clock) begin
    if (start) begin
      norm <= new_norm;
      resets <= rs2[31] && !is_spad && !windowed;
    end
    if (reset) norm <= 3'd0;
  end
  wire plain_row_end;
`else
  wire statistics = 1'b0;
`endif
  // of scratchpad rows: row * DIM
  wire [ADDR_BITS-1:0] start_addr =
      is_spad ? {{(ADDR_BITS-SP_AW-DIM_LOG){1'b0}}, rs1[SP_AW-1:0], {DIM_LOG{1'b0}}} : rs1[ADDR_BITS-1:0];
  wire [ADDR_BITS-1:0] start_stride =
      is_spad ? {{(ADDR_BITS-SP_AW-DIM_LOG){1'b0}}, rs1[32 +: SP_AW], {DIM_LOG{1'b0}}} : stride;
  wire plain_start, plain_taken, plain_active, plain_last;
  wire [ROW_BITS-1:0] plain_row;
  wire [ADDR_BITS-1:0] plain_addr;
  wire [9:0] plain_bytes;
  wire plain_acc, plain_full, plain_spad, plain_zero, plain_first, plain_emit;
  baco_store_walk #(.DIM(DIM), .ROW_BITS(ROW_BITS), .COL_BITS(COL_BITS), .ADDR_BITS(ADDR_BITS)) u_walk (
      .clock(clock),
      .reset(reset),
      .start(plain_start),
      .start_acc(rs2[31]),
      .start_full(rs2[31] && rs2[29] && !is_spad && !start_statistics),
      .start_spad(is_spad),
      .start_windowed(use_windows),
      .start_row(rs2[ROW_BITS-1:0]),
      .start_addr(start_addr),
      .start_stride(start_stride),
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
      .active(plain_active),
      .item_taken(plain_taken),
      .item_row(plain_row),
      .item_addr(plain_addr),
      .item_bytes(plain_bytes),
      .item_acc(plain_acc),
      .item_full(plain_full),
      .item_spad(plain_spad),
      .item_zero(plain_zero),
      .item_first(plain_first),
      .item_emit(plain_emit),
`ifdef BACO_NORMALIZATIONS
      .item_row_end(plain_row_end),
`endif
      .item_last(plain_last)
  );

`ifdef BACO_ROW_FUNCTIONS
  // ---- stores of rows that are softmaxed or normalised, and tables
  reg [1:0] stored_function;                      // of elements, as configured
  reg centre, causal, product;
  reg [4:0] shift;
  reg [7:0] apart;                                // softmax: rows from one block of a row to the next
  reg [16:0] valid;                               // causal: elements of the next store's first row
  reg [31:0] operand;                             // numerator, or address of gains and offsets
  reg [47:0] epsilon;
  wire by_row = stored_function[1] && !(rs2[31] && rs2[29]);
  wire softmax = !stored_function[0];
  wire row_start = start && by_row;
  wire [16:0] valid_after = valid + {9'd0, rows};
  reg [15:0] row_elements;
  always @(posedge clock) begin
    if (take && is_function) begin
      stored_function <= rs1[1:0];
      centre <= rs1[2];
      causal <= rs1[3];
      shift <= rs1[8:4];
      apart <= rs1[1:0] == 2'd2 && rs2[55:48] != 8'd0 ? rs2[55:48] : DIM[7:0];
      product <= rs1[9];
      valid <= {1'b0, rs1[31:16]};
      operand <= rs1[63:32];
      epsilon <= rs2[47:0];
    end
    if (row_start) begin
      row_elements <= rs2[47:32];
      valid <= valid[16] ? valid : valid_after;
    end
    if (reset)
      stored_function <= 2'd0;
  end

  wire row_active, row_offer, row_taken, row_parameter, row_acc, row_spad, row_end, row_last;
  wire [ROW_BITS-1:0] row_row;
  wire [ADDR_BITS-1:0] row_addr;
  wire [7:0] row_cols, row_count;
  wire [1:0] row_pass;
  wire [6:0] row_index;
  wire [DIM-1:0] summable, finished;
  baco_function_walk #(.DIM(DIM), .ROW_BITS(ROW_BITS), .ADDR_BITS(ADDR_BITS)) u_row_walk (
      .clock(clock),
      .reset(reset),
      .start(row_start),
      .start_softmax(softmax),
      .start_causal(causal && softmax),
      .start_product(product && !softmax),
      .start_valid(valid),
      .start_acc(rs2[31]),
      .start_spad(is_spad),
      .start_row(rs2[ROW_BITS-1:0]),
      .start_apart(apart),
      .start_parameters(operand[ROW_BITS-1:0]),
      .start_addr(start_addr),
      .start_stride(start_stride),
      .start_rows(rows),
      .start_cols(rs2[47:32]),
      .summable(summable),
      .finished(finished),
      .active(row_active),
      .offer(row_offer),
      .item_taken(row_taken),
      .item_parameter(row_parameter),
      .item_row(row_row),
      .item_addr(row_addr),
      .item_cols(row_cols),
      .item_count(row_count),
      .item_acc(row_acc),
      .item_spad(row_spad),
      .item_pass(row_pass),
      .item_index(row_index),
      .item_end(row_end),
      .item_last(row_last)
  );

  // rows of gains and offsets on their way or waiting
  reg [3:0] parameters_held;
  reg parameters_arrive;
  wire parameters_taken;
  wire parameters_asked = row_taken && row_parameter;
  always @(posedge clock) begin
    parameters_arrive <= parameters_asked && !reset;
    if (reset)
      parameters_held <= 4'd0;
    else if (parameters_asked && !parameters_taken)
      parameters_held <= parameters_held + 4'd1;
    else if (parameters_taken && !parameters_asked)
      parameters_held <= parameters_held - 4'd1;
  end

  // a table: accumulator rows, each cut into its entries
  localparam [31:0] ENTRIES_VALUE = 2 * DIM;
  localparam [8:0] ENTRIES = ENTRIES_VALUE[8:0];  // of a row
  reg table_arrives;
  reg [ACC_AW-1:0] table_row;
  reg [8:0] entries_left;                         // of the row in `table_data`
  reg [7:0] table_index;
  reg [DIM*32-1:0] table_data;
  reg table_read;                                 // a register: what reads rows decides which command is next
  wire table_write = entries_left != 9'd0;
  wire table_done = table_write && table_index == 8'd255;
  always @(posedge clock) begin
    table_read <= loading_table && !table_arrives && entries_left == 9'd0 && !(table_read && acc_read_ready) && !reset;
    table_arrives <= table_read && acc_read_ready;
    if (table_read && acc_read_ready)
      table_row <= table_row + 1'b1;
    if (table_arrives) begin
      table_data <= acc_read_data;
      entries_left <= ENTRIES;
    end
    if (table_write) begin
      table_data <= table_data >> 16;
      table_index <= table_index + 8'd1;
      entries_left <= table_done ? 9'd0 : entries_left - 9'd1;
    end
    if (take && is_table) begin
      loading_table <= 1'b1;
      table_row <= rs1[ACC_AW-1:0];
      table_index <= 8'd0;
      entries_left <= 9'd0;
    end
    if (table_done)
      loading_table <= 1'b0;
    if (reset) begin
      loading_table <= 1'b0;
      table_arrives <= 1'b0;
      entries_left <= 9'd0;
    end
  end

  assign plain_start = start && !by_row;
  assign active = plain_active || row_active;
  assign walk_last = row_active ? row_last : plain_last;
  assign item_row = row_active ? row_row : plain_row;
  assign item_addr = row_active ? row_addr : plain_addr;
  assign item_bytes = row_active ? {2'b00, row_cols} : plain_bytes;
  assign item_acc = row_active ? row_acc : plain_acc;
  assign item_full = !row_active && plain_full;
  assign item_spad = row_active ? row_spad : plain_spad;
  assign item_zero = !row_active && plain_zero;
  assign item_first = row_active || plain_first;
  assign item_emit = row_active ? row_pass == 2'd2 : plain_emit && !statistics;
`else
  assign plain_start = start;
  assign {active, walk_last, item_row, item_addr} = {plain_active, plain_last, plain_row, plain_addr};
  assign {item_bytes, item_acc, item_full, item_spad} = {plain_bytes, plain_acc, plain_full, plain_spad};
  assign {item_zero, item_first, item_emit} = {plain_zero, plain_first, plain_emit && !statistics};
`endif

  // A row of the scratchpad comes a cycle later than one of the accumulator: the conversion takes it a cycle after it was asked
  // for, when there must be room.
  wire room, room_next;
  wire may = item_acc ? room && !late : room_next;
`ifdef BACO_ROW_FUNCTIONS
  wire offer = row_active ? row_offer && (row_parameter ? !parameters_held[3] : may) : plain_active && may;
  assign acc_read_valid = table_read || (offer && !item_zero && item_acc);
  assign acc_read_row = table_read ? table_row : item_row[ACC_AW-1:0];
`else
  wire offer = active && may;
  assign acc_read_valid = offer && !item_zero && item_acc;
  assign acc_read_row = item_row[ACC_AW-1:0];
`endif
  assign sp_read_valid = offer && !item_zero && !item_acc;
  assign sp_read_row = item_row[SP_AW-1:0];
  assign item_taken = offer && (item_zero || (item_acc ? acc_read_ready : sp_read_ready));
`ifdef BACO_ROW_FUNCTIONS
  assign plain_taken = item_taken && !row_active;
  assign row_taken = item_taken && row_active;
  wire elements_taken = item_taken && !(row_active && row_parameter);
  wire [7:0] item_count = row_active ? row_count : 8'd0;
  localparam LATE = ADDR_BITS + 10 + 4 + 18;
  reg [LATE-1:0] late_item;
  wire [LATE-1:0] now = {item_addr, item_bytes, item_spad, item_zero, item_first, item_emit, row_pass, row_index, item_count, row_end};
`else
  assign plain_taken = item_taken;
  wire elements_taken = item_taken;
  localparam LATE = ADDR_BITS + 10 + 4;
  reg [LATE-1:0] late_item;
  wire [LATE-1:0] now = {item_addr, item_bytes, item_spad, item_zero, item_first, item_emit};
`endif

  always @(posedge clock) begin
`ifdef BACO_ROW_FUNCTIONS
    done_valid <= (finishing && !item_spad) || (take && at_once) || (draining && drained) || table_done;
    if (start || (take && is_table))
      active_id <= id;
`else
    done_valid <= (finishing && !item_spad) || (take && at_once) || (draining && drained);
    if (start)
      active_id <= id;
`endif
    done_id <= take && at_once ? id : active_id;
    if (finishing && item_spad)
      draining <= 1'b1;
    else if (drained)
      draining <= 1'b0;
    if (reset) begin
      done_valid <= 1'b0;
      draining <= 1'b0;
    end
  end

  always @(posedge clock) begin
    late <= elements_taken && !item_acc && !reset;
    late_item <= now;
  end

  // ---- rows to slices
  wire [LATE-1:0] next_item = late ? late_item : now;
  wire slice_valid, slice_ready, slice_spad;
  wire [ADDR_BITS-1:0] slice_addr;
  wire [6:0] slice_bytes;
  wire [SLICE*8-1:0] slice_data;
  baco_store_convert #(.DIM(DIM), .DMA_BITS(DMA_BITS), .LANES(LANES), .ADDR_BITS(ADDR_BITS)) u_convert (
      .clock(clock),
      .reset(reset),
      .room(room),
      .room_next(room_next),
      .item_taken(late || (elements_taken && item_acc)),
      .item_late(late),
      .item_addr(next_item[LATE-1 -: ADDR_BITS]),
      .item_bytes(next_item[LATE-ADDR_BITS-1 -: 10]),
      .item_acc(!late),
      .item_full(item_full && !late),
      .item_spad(next_item[LATE-ADDR_BITS-11]),
      .item_zero(next_item[LATE-ADDR_BITS-12]),
      .item_first(next_item[LATE-ADDR_BITS-13]),
      .item_emit(next_item[LATE-ADDR_BITS-14]),
`ifdef BACO_ROW_FUNCTIONS
      .item_function(late || row_active || !item_full ? stored_function : 2'd0),
      .item_pass(next_item[17:16]),
      .item_index(next_item[15:9]),
      .item_count(next_item[8:1]),
      .item_end(next_item[0]),
      .function_start(row_start),
      .function_softmax(softmax),
      .function_centre(centre),
      .function_product(product),
      .function_shift(shift),
      .function_numerator(operand),
      .function_epsilon(epsilon),
      .function_elements(row_elements),
      .table_write(table_write),
      .table_index(table_index),
      .table_entry(table_data[15:0]),
      .parameters_valid(parameters_arrive),
      .parameters_taken(parameters_taken),
      .summable(summable),
      .finished(finished),
`endif
`ifdef BACO_NORMALIZATIONS
      .item_resets(resets && !late),
      .item_row_end(plain_row_end),
      .item_norm(late ? 3'd0 : norm),
      .activation(activation),
      .norm_slot(norm_slot),
      .norm_qb(norm_qb),
      .norm_qc(norm_qc),
      .norm_qln2(norm_qln2),
      .norm_qln2_inv(norm_qln2_inv),
`endif
`ifdef BACO_REQUANTIZATION
      .by_column(by_column),
      .column_scales(column_scales),
      .out_zero(out_zero),
      .out_low(out_low),
      .out_high(out_high),
`endif
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
      .busy(converting)
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
`ifdef BACO_WIDE_ELEMENTS
      sp_write_mask <= ~({DIM{1'b1}} << slice_bytes[6:1]) << slice_addr[DIM_LOG-1:1];
`else
      sp_write_mask <= ~({DIM{1'b1}} << slice_bytes) << slice_addr[DIM_LOG-1:0];
`endif
      sp_write_data <= {(DIM/LANES){slice_data[LANES*`ELEMENT_BITS-1:0]}};
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
