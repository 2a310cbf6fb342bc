// The accelerator: a RoCC command port, a memory read and a memory write port, and what lies between.
//
//   commands -> [LOOP_CONV_WS unroller] -> [LOOP_WS unroller] -> reservation station -> load, execute, store units
//
// The units run side by side on the scratchpad and the accumulator. Nothing here stalls on memory order: the read port
// answers in request order, the write port acknowledges in order.
module baco_accelerator #(
    parameter DIM = `BACO_DIM,                       // rows and columns of the array
    parameter TILE_ROWS = `BACO_TILE_ROWS,           // array elements between pipeline registers
    parameter PSUM_BITS = `BACO_PSUM_BITS,           // width of partial sums
    parameter SP_ROWS = `BACO_SP_ROWS,               // scratchpad rows of DIM bytes
    parameter SP_BANKS = `BACO_SP_BANKS,
    parameter ACC_ROWS = `BACO_ACC_ROWS,             // accumulator rows of DIM 32-bit words
    parameter ACC_BANKS = `BACO_ACC_BANKS,
    parameter DMA_BITS = `BACO_DMA_BITS,             // width of the memory ports (a beat)
    parameter DMA_MAX_BYTES = `BACO_DMA_MAX_BYTES,   // largest read request
    parameter DMA_REQUESTS = `BACO_DMA_REQUESTS,     // requests in flight
    parameter LOAD_QUEUE = `BACO_LOAD_QUEUE,         // commands queued in the units
    parameter EX_QUEUE = `BACO_EX_QUEUE,
    parameter STORE_QUEUE = `BACO_STORE_QUEUE,
    parameter SCALE_LANES = `BACO_SCALE_LANES,       // elements scaled in a cycle at most
    parameter LOAD_ENTRIES = `BACO_LOAD_ENTRIES,     // reservation station entries
    parameter EX_ENTRIES = `BACO_EX_ENTRIES,
    parameter STORE_ENTRIES = `BACO_STORE_ENTRIES,
    parameter COUNTERS = `BACO_COUNTERS,             // performance counters
    parameter ADDR_BITS = 40,                        // memory address
    parameter ID_BITS = 6
) (
    input wire clock,
    input wire reset,                                // synchronous, active high
    // RoCC commands and responses (only COUNTER_OP, cmd_xd, responds)
    input wire cmd_valid,
    output wire cmd_ready,
    input wire [6:0] cmd_funct,
    input wire [4:0] cmd_rd,
    input wire cmd_xd,
    input wire [63:0] cmd_rs1,
    input wire [63:0] cmd_rs2,
    output wire resp_valid,
    input wire resp_ready,
    output reg [4:0] resp_rd,
    output wire [63:0] resp_data,
    output wire busy,                                // what a fence waits for
    // the first illegal command in program order, until reset: a macro when it is one, without the bits that mean nothing;
    // its code is one of BACO_ERROR_*. What memory holds after an error is not defined.
    output reg error_valid,
    output reg [3:0] error_code,
    output reg [6:0] error_funct,
    output reg [63:0] error_rs1,
    output reg [63:0] error_rs2,
    // memory reads: naturally aligned chunks of 2**size bytes; beats come back in request order
    output wire rd_req_valid,
    input wire rd_req_ready,
    output wire [ADDR_BITS-1:0] rd_req_addr,
    output wire [2:0] rd_req_size,
    input wire rd_resp_valid,
    output wire rd_resp_ready,
    input wire [DMA_BITS-1:0] rd_resp_data,
    // memory writes: aligned beats with byte masks, one acknowledgement each
    output wire wr_req_valid,
    input wire wr_req_ready,
    output wire [ADDR_BITS-1:0] wr_req_addr,
    output wire [DMA_BITS-1:0] wr_req_data,
    output wire [DMA_BITS/8-1:0] wr_req_mask,
    input wire wr_ack_valid,
    // events, for logs and activity: what the reservation station takes in, issues and is done with
    output wire event_alloc,
    output wire [1:0] event_alloc_class,             // 0 load, 1 execute, 2 store
    output wire [ID_BITS-1:0] event_alloc_id,
    output wire [6:0] event_alloc_funct,
    output wire [63:0] event_alloc_rs1,
    output wire [63:0] event_alloc_rs2,
    output wire [2:0] event_alloc_loop,              // bit 2: it comes out of the loop with the number in bits 1 and 0
    output wire event_ld_issue,
    output wire [ID_BITS-1:0] event_ld_issue_id,
    output wire event_ld_done,
    output wire [ID_BITS-1:0] event_ld_done_id,
    output wire event_ex_issue,
    output wire [ID_BITS-1:0] event_ex_issue_id,
    output wire [2:0] event_ex_done,                 // COMPUTE or config; PRELOAD with a result; PRELOAD without
    output wire [ID_BITS-1:0] event_ex_done_id0,
    output wire [ID_BITS-1:0] event_ex_done_id1,
    output wire [ID_BITS-1:0] event_ex_done_id2,
    output wire event_st_issue,
    output wire [ID_BITS-1:0] event_st_issue_id,
    output wire event_st_done,
    output wire [ID_BITS-1:0] event_st_done_id,
    output wire [3:0] event_loops,                   // loops under way: 0 and 1 slots of LOOP_WS, 2 and 3 of LOOP_CONV_WS
    output wire [7:0] event_units                    // 0 load 1 execute 2 store busy 3 multiplying 4 read beat 5 write beat
                                                     // 6 LOOP_WS 7 LOOP_CONV_WS busy
);
  localparam SP_AW = $clog2(SP_ROWS);
  localparam ACC_AW = $clog2(ACC_ROWS);
  localparam AW = SP_AW > ACC_AW ? SP_AW : ACC_AW;

  // ---------------------------------------------------------------- commands
  localparam COMMAND = 7 + 5 + 1 + 128;
  wire raw_valid, raw_ready;
  wire [COMMAND-1:0] raw;
  baco_fifo #(.WIDTH(COMMAND), .DEPTH(2)) commands (
      .clock(clock), .reset(reset), .in_valid(cmd_valid), .in_ready(cmd_ready),
      .in_data({cmd_funct, cmd_rd, cmd_xd, cmd_rs1, cmd_rs2}),
      .out_valid(raw_valid), .out_ready(raw_ready), .out_data(raw));

  // Commands come through buffers with registers on both sides; what goes with a command: its error, its loop, whether that
  // may turn out to be illegal.
  localparam PASSED = COMMAND + 4 + 3 + 1;
  // Entries of the reservation station that are free for what the unrollers send: they count what is under way to it.
  wire [2:0] conv_space, ws_space;
  wire [1:0] conv_loops, ws_loops;
  assign event_loops = {conv_loops, ws_loops};

  wire [6:0] station_funct;
  wire [63:0] station_rs1, station_rs2;
  wire [2:0] ws_own;                                 // a command of a LOOP_WS leaves: 0 a load, 1 execution, 2 a store
  wire reject;                                       // the station rejects a command
  reg dropped;                                       // ... rejected it in the cycle before: its entry is promised again
  reg [6:0] dropped_funct;
  reg [1:0] dropped_kind;
  always @(posedge clock) begin
    dropped <= reject && !reset;
    dropped_funct <= station_funct;
    dropped_kind <= station_rs1[1:0];
  end
  wire ld_done, st_done, ex_done, ex_written, ex_dropped;
  wire [4:0] freed = {st_done, ex_dropped, ex_written, ex_done, ld_done};

  wire conv_busy, middle_valid, middle_ready, loop_busy;
  wire [PASSED-1:0] middle;
`ifdef BACO_LOOP_CONV
  wire conv_valid, conv_ready, conv_xd, conv_trial;
  wire [6:0] conv_funct;
  wire [4:0] conv_rd;
  wire [63:0] conv_rs1, conv_rs2;
  wire [3:0] conv_error;
  wire [2:0] conv_loop, conv_class;
  wire conv_preloaded, conv_ex_set, conv_ex_ws, conv_st_set, conv_st_plain;
  wire [1:0] conv_ex_transposes;
  wire [15:0] conv_ex_stride_a, conv_ex_stride_c;
`ifdef BACO_ROW_FUNCTIONS
  wire conv_st_by_row;
`endif
  wire [10:0] _unused_conv_configuration;
  baco_configuration #(.DIM(DIM)) conv_configuration (
      .clock(clock), .reset(reset), .passes(conv_valid && conv_ready), .funct(conv_funct), .rs1(conv_rs1), .rs2(conv_rs2),
      .preloaded(conv_preloaded), .ld_set(_unused_conv_configuration[2:0]), .ld_plain(_unused_conv_configuration[5:3]),
      .ld_shrink(_unused_conv_configuration[8:6]), .ex_set(conv_ex_set), .ex_ws(conv_ex_ws),
      .ex_transposes(conv_ex_transposes), .ex_stride_a(conv_ex_stride_a), .ex_stride_c(conv_ex_stride_c),
      .st_set(conv_st_set), .gathered(_unused_conv_configuration[9]),
`ifdef BACO_ROW_FUNCTIONS
      .st_by_row(conv_st_by_row),
`endif
      .st_plain(conv_st_plain), .new_os(_unused_conv_configuration[10]));
  baco_loop_conv #(.DIM(DIM), .SP_ROWS(SP_ROWS), .ACC_ROWS(ACC_ROWS), .DMA_MAX_BYTES(DMA_MAX_BYTES)) loop_conv (
      .clock(clock), .reset(reset), .in_valid(raw_valid), .in_ready(raw_ready), .in_funct(raw[COMMAND-1 -: 7]),
      .in_rs1(raw[127:64]), .in_rs2(raw[63:0]), .in_rd(raw[129 +: 5]), .in_xd(raw[128]),
      .out_valid(conv_valid), .out_ready(conv_ready), .out_funct(conv_funct), .out_rs1(conv_rs1), .out_rs2(conv_rs2),
      .out_rd(conv_rd), .out_xd(conv_xd), .out_error(conv_error), .out_loop(conv_loop), .out_trial(conv_trial), .out_class(conv_class),
      .ld_space(conv_space[0]), .ex_space(conv_space[1]), .st_space(conv_space[2]),
      .preloaded(conv_preloaded && conv_loops == 2'd0), .ex_set(conv_ex_set), .ex_ws(conv_ex_ws),
      .ex_transposes(conv_ex_transposes), .ex_stride_a(conv_ex_stride_a), .ex_stride_c(conv_ex_stride_c),
`ifdef BACO_ROW_FUNCTIONS
      .st_by_row(conv_st_by_row),
`endif
      .st_set(conv_st_set), .st_plain(conv_st_plain), .loops(conv_loops), .busy(conv_busy));
  baco_fifo #(.WIDTH(PASSED), .DEPTH(2)) behind_conv (
      .clock(clock), .reset(reset), .in_valid(conv_valid), .in_ready(conv_ready),
      .in_data({conv_trial, conv_loop, conv_error, conv_funct, conv_rd, conv_xd, conv_rs1, conv_rs2}),
      .out_valid(middle_valid), .out_ready(middle_ready), .out_data(middle));
  baco_credits #(.LOADS(LOAD_ENTRIES), .EXECUTES(EX_ENTRIES), .STORES(STORE_ENTRIES)) conv_credits (
      .clock(clock), .reset(reset), .passes(raw_valid && raw_ready && !conv_busy), .passes_funct(raw[COMMAND-1 -: 7]),
      .passes_kind(raw[65:64]), .own(conv_ready ? conv_class : 3'd0), .behind(ws_own), .done(freed), .dropped(dropped), .dropped_funct(dropped_funct),
      .dropped_kind(dropped_kind), .space(conv_space));
  wire _unused_conv = &{1'b0, _unused_conv_configuration};
`else
  assign middle_valid = raw_valid;
  assign raw_ready = middle_ready;
  assign middle = {1'b0, 3'd0, `BACO_ERROR_NONE, raw};
  assign conv_busy = 1'b0;
  assign conv_loops = 2'd0;
  assign conv_space = 3'd0;
  wire _unused_conv = &{1'b0, conv_space, ws_own};
`endif

  wire door_valid, door_ready;
  wire [PASSED-1:0] door;
`ifdef BACO_LOOP_WS
  wire ws_valid, ws_ready, ws_xd;
  wire [3:0] ws_error;
  wire [2:0] ws_loop, ws_class;
  wire [4:0] ws_rd;
  wire [6:0] ws_funct;
  wire [63:0] ws_rs1, ws_rs2;
  wire ws_preloaded, ws_ex_set, ws_ex_ws, ws_st_set, ws_st_plain;
  wire [2:0] ws_ld_set, ws_ld_plain, ws_ld_shrink;
  wire [15:0] ws_ex_stride_a, ws_ex_stride_c;
  wire [3:0] _unused_ws_configuration;
`ifdef BACO_ROW_FUNCTIONS
  wire _unused_ws_by_row;
`endif
  baco_configuration #(.DIM(DIM)) ws_configuration (
      .clock(clock), .reset(reset), .passes(ws_valid && ws_ready), .funct(ws_funct), .rs1(ws_rs1), .rs2(ws_rs2),
      .preloaded(ws_preloaded), .ld_set(ws_ld_set), .ld_plain(ws_ld_plain), .ld_shrink(ws_ld_shrink), .ex_set(ws_ex_set),
      .ex_ws(ws_ex_ws), .ex_transposes(_unused_ws_configuration[1:0]), .ex_stride_a(ws_ex_stride_a),
      .ex_stride_c(ws_ex_stride_c), .st_set(ws_st_set), .gathered(_unused_ws_configuration[2]),
`ifdef BACO_ROW_FUNCTIONS
      .st_by_row(_unused_ws_by_row),
`endif
      .st_plain(ws_st_plain), .new_os(_unused_ws_configuration[3]));
  baco_loop_ws #(.DIM(DIM), .SP_ROWS(SP_ROWS), .ACC_ROWS(ACC_ROWS), .DMA_MAX_BYTES(DMA_MAX_BYTES)) loop_ws (
      .clock(clock), .reset(reset), .in_valid(middle_valid), .in_ready(middle_ready), .in_funct(middle[COMMAND-1 -: 7]),
      .in_rs1(middle[127:64]), .in_rs2(middle[63:0]), .in_rd(middle[129 +: 5]), .in_xd(middle[128]),
      .in_error(middle[COMMAND +: 4]), .in_loop(middle[COMMAND+4 +: 3]),
      .out_valid(ws_valid), .out_ready(ws_ready), .out_funct(ws_funct), .out_rs1(ws_rs1), .out_rs2(ws_rs2),
      .out_rd(ws_rd), .out_xd(ws_xd), .out_error(ws_error), .out_loop(ws_loop), .out_class(ws_class),
      .ld_space(ws_space[0]), .ex_space(ws_space[1]), .st_space(ws_space[2]),
      .preloaded(ws_preloaded && ws_loops == 2'd0), .ld_set(ws_ld_set), .ld_plain(ws_ld_plain), .ld_shrink(ws_ld_shrink),
      .ex_set(ws_ex_set), .ex_ws(ws_ex_ws), .ex_stride_a(ws_ex_stride_a), .ex_stride_c(ws_ex_stride_c), .st_set(ws_st_set),
      .st_plain(ws_st_plain), .loops(ws_loops), .busy(loop_busy));
  assign ws_own = ws_valid && ws_ready && loop_busy ? ws_class : 3'd0;
  baco_fifo #(.WIDTH(PASSED), .DEPTH(2)) behind_ws (
      .clock(clock), .reset(reset), .in_valid(ws_valid), .in_ready(ws_ready),
      .in_data({!loop_busy && middle[PASSED-1], ws_loop, ws_error, ws_funct, ws_rd, ws_xd, ws_rs1, ws_rs2}),
      .out_valid(door_valid), .out_ready(door_ready), .out_data(door));
  baco_credits #(.LOADS(LOAD_ENTRIES), .EXECUTES(EX_ENTRIES), .STORES(STORE_ENTRIES)) ws_credits (
      .clock(clock), .reset(reset), .passes(middle_valid && middle_ready && !loop_busy),
      .passes_funct(middle[COMMAND-1 -: 7]), .passes_kind(middle[65:64]), .own(ws_own), .behind(3'd0), .done(freed), .dropped(dropped), .dropped_funct(dropped_funct),
      .dropped_kind(dropped_kind), .space(ws_space));
  wire _unused_ws = &{1'b0, _unused_ws_configuration};
`else
  assign door_valid = middle_valid;
  assign middle_ready = door_ready;
  assign door = middle;
  assign loop_busy = 1'b0;
  assign ws_loops = 2'd0;
  assign ws_own = 3'd0;
  assign ws_space = 3'd0;
  wire _unused_ws = &{1'b0, ws_space, ws_own, dropped, dropped_funct, dropped_kind};
`endif
  wire [6:0] door_funct = door[COMMAND-1 -: 7];
  wire [4:0] door_rd = door[129 +: 5];
  wire door_xd = door[128];

  // FLUSH (there is no translation), CLKGATE_EN (clocks are not gated) and COUNTER_OP end here, in program order. The
  // others are illegal when they ask for a result.
  wire is_counter = door_funct == 7'd126;
  wire is_front = is_counter || ((door_funct == 7'd7 || door_funct == 7'd22) && !door_xd);
  reg responding;
  wire station_ready;
  wire counter_runs = door_valid && is_counter && !responding;
  assign door_ready = is_front ? !(is_counter && responding) : station_ready;
  assign resp_valid = responding;

  wire [3:0] reject_code, station_tag;
  always @(posedge clock) begin
    if (counter_runs && door_xd) begin
      responding <= 1'b1;
      resp_rd <= door_rd;
    end else if (resp_ready) responding <= 1'b0;
    // What comes out of a convolution that is not found legal yet does not count: the macro itself will be rejected.
    if (reject && !error_valid && !(station_tag[3] && station_tag[1])) begin
      error_valid <= 1'b1;
      error_code <= reject_code;
      error_funct <= station_funct;
      error_rs1 <= station_rs1;
      error_rs2 <= station_rs2;
    end
    if (reset) begin
      responding <= 1'b0;
      error_valid <= 1'b0;
    end
  end

  // ---------------------------------------------------------------- reservation station
  wire [2:0] issue_valid, issue_ready;
  wire [3*ID_BITS-1:0] issue_id;
  wire [20:0] issue_funct;
  wire [191:0] issue_rs1, issue_rs2;
  wire [ID_BITS-1:0] ld_done_id, st_done_id, ex_done_id, ex_written_id, ex_dropped_id;
  wire station_busy;
  wire [20:0] occupancy;
  wire alloc;
  baco_reservation #(.DIM(DIM), .SP_ROWS(SP_ROWS), .ACC_ROWS(ACC_ROWS), .AW(AW), .DMA_MAX_BYTES(DMA_MAX_BYTES),
                     .LOAD_ENTRIES(LOAD_ENTRIES), .EX_ENTRIES(EX_ENTRIES), .STORE_ENTRIES(STORE_ENTRIES),
                     .ID_BITS(ID_BITS)) station (
      .clock(clock), .reset(reset), .cmd_valid(door_valid && !is_front), .cmd_ready(station_ready),
      .cmd_funct(door_funct), .cmd_xd(door_xd), .cmd_rs1(door[127:64]), .cmd_rs2(door[63:0]),
      .cmd_error(door[COMMAND +: 4]), .cmd_tag(door[PASSED-1 -: 4]),
      .issue_valid(issue_valid), .issue_ready(issue_ready), .issue_id(issue_id), .issue_funct(issue_funct),
      .issue_rs1(issue_rs1), .issue_rs2(issue_rs2),
      .done_valid(freed),
      .done_id({st_done_id, ex_dropped_id, ex_written_id, ex_done_id, ld_done_id}),
      .alloc(alloc), .alloc_class(event_alloc_class), .alloc_id(event_alloc_id),
      .reject(reject), .reject_code(reject_code), .door_funct(station_funct), .door_rs1(station_rs1),
      .door_rs2(station_rs2), .door_tag(station_tag), .busy(station_busy), .occupancy(occupancy));

  // ---------------------------------------------------------------- units
  wire [3:0] sp_read_valid, sp_read_ready;
  wire [4*SP_AW-1:0] sp_read_row;
  wire [4*DIM*`ELEMENT_BITS-1:0] sp_read_data;
  wire [2:0] sp_write_valid, sp_write_ready;
  wire [3*SP_AW-1:0] sp_write_row;
  wire [3*DIM-1:0] sp_write_mask;
  wire [3*DIM*`ELEMENT_BITS-1:0] sp_write_data;
  wire load_acc_valid, load_acc_ready, load_acc_accumulate;
  wire [ACC_AW-1:0] load_acc_row;
  wire [DIM-1:0] load_acc_mask;
  wire [DIM*32-1:0] load_acc_data;
  wire load_busy, store_busy, execute_busy, multiplying;
  wire [7:0] load_events, store_events, bytes_read, bytes_written;
  wire [8:0] reads_in_flight, writes_in_flight;
  wire [15:0] execute_events;

  baco_load #(.DIM(DIM), .SP_ROWS(SP_ROWS), .ACC_ROWS(ACC_ROWS), .DMA_BITS(DMA_BITS), .DMA_MAX_BYTES(DMA_MAX_BYTES),
              .DMA_REQUESTS(DMA_REQUESTS), .LOAD_QUEUE(LOAD_QUEUE), .SCALE_LANES(SCALE_LANES), .ADDR_BITS(ADDR_BITS), .ID_BITS(ID_BITS)) load (
      .clock(clock), .reset(reset), .cmd_valid(issue_valid[0]), .cmd_ready(issue_ready[0]),
      .cmd_id(issue_id[ID_BITS-1:0]), .cmd_funct(issue_funct[6:0]), .cmd_rs1(issue_rs1[63:0]), .cmd_rs2(issue_rs2[63:0]),
      .done_valid(ld_done), .done_id(ld_done_id),
      .rd_req_valid(rd_req_valid), .rd_req_ready(rd_req_ready), .rd_req_addr(rd_req_addr), .rd_req_size(rd_req_size),
      .rd_resp_valid(rd_resp_valid), .rd_resp_ready(rd_resp_ready), .rd_resp_data(rd_resp_data),
      .sp_write_valid(sp_write_valid[1]), .sp_write_ready(sp_write_ready[1]), .sp_write_row(sp_write_row[SP_AW +: SP_AW]),
      .sp_write_mask(sp_write_mask[DIM +: DIM]), .sp_write_data(sp_write_data[DIM*`ELEMENT_BITS +: DIM*`ELEMENT_BITS]),
      .acc_write_valid(load_acc_valid), .acc_write_ready(load_acc_ready), .acc_write_row(load_acc_row),
      .acc_write_accumulate(load_acc_accumulate), .acc_write_mask(load_acc_mask), .acc_write_data(load_acc_data),
      .busy(load_busy), .events(load_events), .bytes_requested(bytes_read), .requests_in_flight(reads_in_flight));

  wire result_acc_valid, result_acc_accumulate;
  wire [ACC_AW-1:0] result_acc_row;
  wire [DIM*32-1:0] result_acc_data;
  wire [DIM-1:0] result_mask;
  assign sp_write_mask[DIM-1:0] = result_mask;
  baco_execute #(.DIM(DIM), .TILE_ROWS(TILE_ROWS), .PSUM_BITS(PSUM_BITS), .SP_AW(SP_AW), .ACC_AW(ACC_AW), .AW(AW),
                 .EX_QUEUE(EX_QUEUE), .ID_BITS(ID_BITS)) execute (
      .clock(clock), .reset(reset), .cmd_valid(issue_valid[1]), .cmd_ready(issue_ready[1]),
      .cmd_id(issue_id[ID_BITS +: ID_BITS]), .cmd_funct(issue_funct[7 +: 7]), .cmd_rs1(issue_rs1[64 +: 64]),
      .cmd_rs2(issue_rs2[64 +: 64]),
      .done_valid(ex_done), .done_id(ex_done_id), .written_valid(ex_written), .written_id(ex_written_id),
      .dropped_valid(ex_dropped), .dropped_id(ex_dropped_id),
      .read_valid(sp_read_valid[2:0]), .read_ready(sp_read_ready[2:0]), .read_row(sp_read_row[3*SP_AW-1:0]),
      .read_data(sp_read_data[3*DIM*`ELEMENT_BITS-1:0]),
      .sp_write_valid(sp_write_valid[0]), .sp_write_row(sp_write_row[SP_AW-1:0]), .sp_write_data(sp_write_data[DIM*`ELEMENT_BITS-1:0]),
      .acc_write_valid(result_acc_valid), .acc_write_row(result_acc_row), .acc_write_accumulate(result_acc_accumulate),
      .acc_write_data(result_acc_data), .write_mask(result_mask),
      .busy(execute_busy), .multiplying(multiplying), .events(execute_events));

  wire store_acc_valid, store_acc_ready;
  wire [ACC_AW-1:0] store_acc_row;
  wire [DIM*32-1:0] store_acc_data;
  baco_store #(.DIM(DIM), .SP_ROWS(SP_ROWS), .ACC_ROWS(ACC_ROWS), .DMA_BITS(DMA_BITS), .DMA_MAX_BYTES(DMA_MAX_BYTES),
               .DMA_REQUESTS(DMA_REQUESTS), .STORE_QUEUE(STORE_QUEUE), .SCALE_LANES(SCALE_LANES), .ADDR_BITS(ADDR_BITS), .ID_BITS(ID_BITS)) store (
      .clock(clock), .reset(reset), .cmd_valid(issue_valid[2]), .cmd_ready(issue_ready[2]),
      .cmd_id(issue_id[2*ID_BITS +: ID_BITS]), .cmd_funct(issue_funct[14 +: 7]), .cmd_rs1(issue_rs1[128 +: 64]),
      .cmd_rs2(issue_rs2[128 +: 64]),
      .done_valid(st_done), .done_id(st_done_id),
      .sp_read_valid(sp_read_valid[3]), .sp_read_ready(sp_read_ready[3]), .sp_read_row(sp_read_row[3*SP_AW +: SP_AW]),
      .sp_read_data(sp_read_data[3*DIM*`ELEMENT_BITS +: DIM*`ELEMENT_BITS]),
      .acc_read_valid(store_acc_valid), .acc_read_ready(store_acc_ready), .acc_read_row(store_acc_row),
      .acc_read_data(store_acc_data),
      .sp_write_valid(sp_write_valid[2]), .sp_write_ready(sp_write_ready[2]), .sp_write_row(sp_write_row[2*SP_AW +: SP_AW]),
      .sp_write_mask(sp_write_mask[2*DIM +: DIM]), .sp_write_data(sp_write_data[2*DIM*`ELEMENT_BITS +: DIM*`ELEMENT_BITS]),
      .wr_req_valid(wr_req_valid), .wr_req_ready(wr_req_ready), .wr_req_addr(wr_req_addr), .wr_req_data(wr_req_data),
      .wr_req_mask(wr_req_mask), .wr_ack_valid(wr_ack_valid),
      .busy(store_busy), .events(store_events), .bytes_sent(bytes_written), .requests_in_flight(writes_in_flight));

  // ---------------------------------------------------------------- local memories
  baco_scratchpad #(.DIM(DIM), .SP_ROWS(SP_ROWS), .SP_BANKS(SP_BANKS), .SP_AW(SP_AW)) scratchpad (
      .clock(clock), .read_valid(sp_read_valid), .read_ready(sp_read_ready), .read_row(sp_read_row),
      .read_data(sp_read_data), .write_valid(sp_write_valid), .write_ready(sp_write_ready),
      .write_row(sp_write_row), .write_mask(sp_write_mask), .write_data(sp_write_data));
  baco_accumulator #(.DIM(DIM), .ACC_ROWS(ACC_ROWS), .ACC_BANKS(ACC_BANKS), .ACC_AW(ACC_AW)) accumulator (
      .clock(clock), .reset(reset),
      .result_valid(result_acc_valid), .result_row(result_acc_row), .result_accumulate(result_acc_accumulate),
      .result_mask(result_mask), .result_data(result_acc_data),
      .load_valid(load_acc_valid), .load_ready(load_acc_ready), .load_row(load_acc_row),
      .load_accumulate(load_acc_accumulate), .load_mask(load_acc_mask), .load_data(load_acc_data),
      .read_valid(store_acc_valid), .read_ready(store_acc_ready), .read_row(store_acc_row), .read_data(store_acc_data));

  // ---------------------------------------------------------------- counters
`ifdef BACO_COUNTERS
  // event codes of Gemmini; 15 to 17, 19 and 22 concern a TLB, 32 to 34 operands in the accumulator, 38 to 40 an
  // im2col unit, 44 an unroller: none of them exists here
  wire [63:0] happens = {
      19'd0, 1'b0, loop_busy, occupancy != 21'd0, door_valid && !door_ready,
      3'd0, execute_events[10:8], 3'd0, execute_events[7:5], execute_events[4:0],
      store_events[5], 1'b0, store_events[4], load_events[4], 1'b0, load_events[3], 3'd0,
      store_events[3], store_events[2], store_events[0], store_events[1],
      load_events[2], load_events[0], load_events[1],
      load_busy && store_busy && execute_busy, !load_busy && store_busy && execute_busy,
      load_busy && !store_busy && execute_busy, load_busy && store_busy && !execute_busy,
      !load_busy && !store_busy && execute_busy, !load_busy && store_busy && !execute_busy,
      load_busy && !store_busy && !execute_busy, 1'b0};
  reg [63:0] counted;                                // a cycle later: some are known late
  always @(posedge clock) counted <= reset ? 64'd0 : happens;
  baco_counters #(.COUNTERS(COUNTERS)) counters (
      .clock(clock), .reset(reset), .op_valid(counter_runs), .op_rs1(door[127:64]), .value(resp_data), .events(counted),
      .occupancy_ld(occupancy[6:0]), .occupancy_ex(occupancy[13:7]), .occupancy_st(occupancy[20:14]),
      .bytes_read(bytes_read), .bytes_written(bytes_written),
      .reads_in_flight(reads_in_flight), .writes_in_flight(writes_in_flight));
`else
  assign resp_data = 64'd0;
  wire _unused_counters = &{1'b0, COUNTERS == 0, counter_runs};
`endif

  // ---------------------------------------------------------------- outside
  assign busy = raw_valid || conv_busy || middle_valid || door_valid || loop_busy || station_busy || load_busy || execute_busy || store_busy;

  assign event_alloc = alloc;
  assign event_alloc_funct = station_funct;
  assign event_alloc_rs1 = station_rs1;
  assign event_alloc_rs2 = station_rs2;
  assign event_alloc_loop = station_tag[2:0];
  assign event_ld_issue = issue_valid[0] && issue_ready[0];
  assign event_ld_issue_id = issue_id[ID_BITS-1:0];
  assign event_ld_done = ld_done;
  assign event_ld_done_id = ld_done_id;
  assign event_ex_issue = issue_valid[1] && issue_ready[1];
  assign event_ex_issue_id = issue_id[ID_BITS +: ID_BITS];
  assign event_ex_done = {ex_dropped, ex_written, ex_done};
  assign event_ex_done_id0 = ex_done_id;
  assign event_ex_done_id1 = ex_written_id;
  assign event_ex_done_id2 = ex_dropped_id;
  assign event_st_issue = issue_valid[2] && issue_ready[2];
  assign event_st_issue_id = issue_id[2*ID_BITS +: ID_BITS];
  assign event_st_done = st_done;
  assign event_st_done_id = st_done_id;
  assign event_units = {conv_busy, loop_busy, store_events[6], rd_resp_valid && rd_resp_ready, multiplying,
                        store_busy, execute_busy, load_busy};

  wire _unused = &{1'b0, load_events, store_events, execute_events, bytes_read, bytes_written, reads_in_flight,
                   writes_in_flight, occupancy, sp_write_ready[0]};
endmodule
