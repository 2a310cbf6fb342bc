// LOOP_WS: turns one tiled matrix product C = A*B + D (or, is_resadd, C = A + B) into loads, products and stores.
//
// Two loops can be held, one in each slot. Five phases - load A, load B, load D, execute, store - walk over their
// matrices side by side; each works on one slot at a time and goes on to the other slot as soon as it is through,
// so the loads of a tile overlap the products and stores of the one before. A slot is free again when all its
// commands have gone out.
//
// Local memory is tracked by the reservation station, in the order in which commands leave here. So commands that
// touch the same rows leave in the order in which they would if loops ran one after the other:
//  * inside a loop a product waits for the loads it reads, a store for the products (or loads) it reads;
//  * between loops, D and C follow their accumulator halves; loads of A and B wait if they would hit rows that
//    the older loop still multiplies (with separate halves they never do; spad ids and SPAD_AB can make them), and
//    for all of its results if these go to the scratchpad;
//    products wait until the older loop has sent all its loads and products.
// Loads of the same loop go out in the order in which products need them, so products begin after the first blocks
// of B, D and A and neither matrix gets ahead at the other's cost.
//
// Where this departs from Gemmini, all of it invisible to correct programs: execute takes the columns of C in
// groups (baco_loop_ws_execute); the last rows of B are trimmed; is_resadd belongs to a loop, no fence is needed
// to switch. Unlike the original's, a loop whose phases are all skipped ends.
//
// What is illegal (baco_loop_ws_check) leaves raw at `out_*`, with its error when it has one that is known here, to be
// rejected behind; a slot that it names stays free. So nothing that comes out of a loop is illegal.
//
// `out_valid` depends on the `*_space` inputs, and what is offered may change until it is taken: a store goes
// before a product, a product before a load.
module baco_loop_ws #(
    parameter DIM = 16,
    parameter SP_ROWS = 16384,
    parameter ACC_ROWS = 1024,
    parameter DMA_MAX_BYTES = 64
) (
    input wire clock,
    input wire reset,
    input wire in_valid,           // commands from the core (or from LOOP_CONV_WS)
    output wire in_ready,
    input wire [6:0] in_funct,
    input wire [63:0] in_rs1,
    input wire [63:0] in_rs2,
    input wire [4:0] in_rd,
    input wire in_xd,
    input wire [3:0] in_error,     // ... with the error that LOOP_CONV_WS found, and the loop they come out of
    input wire [2:0] in_loop,
    output wire out_valid,         // commands without LOOP_WS
    input wire out_ready,
    output wire [6:0] out_funct,
    output wire [63:0] out_rs1,
    output wire [63:0] out_rs2,
    output wire [4:0] out_rd,
    output wire out_xd,
    output wire [3:0] out_error,   // what the command is to be rejected for
    output wire [2:0] out_loop,    // bit 2: it comes out of a loop, of this unroller in the slot of bit 0
    output wire [2:0] out_class,   // a command of this unroller's is: bit 0 a load, 1 execution, 2 a store
    input wire ld_space,           // a load can be taken in this cycle
    input wire ex_space,           // a PRELOAD or COMPUTE can be taken
    input wire st_space,           // a store can be taken
    // configuration by others, see baco_configuration
    input wire preloaded,          // a PRELOAD that is none of a loop's is without its COMPUTE
    input wire [2:0] ld_set,
    input wire [2:0] ld_plain,
    input wire [2:0] ld_shrink,
    input wire ex_set,
    input wire ex_ws,
    input wire [15:0] ex_stride_a,
    input wire [15:0] ex_stride_c,
    input wire st_set,
    input wire st_plain,
    output wire [1:0] loops,       // by slot: a loop is running
    output wire busy               // any
);
  localparam LOG_DIM = $clog2(DIM);
  localparam SP_BITS = $clog2(SP_ROWS);
  localparam ACC_BITS = $clog2(ACC_ROWS);
  // One bit more than a row index needs: a tile beyond the end of a memory stays visible as such.
  localparam ROW_BITS = (SP_BITS > ACC_BITS ? SP_BITS : ACC_BITS) + 1;
  // Blocks that one load or store moves side by side: of inputs, of accumulators.
  localparam NB = DMA_MAX_BYTES > `ROW_BYTES ? DMA_MAX_BYTES / `ROW_BYTES : 1;
  localparam NB_ACC = DMA_MAX_BYTES > 4 * DIM ? DMA_MAX_BYTES / (4 * DIM) : 1;
  localparam [31:0] NB_WORD = NB;
  localparam [31:0] NB_ACC_WORD = NB_ACC;
  localparam [31:0] NB_BYTES = NB * `ROW_BYTES;
  localparam [31:0] NB_ACC_BYTES = NB_ACC * DIM * 4;
  localparam [31:0] SP_HALF_WORD = SP_ROWS / 2;
  localparam [31:0] ACC_HALF_WORD = ACC_ROWS / 2;
  localparam [ROW_BITS-1:0] SP_HALF = SP_HALF_WORD[ROW_BITS-1:0];
  localparam [ROW_BITS-1:0] ACC_HALF = ACC_HALF_WORD[ROW_BITS-1:0];

  localparam [6:0] MVIN2 = 7'd1;
  localparam [6:0] MVIN = 7'd2;
  localparam [6:0] LOOP_WS = 7'd8;
  localparam [6:0] BOUNDS = 7'd9;
  localparam [6:0] ADDRS_AB = 7'd10;
  localparam [6:0] ADDRS_DC = 7'd11;
  localparam [6:0] STRIDES_AB = 7'd12;
  localparam [6:0] STRIDES_DC = 7'd13;
  localparam [6:0] MVIN3 = 7'd14;
  localparam [6:0] SPAD_AB = 7'd24;
  localparam [6:0] SPAD_C = 7'd25;

  // ---- What the two slots hold. Configuration commands write it, LOOP_WS completes it.
  reg [15:0] max_i [0:1];                // blocks
  reg [15:0] max_j [0:1];
  reg [15:0] max_k [0:1];
  reg [LOG_DIM-1:0] pad_i [0:1];         // elements
  reg [LOG_DIM-1:0] pad_j [0:1];
  reg [LOG_DIM-1:0] pad_k [0:1];
  reg [63:0] a_address [0:1];
  reg [63:0] b_address [0:1];
  reg [63:0] c_address [0:1];
  reg [63:0] d_address [0:1];
  reg [31:0] a_stride [0:1];             // elements; offsets wrap at 32 bits, so no more is needed
  reg [31:0] b_stride [0:1];
  reg [31:0] c_stride [0:1];
  reg [31:0] d_stride [0:1];
  reg [ROW_BITS-1:0] a_own [0:1];        // where A starts and B ends unless the loop names a half
  reg [ROW_BITS-1:0] b_own [0:1];
  reg [ROW_BITS-1:0] a_rows [0:1];       // local rows of A and B
  reg [ROW_BITS-1:0] b_rows [0:1];
  reg [ROW_BITS-1:0] a_load [0:1];       // first local row of A, B as loaded and as multiplied
  reg [ROW_BITS-1:0] b_load [0:1];
  reg [ROW_BITS-1:0] a_use [0:1];
  reg [ROW_BITS-1:0] b_use [0:1];
  reg [31:0] c_spad [0:1];               // scratchpad address of C less its accumulator row
  reg [1:0] a_null;
  reg [1:0] b_null;
  reg [1:0] c_null;
  reg [1:0] d_null;
  reg [1:0] resadd;
  reg [1:0] spad_only;
  reg [1:0] accumulate;
  reg [1:0] full_c;
  reg [1:0] low_d;
`ifdef BACO_NORMALIZATIONS
  reg [1:0] layer_norm;                  // results of rows: layer norm, softmax
  reg [1:0] softmax;
`endif
  reg [1:0] a_transpose;
  reg [1:0] b_transpose;
`ifdef BACO_PACKED_WEIGHTS
  reg [1:0] b_packed;                    // memory holds elements of 4 bits
`endif
  reg [1:0] d_half;                      // accumulator half of the phase
  reg [1:0] ex_half;
  reg [1:0] st_half;
  reg [1:0] a_done;                      // all commands of the phase have gone out
  reg [1:0] b_done;
  reg [1:0] d_done;
  reg [1:0] ex_done;
  reg [1:0] st_done;
  reg [1:0] running;
  reg head;                              // the older slot, also the next to be filled when both are free
  reg next_d_half;                       // accumulator halves of the next loop
  reg next_ex_half;
  reg next_st_half;

  // ---- Taking commands
  wire tail = !head;
  wire fill = running[head] ? tail : head;
  wire pending = running != 2'd0;
  wire ours = (in_funct >= LOOP_WS && in_funct <= STRIDES_DC) || in_funct == SPAD_AB || in_funct == SPAD_C;
  wire [3:0] error;
  wire settled;
  wire is_loop = ours && !in_xd && error == `BACO_ERROR_NONE;
  wire unclear = ours && !in_xd && !settled;
  wire take = in_valid && is_loop && !unclear && !running[fill];
  assign in_ready = !unclear && (is_loop ? !running[fill] : !pending && out_ready);
  assign loops = running;
  assign busy = pending;

  wire a_write;
  wire b_write;
  wire [ROW_BITS-1:0] rows;
  baco_loop_ws_check #(.DIM(DIM), .SP_ROWS(SP_ROWS), .ACC_ROWS(ACC_ROWS), .ROW_BITS(ROW_BITS)) u_check (
      .clock(clock), .reset(reset), .funct(in_funct), .rs1(in_rs1), .rs2(in_rs2), .offered(in_valid),
      .leaves(in_valid && in_ready), .take(take), .error(error),
      .settled(settled), .slot(fill), .max_i(max_i[fill]), .max_j(max_j[fill]), .max_k(max_k[fill]),
      .a_null(a_null[fill]), .b_null(b_null[fill]), .c_null(c_null[fill]), .d_null(d_null[fill]),
      .a_own(a_own[fill]), .b_own(b_own[fill]), .a_write(a_write), .b_write(b_write), .rows(rows),
      .a_rows(a_rows[fill]), .b_rows(b_rows[fill]), .preloaded(preloaded), .ld_set(ld_set), .ld_plain(ld_plain),
      .ld_shrink(ld_shrink), .ex_set(ex_set), .ex_ws(ex_ws), .ex_stride_a(ex_stride_a), .ex_stride_c(ex_stride_c),
      .st_set(st_set), .st_plain(st_plain));

  wire run_resadd = in_rs2[2];
  wire run_spad = in_rs2[9];
  wire no_c = c_null[fill] && !run_spad;
  wire change_half = run_spad ? in_rs2[8] : !c_null[fill];
  wire run_st_half = run_resadd ? fill : next_st_half;
  wire [ROW_BITS-1:0] run_a = in_rs1[19:18] == 2'd0 ? a_own[fill]
                            : in_rs1[19] ? SP_HALF : {ROW_BITS{1'b0}};
  wire [ROW_BITS-1:0] run_b = in_rs1[17:16] == 2'd0 ? b_own[fill]
                            : in_rs1[17] ? SP_HALF + SP_HALF : SP_HALF;

  // ---- Between the loops: may the younger one begin this phase while the older one is running?
  wire same_mode = resadd[head] == resadd[tail];
  wire head_loaded = a_done[head] && b_done[head] && d_done[head];
  wire head_used = head_loaded && ex_done[head];
  wire a_hits = hits(a_load[tail], a_rows[tail], a_use[head], a_rows[head])
             || hits(a_load[tail], a_rows[tail], b_use[head], b_rows[head]);
  wire b_hits = hits(b_load[tail], b_rows[tail], a_use[head], a_rows[head])
             || hits(b_load[tail], b_rows[tail], b_use[head], b_rows[head]);
  wire head_copied = st_done[head] || !spad_only[head];   // results that go to the scratchpad have gone
  wire tail_a = same_mode && (resadd[tail] || (head_copied && (head_used || !a_hits)));
  wire tail_b = same_mode && (resadd[tail] || (head_copied && (head_used || !b_hits)));
  wire tail_d = same_mode && (ex_done[head] || d_half[tail] != ex_half[head])
                          && (st_done[head] || d_half[tail] != st_half[head]);
  wire tail_ex = same_mode && head_used
                 && (st_done[head] || (!spad_only[head] && ex_half[tail] != st_half[head]));
  wire tail_st = same_mode && head_used;

  function hits;  // two ranges of rows have one in common
    input [ROW_BITS-1:0] start_1;
    input [ROW_BITS-1:0] length_1;
    input [ROW_BITS-1:0] start_2;
    input [ROW_BITS-1:0] length_2;
    hits = {1'b0, start_1} < {1'b0, start_2} + {1'b0, length_2}
        && {1'b0, start_2} < {1'b0, start_1} + {1'b0, length_1};
  endfunction

  wire a_go;                             // the phase's command goes out in this cycle
  wire b_go;
  wire d_go;
  wire ex_go;
  wire st_go;

  // ---- Phases. Each works on the slot of its `*_owner`; when it is through, it begins with its `*_slot`, the next in line.
  reg a_owner;
  reg b_owner;
  reg d_owner;
  reg ex_owner;
  reg st_owner;
  reg a_resadd, a_t, b_resadd, b_t;      // of the owners' loops
  wire a_active;
  wire a_valid;
  wire b_active;
  wire b_valid;
  wire d_active;
  wire d_valid;
  wire ex_active;
  wire ex_valid;
  wire st_active;
  wire st_valid;
  wire a_slot = a_done[head] ? tail : head;
  wire b_slot = b_done[head] ? tail : head;
  wire d_slot = d_done[head] ? tail : head;
  wire ex_slot = ex_done[head] ? tail : head;
  wire st_slot = st_done[head] ? tail : head;
  wire a_start = !a_active && running[a_slot] && !a_done[a_slot] && (a_slot == head || tail_a);
  wire b_start = !b_active && running[b_slot] && !b_done[b_slot] && (b_slot == head || tail_b);
  wire d_start = !d_active && running[d_slot] && !d_done[d_slot] && (d_slot == head || tail_d);
  wire ex_start = !ex_active && running[ex_slot] && !ex_done[ex_slot] && (ex_slot == head || tail_ex);
  wire st_start = !st_active && running[st_slot] && !st_done[st_slot] && (st_slot == head || tail_st);

  wire a_last;
  wire [15:0] a_row;
  wire [15:0] a_col;
  wire [15:0] a_col_last;
  wire [15:0] a_first_row;
  wire [31:0] a_offset;
  wire [ROW_BITS-1:0] a_place;
  wire [15:0] a_size_rows;
  wire [15:0] a_size_cols;
  wire [15:0] a_inner = a_resadd ? max_j[a_owner] : max_k[a_owner];
  wire [LOG_DIM-1:0] a_inner_pad = a_resadd ? pad_j[a_owner] : pad_k[a_owner];
  baco_loop_ws_walk #(.DIM(DIM), .ROW_BITS(ROW_BITS)) u_a (
      .clock(clock), .reset(reset), .start(a_start), .next(a_go),
      .base(resadd[a_slot] ? (a_slot ? ACC_HALF : {ROW_BITS{1'b0}}) : a_load[a_slot]),
      .rows(a_t ? a_inner : max_i[a_owner]), .cols(a_t ? max_i[a_owner] : a_inner),
      .step(NB_WORD[6:0]), .whole(!a_t), .group(7'd1),
      .row_bytes(a_stride[a_owner] << `LOG_ROW_BYTES), .step_bytes(NB_BYTES),
      .row_pad(a_t ? a_inner_pad : pad_i[a_owner]), .col_pad(a_t ? pad_i[a_owner] : a_inner_pad),
      .active(a_active), .valid(a_valid), .last(a_last), .row(a_row), .col(a_col), .col_last(a_col_last),
      .first_row(a_first_row), .offset(a_offset), .place(a_place), .size_rows(a_size_rows), .size_cols(a_size_cols));

  wire b_last;
  wire [15:0] b_row;
  wire [15:0] b_col;
  wire [15:0] b_col_last;
  wire [15:0] b_first_row;
  wire [31:0] b_offset;
  wire [ROW_BITS-1:0] b_place;
  wire [15:0] b_size_rows;
  wire [15:0] b_size_cols;
  wire [15:0] b_inner = b_resadd ? max_i[b_owner] : max_k[b_owner];
  wire [LOG_DIM-1:0] b_inner_pad = b_resadd ? pad_i[b_owner] : pad_k[b_owner];
  baco_loop_ws_walk #(.DIM(DIM), .ROW_BITS(ROW_BITS)) u_b (
      .clock(clock), .reset(reset), .start(b_start), .next(b_go),
      .base(resadd[b_slot] ? (b_slot ? ACC_HALF : {ROW_BITS{1'b0}}) : b_load[b_slot]),
      .rows(b_t ? max_j[b_owner] : b_inner), .cols(b_t ? b_inner : max_j[b_owner]),
      .step(NB_WORD[6:0]), .whole(!b_t), .group(NB_WORD[6:0]),
      .row_bytes(b_stride[b_owner] << `LOG_ROW_BYTES), .step_bytes(NB_BYTES),
      .row_pad(b_t ? pad_j[b_owner] : b_inner_pad), .col_pad(b_t ? b_inner_pad : pad_j[b_owner]),
      .active(b_active), .valid(b_valid), .last(b_last), .row(b_row), .col(b_col), .col_last(b_col_last),
      .first_row(b_first_row), .offset(b_offset), .place(b_place), .size_rows(b_size_rows), .size_cols(b_size_cols));

  wire d_last;
  wire [15:0] d_row;
  wire [15:0] d_col;
  wire [15:0] d_col_last;
  wire [15:0] d_first_row;
  wire [31:0] d_offset;
  wire [ROW_BITS-1:0] d_place;
  wire [15:0] d_size_rows;
  wire [15:0] d_size_cols;
  wire d_low = low_d[d_owner];
  baco_loop_ws_walk #(.DIM(DIM), .ROW_BITS(ROW_BITS)) u_d (
      .clock(clock), .reset(reset), .start(d_start), .next(d_go),
      .base(d_half[d_slot] ? ACC_HALF : {ROW_BITS{1'b0}}), .rows(max_i[d_owner]), .cols(max_j[d_owner]),
      .step(d_low ? NB_WORD[6:0] : NB_ACC_WORD[6:0]), .whole(1'b1), .group(7'd1),
      .row_bytes(d_low ? d_stride[d_owner] << `LOG_ROW_BYTES : d_stride[d_owner] << (LOG_DIM + 2)),
      .step_bytes(d_low ? NB_BYTES : NB_ACC_BYTES), .row_pad(pad_i[d_owner]), .col_pad(pad_j[d_owner]),
      .active(d_active), .valid(d_valid), .last(d_last), .row(d_row), .col(d_col), .col_last(d_col_last),
      .first_row(d_first_row), .offset(d_offset), .place(d_place), .size_rows(d_size_rows), .size_cols(d_size_cols));

  wire ex_last;
  wire [15:0] ex_i;
  wire [15:0] ex_j;
  wire [15:0] ex_k;
  wire [15:0] ex_first_j;
  wire ex_last_k;
  wire [6:0] ex_funct;
  wire [63:0] ex_rs1;
  wire [63:0] ex_rs2;
  baco_loop_ws_execute #(.DIM(DIM), .ROW_BITS(ROW_BITS), .GROUP(NB)) u_execute (
      .clock(clock), .reset(reset), .start(ex_start), .next(ex_go),
      .max_i(max_i[ex_owner]), .max_j(max_j[ex_owner]), .max_k(max_k[ex_owner]),
      .pad_i(pad_i[ex_owner]), .pad_j(pad_j[ex_owner]), .pad_k(pad_k[ex_owner]),
      .a_transpose(a_transpose[ex_owner]), .b_transpose(b_transpose[ex_owner]), .accumulate(accumulate[ex_owner]),
      .a_base(a_use[ex_slot]), .b_base(b_use[ex_slot]),
      .c_base(ex_half[ex_slot] ? ACC_HALF : {ROW_BITS{1'b0}}),
      .active(ex_active), .valid(ex_valid), .last(ex_last), .i(ex_i), .j(ex_j), .k(ex_k), .first_j(ex_first_j),
      .last_k(ex_last_k), .funct(ex_funct), .rs1(ex_rs1), .rs2(ex_rs2));

  wire st_last;
  wire st_normalises;
  wire [15:0] st_row;
  wire [15:0] st_col;
  wire [15:0] st_col_last;
  wire [6:0] st_funct;
  wire [63:0] st_rs1;
  wire [63:0] st_rs2;
  baco_loop_ws_store #(.DIM(DIM), .ROW_BITS(ROW_BITS), .BLOCKS(NB)) u_store (
      .clock(clock), .reset(reset), .start(st_start), .next(st_go), .base(st_half[st_slot] ? ACC_HALF : {ROW_BITS{1'b0}}),
      .rows(max_i[st_owner]), .cols(max_j[st_owner]), .row_pad(pad_i[st_owner]), .col_pad(pad_j[st_owner]),
      .stride(c_stride[st_owner]), .address(c_address[st_owner]), .spad_address(c_spad[st_owner]), .full(full_c[st_owner]),
      .spad(spad_only[st_owner]),
`ifdef BACO_NORMALIZATIONS
      .layer_norm(layer_norm[st_owner]), .softmax(softmax[st_owner]),
      .start_normalises(layer_norm[st_slot] || softmax[st_slot]),
`endif
      .active(st_active), .valid(st_valid), .last(st_last), .normalises(st_normalises), .row(st_row), .col(st_col),
      .col_last(st_col_last), .funct(st_funct), .rs1(st_rs1), .rs2(st_rs2));

  // ---- Inside a loop: what has gone out already?
  // Position of the next load of A and B in the loops over k, i and over groups, k, j.
  wire [15:0] a_k = a_t ? a_row : a_col;
  wire [15:0] a_i = a_t ? a_col : a_row;
  wire [15:0] b_group = b_t ? b_first_row : b_col;
  wire [15:0] b_k = b_t ? b_col : b_row;
  wire [15:0] b_j = b_t ? b_row : b_col;

  // The product at (ex_first_j, ex_k, ex_j, ex_i) has its operands.
  wire ex_has_a = a_done[ex_owner] || (a_valid && a_owner == ex_owner
                  && (a_k > ex_k || (a_k == ex_k && a_i > ex_i)));
  wire ex_has_b = b_done[ex_owner] || (b_valid && b_owner == ex_owner
                  && (b_group > ex_first_j || (b_group == ex_first_j
                  && (b_k > ex_k || (b_k == ex_k && b_j > ex_j)))));
  wire ex_has_d = d_done[ex_owner] || (d_valid && d_owner == ex_owner
                  && (d_col > ex_j || (d_col == ex_j && d_row > ex_i)));

  // The store of columns st_col to st_col_last in row st_row has its results.
  wire st_has_product = ex_valid && ex_owner == st_owner
                     && (ex_first_j > st_col_last
                      || (ex_last_k && (ex_j > st_col_last || (ex_j == st_col_last && ex_i > st_row))));
  // ... its sums, where loads go column by column. Wider loads than stores (full_c) are of NB columns.
  wire a_past = a_col > st_col || ({1'b0, a_col} + NB_WORD[16:0] > {1'b0, st_col} && a_row > st_row);
  wire b_past = b_col > st_col || ({1'b0, b_col} + NB_WORD[16:0] > {1'b0, st_col} && b_row > st_row);
  wire st_has_a = a_done[st_owner] || (a_valid && a_owner == st_owner && !a_t && a_past);
  wire st_has_b = b_done[st_owner] || (b_valid && b_owner == st_owner && !b_t && b_past);
  wire st_has_all = d_done[st_owner] && ex_done[st_owner];
  // ... what goes to the scratchpad may land on A and B of its own loop, which nothing need have read.
  wire st_has_inputs = resadd[st_owner] ? st_has_a && st_has_b
                                        : !spad_only[st_owner] || (a_done[st_owner] && b_done[st_owner]);
  // ... rows that are normalised wait for all of them
  wire st_has_rows = st_has_all && (!resadd[st_owner] || (a_done[st_owner] && b_done[st_owner]));
  wire st_has = st_normalises ? st_has_rows
              : st_has_all ? st_has_inputs : st_has_product && !spad_only[st_owner];

  // In an addition B goes on top of A.
  wire b_has = !b_resadd || a_done[b_owner] || (a_valid && a_owner == b_owner && !a_t && !b_t
               && (a_col > b_col || (a_col == b_col && a_row > b_row)));

  // ---- The next load: of the older loop; of the same loop, what products need first. A product at (group, k, j,
  // i) needs D for k = 0 only and B for i = 0 only, and all of A is needed in group 0.
  wire b_ready = b_valid && b_has;
  wire b_before_a = a_owner != b_owner ? b_owner == head
                  : b_resadd ? 1'b1
                  : b_group == 16'd0 && (b_k < a_k || (b_k == a_k && b_j == 16'd0));
  wire pick_b = b_ready && (!a_valid || b_before_a);
  wire d_before_a = a_owner != d_owner ? d_owner == head
                  : d_col < NB_WORD[15:0] && (a_k != 16'd0 || (d_col == 16'd0 && d_row <= a_i));
  wire d_before_b = b_owner != d_owner ? d_owner == head
                  : b_group > d_col
                    || ({1'b0, d_col} < {1'b0, b_group} + NB_WORD[16:0] && (b_k != 16'd0 || b_j > d_col));
  wire pick_d = d_valid && (pick_b ? d_before_b : !a_valid || d_before_a);
  wire pick_a = !pick_d && !pick_b;
  wire [63:0] a_from = a_address[a_owner] + {32'd0, a_offset};
`ifdef BACO_PACKED_WEIGHTS
  wire [63:0] b_from = b_address[b_owner] + {32'd0, b_packed[b_owner] ? {1'b0, b_offset[31:1]} : b_offset};
`else
  wire [63:0] b_from = b_address[b_owner] + {32'd0, b_offset};
`endif
  wire [63:0] d_from = d_address[d_owner] + {32'd0, d_offset};
  wire [2:0] ld_flags = pick_d ? 3'b100 : pick_b ? {b_resadd, b_resadd, 1'b0} : {a_resadd, 2'b00};
  wire [ROW_BITS-1:0] ld_place = pick_d ? d_place : pick_b ? b_place : a_place;
  wire [15:0] ld_rows = pick_d ? d_size_rows : pick_b ? b_size_rows : a_size_rows;
  wire [15:0] ld_cols = pick_d ? d_size_cols : pick_b ? b_size_cols : a_size_cols;

  // ---- The next command
  wire st_ready = st_valid && st_has && st_space;
  wire ex_ready = ex_valid && ex_has_a && ex_has_b && ex_has_d && ex_space;
  wire ld_ready = (a_valid || b_ready || d_valid) && ld_space;
  assign st_go = st_ready && out_ready;
  assign ex_go = ex_ready && !st_ready && out_ready;
  wire ld_go = ld_ready && !st_ready && !ex_ready && out_ready;
  assign a_go = ld_go && pick_a;
  assign b_go = ld_go && pick_b && !pick_d;
  assign d_go = ld_go && pick_d;

  wire [63:0] ld_rs1 = pick_d ? d_from : pick_b ? b_from : a_from;
  wire [63:0] ld_rs2 = {ld_rows, ld_cols, ld_flags, {29-ROW_BITS{1'b0}}, ld_place};

  assign out_valid = pending ? st_ready || ex_ready || ld_ready : in_valid && !is_loop && !unclear;
  assign out_funct = !pending ? in_funct
                   : st_ready ? st_funct
                   : ex_ready ? ex_funct
                   : pick_d ? MVIN3 : pick_b ? MVIN2 : MVIN;
  assign out_rs1 = !pending ? in_rs1 : st_ready ? st_rs1 : ex_ready ? ex_rs1 : ld_rs1;
  assign out_rs2 = !pending ? in_rs2 : st_ready ? st_rs2 : ex_ready ? ex_rs2 : ld_rs2;
  assign out_rd = pending ? 5'd0 : in_rd;
  assign out_xd = !pending && in_xd;
  assign out_error = pending ? `BACO_ERROR_NONE : ours && !in_xd ? error : in_error;
  wire out_slot = st_ready ? st_owner : ex_ready ? ex_owner : pick_d ? d_owner : pick_b ? b_owner : a_owner;
  assign out_class = {st_ready, ex_ready && !st_ready, !ex_ready && !st_ready};
  assign out_loop = pending ? {2'b10, out_slot} : in_loop;
  wire _unused = &{1'b0, a_col_last, a_first_row, b_col_last, d_col_last, d_first_row};

  // ---- State
  always @(posedge clock) begin
    if (a_start) begin
      a_owner <= a_slot;
      a_resadd <= resadd[a_slot];
      a_t <= a_transpose[a_slot];
    end
    if (b_start) begin
      b_owner <= b_slot;
      b_resadd <= resadd[b_slot];
      b_t <= b_transpose[b_slot];
    end
    if (d_start) d_owner <= d_slot;
    if (ex_start) ex_owner <= ex_slot;
    if (st_start) st_owner <= st_slot;
    if (a_go && a_last) a_done[a_owner] <= 1'b1;
    if (b_go && b_last) b_done[b_owner] <= 1'b1;
    if (d_go && d_last) d_done[d_owner] <= 1'b1;
    if (ex_go && ex_last) ex_done[ex_owner] <= 1'b1;
    if (st_go && st_last) st_done[st_owner] <= 1'b1;
    if (running[head] && head_used && st_done[head]) begin
      running[head] <= 1'b0;
      head <= tail;
    end

    if (a_write) a_rows[fill] <= rows;
    if (b_write) b_rows[fill] <= rows;
    if (take) begin
      case (in_funct)
        BOUNDS: begin
          max_i[fill] <= in_rs2[15:0];
          max_j[fill] <= in_rs2[31:16];
          max_k[fill] <= in_rs2[47:32];
          pad_i[fill] <= in_rs1[LOG_DIM-1:0];
          pad_j[fill] <= in_rs1[16+LOG_DIM-1:16];
          pad_k[fill] <= in_rs1[32+LOG_DIM-1:32];
        end
        ADDRS_AB: begin
          a_address[fill] <= in_rs1;
          b_address[fill] <= in_rs2;
          a_null[fill] <= in_rs1 == 64'd0;
          b_null[fill] <= in_rs2 == 64'd0;
        end
        ADDRS_DC: begin
          d_address[fill] <= in_rs1;
          c_address[fill] <= in_rs2;
          d_null[fill] <= in_rs1 == 64'd0;
          c_null[fill] <= in_rs2 == 64'd0;
        end
        STRIDES_AB: begin
          a_stride[fill] <= in_rs1[31:0];
          b_stride[fill] <= in_rs2[31:0];
        end
        STRIDES_DC: begin
          d_stride[fill] <= in_rs1[31:0];
          c_stride[fill] <= in_rs2[31:0];
        end
        SPAD_AB: begin
          a_own[fill] <= in_rs1[ROW_BITS-1:0];
          b_own[fill] <= in_rs2[ROW_BITS-1:0];
        end
        LOOP_WS: begin
          running[fill] <= 1'b1;
          accumulate[fill] <= in_rs1[0];
          full_c[fill] <= in_rs1[1];
          low_d[fill] <= in_rs1[2];
`ifdef BACO_NORMALIZATIONS
          layer_norm[fill] <= in_rs1[10:8] == 3'd2;
          softmax[fill] <= in_rs1[10:8] == 3'd4;
`endif
          a_transpose[fill] <= in_rs2[0];
          b_transpose[fill] <= in_rs2[1];
`ifdef BACO_PACKED_WEIGHTS
          b_packed[fill] <= in_rs2[10];
`endif
          resadd[fill] <= run_resadd;
          spad_only[fill] <= run_spad;
          a_load[fill] <= run_a;
          b_load[fill] <= run_b - b_rows[fill];
          a_use[fill] <= run_spad ? a_own[fill] : run_a;
          b_use[fill] <= (run_spad ? b_own[fill] : run_b) - b_rows[fill];
          c_spad[fill] <= in_rs2[63:32] - (run_st_half ? {{32-ROW_BITS{1'b0}}, ACC_HALF} : 32'd0);
          a_done[fill] <= in_rs2[3] || a_null[fill];
          b_done[fill] <= in_rs2[4] || b_null[fill];
          d_done[fill] <= in_rs2[5] || d_null[fill];
          ex_done[fill] <= in_rs2[6] || run_resadd;
          st_done[fill] <= in_rs2[7] || no_c;
          d_half[fill] <= next_d_half;
          ex_half[fill] <= next_ex_half;
          st_half[fill] <= run_st_half;
          // Every phase that is not skipped changes halves, also one that has nothing to do.
          if (!in_rs2[5] && !c_null[fill]) next_d_half <= !next_d_half;
          if (!in_rs2[6] && change_half) next_ex_half <= !next_ex_half;
          if (!in_rs2[7] && change_half) next_st_half <= !next_st_half;
        end
        default: begin  // SPAD_C has no effect
        end
      endcase
    end

    if (reset) begin
      running <= 2'd0;
      head <= 1'b0;
      next_d_half <= 1'b0;
      next_ex_half <= 1'b0;
      next_st_half <= 1'b0;
      a_own[0] <= {ROW_BITS{1'b0}};
      a_own[1] <= SP_HALF;
      b_own[0] <= SP_HALF;
      b_own[1] <= SP_HALF + SP_HALF;
      max_i[0] <= 16'd0;
      max_i[1] <= 16'd0;
      a_done <= 2'd0;
      b_done <= 2'd0;
      d_done <= 2'd0;
      ex_done <= 2'd0;
      st_done <= 2'd0;
    end
  end
endmodule
