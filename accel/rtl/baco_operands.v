// What a command touches in local memory, and whether it is legal: two operands, each a range of rows of one memory
// that is read or written. Keeps the copies of the configuration that this takes (strides, transposes, pooling), in
// program order, and tells the unrollers what they must know of it before they run a macro.
//
// Which error a command has, and which of several, is what accel/legality says; the checks here are in its order.
//
// Ranges are exact for whole commands or larger: block strides, pixel repeats (which reach below the destination),
// transposed operands (whose stored rows are the logical columns) and pooled stores (the whole unpooled tile). An operand
// that touches nothing is the range from 0 to 0.
module baco_operands #(
    parameter DIM = 16,
    parameter SP_ROWS = 16384,
    parameter ACC_ROWS = 1024,
    parameter AW = 14,                            // bits of a row number of either memory
    parameter DMA_MAX_BYTES = 64
) (
    input wire clock,
    input wire reset,
    input wire [6:0] funct,
    input wire xd,                                // the command asks for a result, which none of these has
    input wire [63:0] rs1,
    input wire [63:0] rs2,
    input wire offered,                           // the command is there; it stays until it is taken
    input wire taken,                             // it goes in this cycle, accepted or rejected
    input wire accepted,                          // ... and it is legal
    output reg [1:0] kind,                        // 0 load, 1 execute, 2 store
    output reg [3:0] error,                       // code of the rejection, 0 when the command is legal
    output reg [1:0] valid,                       // operand n touches local memory
    output reg [1:0] acc,                         // ... the accumulator
    output reg [1:0] write,                       // ... and writes it
    output wire [2*27-1:0] start,                 // first row
    output wire [2*27-1:0] past,                  // row after the last
    output reg pending,                           // a PRELOAD is without its COMPUTE
    output wire settled,                          // it is known whether
    output wire overwritten,                      // ... a COMPUTE's result overwrites an operand before that is read
    // configuration that macros work with
    output reg [2:0] ld_set,                      // by load state: there was a CONFIG_LD
    output reg [2:0] ld_plain,                    // ... with a block stride of DIM and without pixel repeats
    output reg [2:0] ld_shrink,
    output reg ex_set,                            // there was a CONFIG_EX of everything
    output wire ex_ws,                            // weight-stationary
    output wire [1:0] ex_transposes,              // B, A
    output wire [15:0] ex_stride_a,
    output wire [15:0] ex_stride_c,
    output reg st_set,                            // there was a CONFIG_ST
`ifdef BACO_ROW_FUNCTIONS
    output wire st_by_row,                        // rows that are stored are softmaxed or normalised
`endif
    output wire st_plain                          // without pooling, 1-D mode and functions of rows
);
  localparam LOG_DIM = $clog2(DIM);
  localparam [31:0] DIM_VALUE = DIM;
  localparam [15:0] DIM_ROWS = DIM_VALUE[15:0];
  localparam [31:0] SP_VALUE = SP_ROWS;
  localparam [31:0] ACC_VALUE = ACC_ROWS;
  localparam LINE = DMA_MAX_BYTES > 64 ? DMA_MAX_BYTES : 64;
  localparam [31:0] MOST_VALUE = DIM * 4 > LINE ? DIM * 4 : LINE;  // bytes of a memory row
  localparam [17:0] MOST_BYTES = MOST_VALUE[17:0];
  // What ranges are made of: one product of a count (rows or blocks less one) and a step (rows).
  localparam FW = 8;                              // MVOUT_SPAD has up to 255 rows, all others have less
  localparam SW = AW + 1 > 16 ? AW + 1 : 16;
  localparam TW = FW + SW + 2 > 28 ? FW + SW + 2 : 28;
  localparam [TW-1:0] SP_END = {{(TW-26){1'b0}}, SP_VALUE[25:0]};
  localparam [TW-1:0] ACC_END = {{(TW-26){1'b0}}, ACC_VALUE[25:0]};

  reg [15:0] stride_a;
  reg [15:0] stride_c;
  reg os;
  reg transpose_a;
  reg transpose_b;
  reg [3*16-1:0] block_stride;
  reg [3*8-1:0] repeats;
  reg pooling;
  reg gathered;                                   // pooling or 1-D mode: rows come from the tile, not from the command
  reg [15:0] tile_rows;
  reg pending_c;                                  // the pending PRELOAD names a result to be kept
  reg pending_local;                              // ... in the scratchpad
  reg [26:0] result_first;                        // ... in these rows
  reg [26:0] result_past;
  reg [7:0] result_rows;
  reg empty;                                      // the array holds neither weights nor sums of this dataflow

  wire raw = rs2[31] && rs2[29];
  assign ex_ws = !os;
  assign ex_transposes = {transpose_b, transpose_a};
  assign ex_stride_a = stride_a;
  assign ex_stride_c = stride_c;
`ifdef BACO_ROW_FUNCTIONS
  reg [1:0] function_of_stores;
  reg [7:0] apart;                                // softmax: rows from one block of a row to the next
  reg [26:0] parameters;                          // rows of gains and offsets begin there
  reg multiplies;                                  // ... or of what source rows, from 0 on, are multiplied by
  assign st_by_row = function_of_stores[1];
  assign st_plain = !gathered && !st_by_row;
  localparam [31:0] TABLE_VALUE = DIM > 128 ? 1 : 128 / DIM;
  localparam [TW-1:0] TABLE_ROWS = {{(TW-8){1'b0}}, TABLE_VALUE[7:0]};
  wire by_row = st_by_row && !raw;
  wire normalises = by_row && function_of_stores[0];
  wire unfit = st_by_row && function_of_stores[0];  // for the scratchpad
`else
  assign st_plain = !gathered;
  wire by_row = 1'b0;
  wire unfit = 1'b0;
`endif

`ifdef BACO_NORMALIZATIONS
  reg [2:0] activation;                           // of stores
  wire [2:0] norm = rs2[28:26];                   // normaliser command
  wire normalised = rs2[31] && activation > 3'd1 && by_row;  // twice over
  wire wrong_norm = (norm != 3'd0 && (!rs2[31] || gathered || by_row)) || normalised;
  wire wrong_spad_norm = norm != 3'd0 || normalised;
`else
  wire wrong_norm = 1'b0;
  wire wrong_spad_norm = 1'b0;
`endif

  // Without PRELOAD_D an array of one dataflow takes zeros for what starts its sums, whatever the command says: the
  // operand of PRELOAD output-stationary, the second one of COMPUTE weight-stationary.
  wire first_built;
  wire second_built;
`ifdef BACO_PRELOAD_D
  assign {first_built, second_built} = 2'b11;
`else
`ifdef BACO_WS
  assign {first_built, second_built} = 2'b10;
`else
  assign {first_built, second_built} = 2'b01;
`endif
`endif

  wire [15:0] cols2 = rs2[47:32];
  wire [15:0] rows2 = rs2[63:48];
  wire [15:0] cols1 = rs1[47:32];
  wire [15:0] rows1 = rs1[63:48];
  wire none1 = &{rs1[31:29], rs1[AW:0]};          // the garbage address
  wire none2 = &{rs2[31:29], rs2[AW:0]};
  wire is_preload = funct == 7'd6;
  wire real1 = !none1 && (!is_preload || first_built);
  wire real2 = !none2 && (is_preload || second_built);
  wire empty1 = rows1 == 16'd0 || cols1 == 16'd0;
  wire empty2 = rows2 == 16'd0 || cols2 == 16'd0;
  wire large_rows2 = rows2 > DIM_ROWS;
  wire large_cols2 = cols2 > DIM_ROWS;
  wire large1 = rows1 > DIM_ROWS || cols1 > DIM_ROWS;
  wire large2 = large_rows2 || large_cols2;
  // The bit above the row number belongs to the garbage address only: with it, rows are beyond every memory.
  wire [26:0] row1 = {{(26-AW){1'b0}}, rs1[AW:0]};
  wire [26:0] row2 = {{(26-AW){1'b0}}, rs2[AW:0]};
  wire [16:0] blocks = ({1'b0, cols2} + {1'b0, DIM_ROWS} - 17'd1) >> LOG_DIM;
  wire [TW-1:0] further = {{(TW-17-LOG_DIM){1'b0}}, blocks - 17'd1, {LOG_DIM{1'b0}}};  // rows before the last block
`ifdef BACO_ROW_FUNCTIONS
  wire [24:0] blocks_apart = {8'd0, blocks - 17'd1} * {17'd0, apart};
  wire [TW-1:0] further_read = by_row ? {{(TW-25){1'b0}}, blocks_apart} : further;  // of a store's source
`else
  wire [TW-1:0] further_read = further;
`endif
  wire [FW-1:0] more_blocks = blocks[FW-1:0] - 1'b1;  // exact for columns that are not too many

  wire [1:0] state = funct == 7'd1 ? 2'd1 : funct == 7'd14 ? 2'd2 : 2'd0;
  wire [15:0] state_stride = state == 2'd2 ? block_stride[47:32] : state == 2'd1 ? block_stride[31:16] : block_stride[15:0];
  wire [7:0] state_repeats = state == 2'd2 ? repeats[23:16] : state == 2'd1 ? repeats[15:8] : repeats[7:0];
  wire wide = rs2[31] && !ld_shrink[state];       // accType in memory
  wire [17:0] row_bytes = wide ? {cols2, 2'b00} : {2'b00, cols2};
  wire many_bytes = row_bytes > MOST_BYTES;
`ifdef BACO_FIRST_LAYER
  wire repeated = state_repeats > 8'd1;
  wire [26:0] below = {19'd0, state_repeats} - 27'd1;  // copies reach that far below the destination
  wire crowded = repeated && (large_cols2 || {8'd0, state_repeats} * {8'd0, cols2[7:0]} > DIM_ROWS);
`else
  wire repeated = 1'b0;
  wire [26:0] below = 27'd0;
  wire crowded = 1'b0;
`endif
  wire known = funct <= 7'd27 || funct == 7'd126;

  // configuration commands
  wire whole = !rs1[7];                           // CONFIG_EX of everything
`ifdef BACO_WS
`ifdef BACO_OS
  wire new_os = !rs1[2];
`else
  wire new_os = 1'b0;
`endif
`else
  wire new_os = 1'b1;
`endif
`ifdef BACO_MAX_POOL
  wire new_pooling = rs1[5:4] != 2'd0;
`else
  wire new_pooling = 1'b0;
`endif
  wire new_gathered = new_pooling || rs1[7:6] != 2'd0;

  reg [FW-1:0] count;
  reg [SW-1:0] step;
  reg far;                                        // the step alone leaves every memory
  reg [TW-1:0] first1;
  reg [TW-1:0] first2;
  reg [TW-1:0] past1;                             // of the operand in rs1 (COMPUTE, PRELOAD), or of the only one
  reg [TW-1:0] past2;
  wire [FW+SW-1:0] product = {{SW{1'b0}}, count} * {{FW{1'b0}}, step};
  wire [TW-1:0] distance = {{(TW-FW-SW){1'b0}}, product};
  wire [TW-1:0] wide_row1 = {{(TW-27){1'b0}}, row1};
  wire [TW-1:0] wide_row2 = {{(TW-27){1'b0}}, row2};
  wire [TW-1:0] wide_rows2 = {{(TW-16){1'b0}}, rows2};
  localparam [TW-1:0] ONE = {{(TW-1){1'b0}}, 1'b1};
  reg [15:0] stored1;                             // rows of an operand as stored
  reg [15:0] stored2;
  reg too_big;
  wire beyond = (valid[0] && past1 > (acc[0] ? ACC_END : SP_END)) || (valid[1] && (far || past2 > (acc[1] ? ACC_END : SP_END)));
  wire overlap = funct == 7'd23 && !acc[0] && first1 < past2 && first2 < past1;
  reg [3:0] fault;                                // an error that comes before those of sizes and rows
  reg absent;                                     // there is no such command

  always @* begin
    kind = 2'd0;
    fault = `BACO_ERROR_NONE;
    absent = 1'b0;
    valid = 2'b00;
    acc = 2'b00;
    write = 2'b00;
    count = {FW{1'b0}};
    step = {SW{1'b0}};
    far = 1'b0;
    first1 = wide_row2;
    first2 = wide_row1;
    past1 = {TW{1'b0}};
    past2 = {TW{1'b0}};
    stored1 = rows1;
    stored2 = rows2;
    too_big = 1'b0;
    case (funct)
      7'd0:
        case (rs1[1:0])
          2'd0: begin
            kind = 2'd1;
            if (pending) fault = `BACO_ERROR_OUT_OF_TURN;
`ifndef BACO_NORMALIZATIONS
            else if (whole && rs1[4:3] > 2'd1) fault = `BACO_ERROR_NOT_BUILT;
`endif
            else if (whole && rs1[9] && rs1[8] != new_os) fault = `BACO_ERROR_TRANSPOSES;
          end
          2'd1: if (rs1[4:3] == 2'd3) fault = `BACO_ERROR_BAD_FLAGS;
          2'd2: begin
            kind = 2'd2;
`ifndef BACO_NORMALIZATIONS
            if (rs1[3:2] > 2'd1) fault = `BACO_ERROR_NOT_BUILT;
            else
`endif
            if (new_pooling && rs1[7:6] == 2'd0) fault = `BACO_ERROR_BAD_FLAGS;
            too_big = (new_gathered && (rs1[55:48] == 8'd0 || rs1[63:56] == 8'd0))
                || (new_pooling && (rs1[39:32] == 8'd0 || rs1[47:40] == 8'd0));
          end
          default: begin
`ifdef BACO_NORMALIZATIONS
            kind = 2'd2;
            if (rs1[15:9] != 7'd0 || (!rs1[17] && rs1[16] && activation[1:0] != 2'd0)) fault = `BACO_ERROR_BAD_FLAGS;
`else
            absent = 1'b1;
            fault = `BACO_ERROR_NOT_BUILT;
`endif
          end
        endcase
      7'd1, 7'd2, 7'd14: begin
        valid = 2'b01;
        write = 2'b01;
        acc[0] = rs2[31];
        if (!ld_set[state]) fault = `BACO_ERROR_NOT_CONFIGURED;
        else if (repeated && rs2[31]) fault = `BACO_ERROR_BAD_FLAGS;
        too_big = rows2 == 16'd0 || rows2 > 16'd255 || cols2 == 16'd0 || many_bytes
            || (large_cols2 && state_stride < rows2) || crowded;
        count = more_blocks;
        step[15:0] = state_stride;
        if (repeated) first1 = row2 > below ? wide_row2 - {{(TW-27){1'b0}}, below} : {TW{1'b0}};
        past1 = wide_row2 + distance + wide_rows2;
      end
      7'd3: begin
        kind = 2'd2;
        valid = 2'b01;
        acc[0] = rs2[31];
        if (!st_set) fault = `BACO_ERROR_NOT_CONFIGURED;
        else if ((raw && pooling) || (by_row && gathered) || wrong_norm) fault = `BACO_ERROR_BAD_FLAGS;
`ifndef BACO_READ_FULL
        else if (raw) fault = `BACO_ERROR_NOT_BUILT;
`endif
`ifndef BACO_READ_SMALL
        else if (rs2[31] && !raw) fault = `BACO_ERROR_NOT_BUILT;
`endif
        too_big = cols2 == 16'd0 || ({2'b00, cols2} > MOST_BYTES && !by_row) || ((raw || gathered) && large_cols2)
            || (!gathered && (rows2 == 16'd0 || rows2 > 16'd255 || (large_rows2 && (large_cols2 || by_row))));
        past1 = wide_row2 + (gathered ? {{(TW-16){1'b0}}, tile_rows} : {{(TW-FW-LOG_DIM){1'b0}}, more_blocks, {LOG_DIM{1'b0}}} + wide_rows2);
`ifdef BACO_ROW_FUNCTIONS
        if (by_row) past1 = wide_row2 + further_read + wide_rows2;
        if (normalises) begin
          valid = 2'b11;
          acc[1] = 1'b1;
          first2 = {{(TW-27){1'b0}}, parameters} + (multiplies ? wide_row2 : {TW{1'b0}});
          past2 = {{(TW-27){1'b0}}, parameters} + (multiplies ? past1 : {{(TW-17){1'b0}}, blocks});
        end
`endif
      end
      7'd23: begin
        kind = 2'd2;
        valid = 2'b11;
        write = 2'b10;
        acc[0] = rs2[31];
        if (!st_set) fault = `BACO_ERROR_NOT_CONFIGURED;
        else if (rs1[31] || gathered || raw || unfit || wrong_spad_norm) fault = `BACO_ERROR_BAD_FLAGS;
`ifndef BACO_READ_SMALL
        else if (rs2[31]) fault = `BACO_ERROR_NOT_BUILT;
`endif
        too_big = empty2 || rows2 > 16'd255 || (large_rows2 && (large_cols2 || by_row)) || (large_cols2 && rs1[63:32] != 32'd1);
        count = rows2[FW-1:0] - 1'b1;
        step = rs1[32 +: SW];
        far = rs1[63:32] >> SW != 32'd0 && rows2 != 16'd1;
        past1 = wide_row2 + further_read + wide_rows2;
        past2 = wide_row1 + further + distance + ONE;
      end
      7'd4, 7'd5: begin
        kind = 2'd1;
        if (!pending) fault = `BACO_ERROR_OUT_OF_TURN;
        else if (funct == 7'd5 && empty) fault = `BACO_ERROR_NOTHING_TO_ADD_TO;
        else if ((real1 && rs1[31]) || (real2 && rs2[31])) fault = `BACO_ERROR_BAD_FLAGS;
        too_big = (real1 && large1) || (real2 && large2);
        stored1 = transpose_a ? cols1 : rows1;
        stored2 = os && transpose_b ? cols2 : rows2;
        valid = {real2 && !empty2, real1 && !empty1};
        count = stored1[FW-1:0] - 1'b1;
        step[15:0] = stride_a;
        first1 = wide_row1;
        first2 = wide_row2;
        past1 = wide_row1 + distance + ONE;
        past2 = wide_row2 + {{(TW-16){1'b0}}, stored2};
      end
      7'd6: begin
        kind = 2'd1;
        write = 2'b10;
        acc[1] = rs2[31];
        if (pending) fault = `BACO_ERROR_OUT_OF_TURN;
        else if (!ex_set) fault = `BACO_ERROR_NOT_CONFIGURED;
        else if (real1 && rs1[31]) fault = `BACO_ERROR_BAD_FLAGS;
`ifndef BACO_WRITE_SCRATCHPAD
        else if (real2 && !rs2[31]) fault = `BACO_ERROR_BAD_FLAGS;
`endif
        too_big = (real1 && large1) || (real2 && large2);
        stored1 = !os && transpose_b ? cols1 : rows1;
        valid = {real2 && !empty2, real1 && !empty1};
        count = rows2[FW-1:0] - 1'b1;
        step[15:0] = stride_c;
        first1 = wide_row1;
        first2 = wide_row2;
        past1 = wide_row1 + {{(TW-16){1'b0}}, stored1};
        past2 = wide_row2 + distance + ONE;
      end
`ifdef BACO_ROW_FUNCTIONS
      7'd26: begin
        kind = 2'd2;
        if (rs1[1:0] == 2'd3 && !rs1[63]) fault = `BACO_ERROR_BAD_FLAGS;
        too_big = rs1[1:0] == 2'd3 ? rs1[8:4] < 5'd7 : rs1[1:0] == 2'd2 && rs1[8];
      end
      7'd27: begin
        kind = 2'd2;
        valid = 2'b01;
        acc[0] = 1'b1;
        if (!rs1[31]) fault = `BACO_ERROR_BAD_FLAGS;
        first1 = wide_row1;
        past1 = wide_row1 + TABLE_ROWS;
      end
`else
      7'd26, 7'd27: begin
        absent = 1'b1;
        fault = `BACO_ERROR_NOT_BUILT;
      end
`endif
`ifndef BACO_LOOP_WS
      7'd8, 7'd9, 7'd10, 7'd11, 7'd12, 7'd13, 7'd24, 7'd25: begin
        absent = 1'b1;
        fault = `BACO_ERROR_NOT_BUILT;
      end
`endif
`ifndef BACO_LOOP_CONV
      7'd15, 7'd16, 7'd17, 7'd18, 7'd19, 7'd20, 7'd21: begin
        absent = 1'b1;
        fault = `BACO_ERROR_NOT_BUILT;
      end
`endif
      default:
        if (!known) begin
          absent = 1'b1;
          fault = `BACO_ERROR_UNKNOWN_COMMAND;
        end
    endcase
    // What is left of the known ones, macros and commands for the front end, comes here with its error known, or
    // since it asks for a result.
    error = absent ? fault
          : xd ? `BACO_ERROR_NO_RESULT
          : fault != `BACO_ERROR_NONE ? fault
          : too_big ? `BACO_ERROR_BAD_SIZE
          : beyond ? `BACO_ERROR_LOCAL_ADDRESS
          : overlap ? `BACO_ERROR_ROWS_IN_USE : `BACO_ERROR_NONE;
  end

  assign start = {first2[26:0], first1[26:0]};
  assign past = {past2[26:0], past1[26:0]};

`ifdef BACO_WRITE_SCRATCHPAD
  // Output-stationary, results leave when all operands are in the array; weight-stationary, they leave while later rows
  // of A and of the bias are still read, unless A comes through the transposer.
  wire streams = offered && !os && pending && pending_c && pending_local && error == `BACO_ERROR_NONE
      && (funct == 7'd4 || funct == 7'd5);
  wire settled_a, settled_d, overwritten_a, overwritten_d;
  baco_in_place u_in_place_a (
      .clock(clock), .reset(reset), .asked(streams && valid[0] && !transpose_a), .taken(taken),
      .result_first(result_first), .result_past(result_past), .result_stride(stride_c), .result_rows(result_rows),
      .first(first1[26:0]), .past(past1[26:0]), .stride(stride_a), .rows(rows1[7:0]),
      .settled(settled_a), .overwritten(overwritten_a));
  baco_in_place u_in_place_d (
      .clock(clock), .reset(reset), .asked(streams && valid[1]), .taken(taken),
      .result_first(result_first), .result_past(result_past), .result_stride(stride_c), .result_rows(result_rows),
      .first(first2[26:0]), .past(past2[26:0]), .stride(16'd1), .rows(rows2[7:0]),
      .settled(settled_d), .overwritten(overwritten_d));
  assign settled = settled_a && settled_d;
  assign overwritten = overwritten_a || overwritten_d;
`else
  assign settled = 1'b1;
  assign overwritten = 1'b0;
  wire _unused_in_place = &{1'b0, offered, taken, pending_local, result_first, result_past, result_rows};
`endif

  wire configure = accepted && funct == 7'd0;
  always @(posedge clock) begin
    if (configure && rs1[1:0] == 2'd0) begin
      stride_a <= rs1[31:16];
      stride_c <= rs2[63:48];
      if (whole) begin
        ex_set <= 1'b1;
        os <= new_os;
        transpose_a <= rs1[8];
        transpose_b <= rs1[9];
        if (new_os != os) empty <= 1'b1;
      end
    end
    if (configure && rs1[1:0] == 2'd1) begin
      ld_set[rs1[4:3]] <= 1'b1;
      block_stride[rs1[4:3]*16 +: 16] <= rs1[31:16];
      ld_shrink[rs1[4:3]] <= rs1[2];
`ifdef BACO_FIRST_LAYER
      repeats[rs1[4:3]*8 +: 8] <= rs1[15:8];
      ld_plain[rs1[4:3]] <= rs1[31:16] == DIM_ROWS && rs1[15:9] == 7'd0;
`else
      ld_plain[rs1[4:3]] <= rs1[31:16] == DIM_ROWS;
`endif
    end
    if (configure && rs1[1:0] == 2'd2) begin
      st_set <= 1'b1;
      pooling <= new_pooling;
      gathered <= new_gathered;
      if (new_gathered) tile_rows <= {8'd0, rs1[55:48]} * {8'd0, rs1[63:56]};
    end
`ifdef BACO_NORMALIZATIONS
    if (configure && rs1[1:0] == 2'd2) activation <= {1'b0, rs1[3:2]};
    if (configure && rs1[1:0] == 2'd3 && !rs1[17]) activation[2] <= rs1[16];
    if (reset) activation <= 3'd0;
`endif
`ifdef BACO_ROW_FUNCTIONS
    if (accepted && funct == 7'd26) begin
      function_of_stores <= rs1[1:0];
      apart <= rs1[1:0] == 2'd2 && rs2[55:48] != 8'd0 ? rs2[55:48] : DIM_ROWS[7:0];
      if (rs1[1:0] == 2'd3) begin
        parameters <= {{(26-AW){1'b0}}, rs1[32 +: AW+1]};
        multiplies <= rs1[9];
      end
    end
    if (reset) begin
      function_of_stores <= 2'd0;
      apart <= DIM_ROWS[7:0];
      parameters <= 27'd0;
      multiplies <= 1'b0;
    end
`endif
    if (accepted && funct == 7'd6) begin
      pending <= 1'b1;
      pending_c <= valid[1];
      pending_local <= !acc[1];
      result_first <= first2[26:0];
      result_past <= past2[26:0];
      result_rows <= rows2[7:0];
    end
    if (accepted && (funct == 7'd4 || funct == 7'd5)) begin
      pending <= 1'b0;
      empty <= os && pending_c;
    end
    if (reset) begin
      stride_a <= 16'd1;
      stride_c <= 16'd1;
      os <= 1'b0;
      transpose_a <= 1'b0;
      transpose_b <= 1'b0;
      block_stride <= 48'd0;
      repeats <= 24'd0;
      pooling <= 1'b0;
      gathered <= 1'b0;
      tile_rows <= 16'd0;
      pending <= 1'b0;
      pending_c <= 1'b0;
      empty <= 1'b1;
      ld_set <= 3'd0;
      ld_plain <= 3'd0;
      ld_shrink <= 3'd0;
      ex_set <= 1'b0;
      st_set <= 1'b0;
    end
  end

  wire _unused = &{1'b0, rs1, rs2, repeats, state_repeats, below, blocks, first1[TW-1:27], first2[TW-1:27], past1[TW-1:27],
                   past2[TW-1:27], stored1, stored2};
endmodule
