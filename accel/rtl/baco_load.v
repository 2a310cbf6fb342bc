// Load unit: configuration of the three load states and movement from main memory to scratchpad and accumulator.
//
//   commands -> decode -+-> requests (baco_dma_read) ----------------> memory
//                       +-> rows (baco_load_rows, baco_aligner) <----- beats
//                             -> baco_pixel_repeat -> baco_load_scale -> local memories
//
// A command is decoded as it is accepted, with the state it finds, into two queued jobs: one says what to request, the other
// what to make of the beats. They are walked independently, so requests run ahead of data over all queued
// commands, and nothing is kept per request. Everything is in order: loads of the same rows land in program order, zero loads
// included, and a command is done when its last local row has been accepted.
// A command whose rows follow one another in memory with less than a beat between them is requested as one span, so
// that narrow rows are fetched in large requests and a beat that two rows share is fetched once.
module baco_load #(
    parameter DIM = 16,             // elements of a row of the local memories
    parameter SP_ROWS = 16384,      // rows of the scratchpad
    parameter ACC_ROWS = 1024,      // rows of the accumulator
    parameter DMA_BITS = 128,       // bits of a memory beat
    parameter DMA_MAX_BYTES = 64,   // largest memory request
    parameter DMA_REQUESTS = 16,    // memory requests in flight
    parameter LOAD_QUEUE = 8,       // commands accepted ahead
    parameter SCALE_LANES = 128,    // elements that are scaled in a cycle at most
    parameter ADDR_BITS = 40,       // bits of a memory address
    parameter ID_BITS = 6           // bits of a command's identity
) (
    input  wire                        clock,
    input  wire                        reset,
    input  wire                        cmd_valid,       // a command is offered: CONFIG of a load state, MVIN, MVIN2 or MVIN3
    output wire                        cmd_ready,       // it is accepted
    input  wire [ID_BITS-1:0]          cmd_id,          // given back when it is done
    input  wire [6:0]                  cmd_funct,       // function code
    input  wire [63:0]                 cmd_rs1,         // first register value
    input  wire [63:0]                 cmd_rs2,         // second register value
    output wire                        done_valid,      // a command is done, in program order
    output wire [ID_BITS-1:0]          done_id,         // its identity
    output wire                        rd_req_valid,    // a memory read is requested
    input  wire                        rd_req_ready,    // memory accepts it
    output wire [ADDR_BITS-1:0]        rd_req_addr,     // address, a multiple of the size
    output wire [2:0]                  rd_req_size,     // log2 of the bytes, a beat to DMA_MAX_BYTES
    input  wire                        rd_resp_valid,   // a beat arrives, in request order
    output wire                        rd_resp_ready,   // it is consumed
    input  wire [DMA_BITS-1:0]         rd_resp_data,    // its bytes, the lowest address in the low bits
    output wire                        sp_write_valid,  // a scratchpad row is to be written
    input  wire                        sp_write_ready,  // it is accepted
    output wire [$clog2(SP_ROWS)-1:0]  sp_write_row,    // row
    output wire [DIM-1:0]              sp_write_mask,   // elements to write
    output wire [DIM*`ELEMENT_BITS-1:0]            sp_write_data,   // elements
    output wire                        acc_write_valid, // an accumulator row is to be written
    input  wire                        acc_write_ready, // it is accepted
    output wire [$clog2(ACC_ROWS)-1:0] acc_write_row,   // row
    output wire                        acc_write_accumulate, // add to what the row holds
    output wire [DIM-1:0]              acc_write_mask,  // elements to write
    output wire [DIM*32-1:0]           acc_write_data,  // elements
    output wire                        busy,            // anything in flight
    output wire [7:0]                  events,          // [0] rows under way [1] first one waits [2] row waits for request
                                                        // [3] reads in flight [4] request stalled [5] request accepted
    output wire [7:0]                  bytes_requested, // bytes of the request accepted in this cycle
    output wire [8:0]                  requests_in_flight // requests whose data have not all been consumed
);
  localparam BEAT = DMA_BITS / 8;
  localparam BEAT_LOG = $clog2(BEAT);
  localparam SP_AW = $clog2(SP_ROWS);
  localparam ACC_AW = $clog2(ACC_ROWS);
  localparam ROW_BITS = SP_AW > ACC_AW ? SP_AW : ACC_AW;
  localparam STRIDE_BITS = ROW_BITS < 16 ? ROW_BITS : 16;  // of block_stride
  localparam LINE = DMA_MAX_BYTES > 64 ? DMA_MAX_BYTES : 64;
  localparam MAX_ROW_BYTES = DIM * 4 > LINE ? DIM * 4 : LINE;
  localparam COLS_BITS = $clog2(MAX_ROW_BYTES + 1);
  localparam BYTES_BITS = COLS_BITS + 2;                   // bytes of a memory row, whatever its element size
  localparam SPAN_BITS = BYTES_BITS + 17;                  // bytes of a span: up to 65535 rows less than a beat apart
  localparam COUNT_BITS = $clog2(DIM + 1) < 8 ? $clog2(DIM + 1) : 8;  // pixel repeats
  localparam [31:0] ONE = 32'h3f800000;

  // ---- configuration state, by state id -----------------------------------------------------------------------------
  (* mem2reg *) reg [ADDR_BITS-1:0] stride[0:2];
  (* mem2reg *) reg [STRIDE_BITS-1:0] block_stride[0:2];
  (* mem2reg *) reg [COUNT_BITS-1:0] repeats[0:2];
  (* mem2reg *) reg [31:0] scale[0:2];
  (* mem2reg *) reg shrink[0:2];
`ifdef BACO_PACKED_WEIGHTS
  (* mem2reg *) reg pairs[0:2];  // elements of 4 bits
`endif
`ifdef BACO_BLOCK_WEIGHTS
  (* mem2reg *) reg [2:0] format[0:2];  // of elements of blocks, as baco_block_element has it; 0 for none
`endif

  wire is_config = cmd_funct == 7'd0;
  wire [1:0] state = cmd_funct == 7'd14 ? 2'd2 : cmd_funct == 7'd1 ? 2'd1 : 2'd0;
  wire accepted = cmd_valid && cmd_ready;
  integer s;
  always @(posedge clock)
    for (s = 0; s < 3; s = s + 1)
      if (reset) begin
        stride[s] <= {ADDR_BITS{1'b0}};
        block_stride[s] <= {STRIDE_BITS{1'b0}};
        repeats[s] <= {COUNT_BITS{1'b0}};
        scale[s] <= ONE;
        shrink[s] <= 1'b0;
`ifdef BACO_PACKED_WEIGHTS
        pairs[s] <= 1'b0;
`endif
`ifdef BACO_BLOCK_WEIGHTS
        format[s] <= 3'd0;
`endif
      end else if (accepted && is_config && cmd_rs1[4:3] == s[1:0]) begin
        stride[s] <= cmd_rs2[ADDR_BITS-1:0];
        block_stride[s] <= cmd_rs1[16+:STRIDE_BITS];
        repeats[s] <= cmd_rs1[8+:COUNT_BITS];
        scale[s] <= cmd_rs1[63:32];
        shrink[s] <= cmd_rs1[2];
`ifdef BACO_PACKED_WEIGHTS
        pairs[s] <= cmd_rs1[5];
`endif
`ifdef BACO_BLOCK_WEIGHTS
        format[s] <= cmd_rs1[7:6] == 2'd1 && cmd_rs1[5] ? 3'd1 : cmd_rs1[7:6] == 2'd0 ? 3'd0 : {1'b0, cmd_rs1[7:6]} + 3'd1;
`endif
      end

  // ---- decode ---------------------------------------------------------------------------------------------------------
  wire [15:0] rows = cmd_rs2[63:48];
  wire [COLS_BITS-1:0] cols = cmd_rs2[32+:COLS_BITS];
  wire to_acc = cmd_rs2[31];
  wire [ADDR_BITS-1:0] step = stride[state];
  wire wide = to_acc && !shrink[state];
  wire zero = cmd_rs1 == 64'd0;
  wire replicate = zero || step == {ADDR_BITS{1'b0}};
  wire nothing = is_config;
  wire fetches = !nothing && !zero;
`ifdef BACO_PACKED_WEIGHTS
  wire paired = !wide && pairs[state];
  wire [COLS_BITS-1:0] narrow_bytes = paired ? {1'b0, cols[COLS_BITS-1:1]} + {{(COLS_BITS - 1) {1'b0}}, cols[0]} : cols;
  wire [BYTES_BITS-1:0] row_bytes = wide ? {cols, 2'b00} : {2'b00, narrow_bytes};
`else
`ifdef BACO_BLOCK_WEIGHTS
  // The state's format, or 5 for powers; zeros are zeros in any.
  wire [2:0] kind = nothing || wide || format[state] == 3'd0 ? 3'd0 : cmd_rs2[30] ? 3'd5 : zero ? 3'd0 : format[state];
  wire [COLS_BITS-1:0] block_bytes = kind == 3'd1 ? {1'b0, cols[COLS_BITS-1:1]} + {{(COLS_BITS - 1) {1'b0}}, cols[0]} : cols;
  wire [BYTES_BITS-1:0] row_bytes = wide ? {cols, 2'b00} : kind == 3'd0 ? `BYTES(cols) : {2'b00, block_bytes};
`else
  wire [BYTES_BITS-1:0] row_bytes = wide ? {cols, 2'b00} : `BYTES(cols);
`endif
`endif
  // Rows that follow one another with less than a beat between them are one span.
  wire [ADDR_BITS-1:0] gap = step - {{(ADDR_BITS - BYTES_BITS) {1'b0}}, row_bytes};
  wire merged = !replicate && gap[ADDR_BITS-1:BEAT_LOG] == {(ADDR_BITS - BEAT_LOG) {1'b0}};
  wire single = merged || replicate;
  wire [15:0] rows_before = rows - 16'd1;
`ifdef BACO_MVIN_SCALE
  wire scale_narrow = 1'b1;
`else
  wire scale_narrow = 1'b0;
`endif
`ifdef BACO_MVIN_SCALE_ACC
  wire scale_wide = 1'b1;
`else
  wire scale_wide = 1'b0;
`endif
  wire identity = nothing || zero || scale[state] == ONE || !(wide ? scale_wide : scale_narrow);
`ifdef BACO_FIRST_LAYER
  wire repeated = !nothing && !to_acc && repeats[state] > {{(COUNT_BITS - 1) {1'b0}}, 1'b1};
`else
  wire repeated = 1'b0;
`endif
  wire [ROW_BITS-1:0] block_rows;
  generate
    if (ROW_BITS > STRIDE_BITS) begin : many_rows
      assign block_rows = {{(ROW_BITS - STRIDE_BITS) {1'b0}}, block_stride[state]};
    end else begin : few_rows
      assign block_rows = block_stride[state];
    end
  endgenerate
  wire _unused_command = &{1'b0, cmd_rs1, cmd_rs2};

  // ---- requests -------------------------------------------------------------------------------------------------------
  localparam READ_BITS = ADDR_BITS * 2 + BYTES_BITS + 18;
  wire reads_ready;
  wire read_valid;
  wire read_ready;
  wire [READ_BITS-1:0] read_job;
  wire rows_ready;
  assign cmd_ready = reads_ready && rows_ready;

  baco_fifo #(.WIDTH(READ_BITS), .DEPTH(LOAD_QUEUE)) reads (
      .clock(clock), .reset(reset), .in_valid(accepted && fetches), .in_ready(reads_ready),
      .in_data({cmd_rs1[ADDR_BITS-1:0], step, row_bytes, merged, single, rows_before}),
      .out_valid(read_valid), .out_ready(read_ready), .out_data(read_job));

  // What is between the first row's start and the last one's is multiplied behind the queue, whose path in is long enough.
  wire [ADDR_BITS-1:0] read_step = read_job[18+BYTES_BITS+:ADDR_BITS];
  wire [SPAN_BITS-1:0] last_row = read_job[17]
      ? {{(SPAN_BITS - 16) {1'b0}}, read_job[15:0]} * {{(SPAN_BITS - BYTES_BITS - 1) {1'b0}}, read_step[BYTES_BITS:0]}
      : {SPAN_BITS{1'b0}};
  wire [15:0] spans = read_job[16] ? 16'd1 : read_job[15:0] + 16'd1;

  wire sending;
  wire first_request_waits;
  wire refused;
  wire beat_taken = rd_resp_valid && rd_resp_ready;
  baco_dma_read #(
      .DMA_BITS(DMA_BITS), .DMA_MAX_BYTES(DMA_MAX_BYTES), .DMA_REQUESTS(DMA_REQUESTS), .ADDR_BITS(ADDR_BITS),
      .SPAN_BITS(SPAN_BITS), .ROW_BITS(BYTES_BITS)) read (
      .clock(clock), .reset(reset), .job_valid(read_valid), .job_ready(read_ready),
      .job_addr(read_job[18+BYTES_BITS+ADDR_BITS+:ADDR_BITS]), .job_stride(read_step),
      .job_last_row(last_row), .job_row_bytes(read_job[18+:BYTES_BITS]), .job_spans(spans),
      .rd_req_valid(rd_req_valid), .rd_req_ready(rd_req_ready), .rd_req_addr(rd_req_addr), .rd_req_size(rd_req_size),
      .beat_taken(beat_taken), .sending(sending), .first_waiting(first_request_waits), .refused(refused),
      .bytes_requested(bytes_requested), .requests_in_flight(requests_in_flight));

  // ---- rows -----------------------------------------------------------------------------------------------------------
  // What accompanies a job to the end: identity of the command, where and how to write, scale, copies.
  localparam WRITE_BITS = ID_BITS + 2;
`ifdef BACO_PACKED_WEIGHTS
  localparam TAG_BITS = WRITE_BITS + 33 + 1 + COUNT_BITS * 2 + 1;  // the last: elements of 4 bits
`else
`ifdef BACO_BLOCK_WEIGHTS
  localparam TAG_BITS = WRITE_BITS + 33 + 1 + COUNT_BITS * 2 + 3;  // the last: elements of blocks, or powers
`else
  localparam TAG_BITS = WRITE_BITS + 33 + 1 + COUNT_BITS * 2;
`endif
`endif
  localparam JOB_BITS = 5 + BEAT_LOG * 3 + 16 + COLS_BITS + ROW_BITS * 2 + TAG_BITS;
  wire job_valid;
  wire job_ready;
  wire [JOB_BITS-1:0] job;
  wire [TAG_BITS-1:0] tag = {
`ifdef BACO_PACKED_WEIGHTS
      paired,
`endif
`ifdef BACO_BLOCK_WEIGHTS
      kind,
`endif
      repeats[state], cols[COUNT_BITS-1:0], repeated, scale[state], identity, cmd_rs2[30], to_acc, cmd_id};
  baco_fifo #(.WIDTH(JOB_BITS), .DEPTH(LOAD_QUEUE)) row_jobs (
      .clock(clock), .reset(reset), .in_valid(accepted), .in_ready(rows_ready),
      .in_data({nothing, zero, replicate, wide, merged, cmd_rs1[BEAT_LOG-1:0], step[BEAT_LOG-1:0], gap[BEAT_LOG-1:0],
                rows, cols, cmd_rs2[ROW_BITS-1:0], block_rows, tag}),
      .out_valid(job_valid), .out_ready(job_ready), .out_data(job));

  wire walking;
  wire row_valid, row_ready, row_nothing, row_first, row_last, row_wide;
  wire [ROW_BITS-1:0] row_index;
  wire [DIM-1:0] row_mask;
  wire [TAG_BITS-1:0] row_tag;
  wire [DIM*32-1:0] row_data;
`ifdef BACO_PACKED_WEIGHTS
  wire [DIM*32-1:0] row_bits;                        // as they come: elements of 4 bits in pairs
`endif
`ifdef BACO_BLOCK_WEIGHTS
  localparam BLOCKS = MAX_ROW_BYTES / (2 * DIM);     // of columns, at most, in one command
  localparam BLOCK_BITS = $clog2(BLOCKS);
  wire [DIM*32-1:0] row_bits;                        // as they come: elements of blocks, or powers
  wire [BLOCK_BITS-1:0] row_block;
`endif
  localparam AT_ROW = TAG_BITS + ROW_BITS;           // positions of the fields of a job
  localparam AT_COLS = AT_ROW + ROW_BITS;
  localparam AT_ROWS = AT_COLS + COLS_BITS;
  localparam AT_GAP = AT_ROWS + 16;
  localparam AT_FLAGS = AT_GAP + BEAT_LOG * 3;
  baco_load_rows #(
`ifdef BACO_BLOCK_WEIGHTS
      .BLOCK_BITS(BLOCK_BITS),
`endif
      .DIM(DIM), .DMA_BITS(DMA_BITS), .ROW_BITS(ROW_BITS), .COLS_BITS(COLS_BITS), .TAG_BITS(TAG_BITS)) walk (
      .clock(clock), .reset(reset), .job_valid(job_valid), .job_ready(job_ready),
      .job_nothing(job[AT_FLAGS+4]), .job_zero(job[AT_FLAGS+3]), .job_replicate(job[AT_FLAGS+2]),
      .job_wide(job[AT_FLAGS+1]), .job_merged(job[AT_FLAGS]), .job_offset(job[AT_GAP+BEAT_LOG*2+:BEAT_LOG]),
      .job_stride(job[AT_GAP+BEAT_LOG+:BEAT_LOG]), .job_gap(job[AT_GAP+:BEAT_LOG]), .job_rows(job[AT_ROWS+:16]),
      .job_cols(job[AT_COLS+:COLS_BITS]), .job_row(job[AT_ROW+:ROW_BITS]),
      .job_block_stride(job[TAG_BITS+:ROW_BITS]), .job_tag(job[TAG_BITS-1:0]),
      .beat_valid(rd_resp_valid), .beat_ready(rd_resp_ready), .beat_data(rd_resp_data),
      .row_valid(row_valid), .row_ready(row_ready), .row_nothing(row_nothing), .row_first(row_first),
      .row_last(row_last), .row_wide(row_wide), .row_index(row_index), .row_mask(row_mask), .row_tag(row_tag),
`ifdef BACO_PACKED_WEIGHTS
      .row_data(row_bits), .active(walking));

  // ---- elements of 4 bits become bytes ------------------------------------------------------------------------------------
  wire row_paired = row_tag[TAG_BITS-1];
  assign row_data[DIM*32-1:DIM*`ELEMENT_BITS] = row_bits[DIM*32-1:DIM*`ELEMENT_BITS];
  genvar e;
  generate
    for (e = 0; e < DIM; e = e + 1) begin : element
      assign row_data[e*8+:8] = row_paired ? {{4{row_bits[e*4+3]}}, row_bits[e*4+:4]} : row_bits[e*8+:8];
    end
  endgenerate
`else
`ifdef BACO_BLOCK_WEIGHTS
      .row_block(row_block), .row_data(row_bits), .active(walking));

  // ---- elements of blocks become bfloat16 ---------------------------------------------------------------------------------
  wire [2:0] row_kind = row_tag[TAG_BITS-1-:3];
  (* mem2reg *) reg [DIM*8-1:0] powers[0:BLOCKS-1];  // of each column, by block
  wire [DIM*8-1:0] row_powers = powers[row_block];
  always @(posedge clock) if (row_valid && row_ready && row_kind == 3'd5) powers[row_block] <= row_bits[DIM*8-1:0];
  assign row_data[DIM*32-1:DIM*16] = row_bits[DIM*32-1:DIM*16];
  genvar e;
  generate
    for (e = 0; e < DIM; e = e + 1) begin : element
      wire [15:0] number;
      baco_block_element decoded (
          .format(row_kind), .code(row_kind == 3'd1 ? {4'd0, row_bits[e*4+:4]} : row_bits[e*8+:8]),
          .power(row_powers[e*8+:8]), .number(number));
      assign row_data[e*16+:16] = row_kind == 3'd0 ? row_bits[e*16+:16] : number;
    end
  endgenerate
`else
      .row_data(row_data), .active(walking));
`endif
`endif

  // ---- replication of pixels --------------------------------------------------------------------------------------------
  // Handed on from here: the scale, whether it is 1.0, the width of elements, and how to write.
  localparam PASS_BITS = 1 + 33 + WRITE_BITS;
  wire [PASS_BITS-1:0] row_pass = {row_wide, row_tag[WRITE_BITS+32:0]};
  wire copy_valid, copy_ready, copy_last, copy_nothing;
  wire [ROW_BITS-1:0] copy_row;
  wire [DIM-1:0] copy_mask;
  wire [PASS_BITS-1:0] copy_pass;
  wire [DIM*32-1:0] copy_data;
  wire copying;
`ifdef BACO_FIRST_LAYER
  wire [COUNT_BITS-1:0] row_cols = row_tag[WRITE_BITS+34+:COUNT_BITS];
  wire [COUNT_BITS-1:0] row_repeats = row_tag[WRITE_BITS+34+COUNT_BITS+:COUNT_BITS];
  baco_pixel_repeat #(
      .DIM(DIM), .SP_ROWS(SP_ROWS), .ROW_BITS(ROW_BITS), .COUNT_BITS(COUNT_BITS), .PASS_BITS(PASS_BITS)) pixels (
      .clock(clock), .reset(reset), .in_valid(row_valid), .in_ready(row_ready), .in_first(row_first), .in_last(row_last),
      .in_nothing(row_nothing), .in_repeated(row_tag[WRITE_BITS+33]), .in_repeats(row_repeats), .in_cols(row_cols),
      .in_row(row_index), .in_mask(row_mask), .in_pass(row_pass), .in_data(row_data),
      .out_valid(copy_valid), .out_ready(copy_ready), .out_last(copy_last), .out_nothing(copy_nothing),
      .out_row(copy_row), .out_mask(copy_mask), .out_pass(copy_pass), .out_data(copy_data), .busy(copying));
`else
  assign copy_valid = row_valid;
  assign row_ready = copy_ready;
  assign copy_last = row_last;
  assign copy_nothing = row_nothing;
  assign copy_row = row_index;
  assign copy_mask = row_mask;
  assign copy_pass = row_pass;
  assign copy_data = row_data;
  assign copying = 1'b0;
  wire _unused_copies = &{1'b0, row_first, row_tag[TAG_BITS-1:WRITE_BITS+33]};
`endif

  // ---- scaling ----------------------------------------------------------------------------------------------------------
  localparam LAND_BITS = 2 + WRITE_BITS + ROW_BITS + DIM;
  wire [LAND_BITS-1:0] copy_land = {copy_last, copy_nothing, copy_pass[WRITE_BITS-1:0], copy_row, copy_mask};
  wire land_valid, land_ready, land_wide;
  wire [LAND_BITS-1:0] land;
  wire [DIM*32-1:0] land_data;
  wire scaling;
`ifdef BACO_MVIN_SCALE_ACC
  baco_load_scale #(.DIM(DIM), .LANES(DIM < SCALE_LANES ? DIM : SCALE_LANES), .WIDE(1), .PASS_BITS(LAND_BITS)) scaler (
      .clock(clock), .reset(reset), .in_valid(copy_valid), .in_ready(copy_ready), .in_wide(copy_pass[PASS_BITS-1]),
      .in_identity(copy_pass[WRITE_BITS]), .in_scale(copy_pass[WRITE_BITS+1+:32]), .in_pass(copy_land),
      .in_data(copy_data), .out_valid(land_valid), .out_ready(land_ready), .out_wide(land_wide), .out_pass(land),
      .out_data(land_data), .busy(scaling));
`else
`ifdef BACO_MVIN_SCALE
  baco_load_scale #(.DIM(DIM), .LANES(DIM < SCALE_LANES ? DIM : SCALE_LANES), .WIDE(0), .PASS_BITS(LAND_BITS)) scaler (
      .clock(clock), .reset(reset), .in_valid(copy_valid), .in_ready(copy_ready), .in_wide(copy_pass[PASS_BITS-1]),
      .in_identity(copy_pass[WRITE_BITS]), .in_scale(copy_pass[WRITE_BITS+1+:32]), .in_pass(copy_land),
      .in_data(copy_data), .out_valid(land_valid), .out_ready(land_ready), .out_wide(land_wide), .out_pass(land),
      .out_data(land_data), .busy(scaling));
`else
  assign land_valid = copy_valid;
  assign copy_ready = land_ready;
  assign land_wide = copy_pass[PASS_BITS-1];
  assign land = copy_land;
  assign land_data = copy_data;
  assign scaling = 1'b0;
  wire _unused_scale = &{1'b0, copy_pass[WRITE_BITS+:33], SCALE_LANES[0]};
`endif
`endif

  // ---- local memories -----------------------------------------------------------------------------------------------------
  reg write_valid;
  reg [LAND_BITS-1:0] write;
  reg [DIM*32-1:0] write_data;  // scratchpad rows use the low DIM bytes
  wire write_last = write[LAND_BITS-1];
  wire write_nothing = write[LAND_BITS-2];
  wire write_acc = write[DIM+ROW_BITS+ID_BITS];
  wire write_taken = write_nothing || (write_acc ? acc_write_ready : sp_write_ready);
  assign land_ready = !write_valid || write_taken;

  wire [DIM*32-1:0] as_sums;
  genvar lane;
  generate
    for (lane = 0; lane < DIM; lane = lane + 1) begin : sum
`ifdef BACO_FP8
      `WIDEN as_sum (.code(land_data[lane*`ELEMENT_BITS +: `ELEMENT_BITS]), .number(as_sums[lane*32 +: 32]));
`else
      assign as_sums[lane*32 +: 32] = {{`ELEMENT_REST{land_data[lane*`ELEMENT_BITS+`ELEMENT_TOP]}}, land_data[lane*`ELEMENT_BITS +: `ELEMENT_BITS]};
`endif
    end
  endgenerate
  always @(posedge clock) begin
    if (reset) write_valid <= 1'b0;
    else if (land_ready) write_valid <= land_valid;
    if (land_ready && land_valid) begin
      write <= land;
      if (land_wide) write_data <= land_data;
      else if (land[DIM+ROW_BITS+ID_BITS]) write_data <= as_sums;
      else write_data[DIM*`ELEMENT_BITS-1:0] <= land_data[DIM*`ELEMENT_BITS-1:0];
    end
  end

  assign sp_write_valid = write_valid && !write_nothing && !write_acc;
  assign sp_write_row = write[DIM+:SP_AW];
  assign sp_write_mask = write[DIM-1:0];
  assign sp_write_data = write_data[DIM*`ELEMENT_BITS-1:0];
  assign acc_write_valid = write_valid && !write_nothing && write_acc;
  assign acc_write_row = write[DIM+:ACC_AW];
  assign acc_write_accumulate = write[DIM+ROW_BITS+ID_BITS+1];
  assign acc_write_mask = write[DIM-1:0];
  assign acc_write_data = write_data;
  assign done_valid = write_valid && write_last && write_taken;
  assign done_id = write[DIM+ROW_BITS+:ID_BITS];

  assign busy = job_valid || walking || copying || scaling || write_valid;
  // [0] is what programs take for a load's work. One request brings several rows here: sending them is over long before.
  assign events = {
      2'b00, bytes_requested != 8'd0, rd_req_valid && !rd_req_ready, sending || requests_in_flight != 9'd0, refused,
      first_request_waits, busy};
endmodule
