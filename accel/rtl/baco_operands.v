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
    input wire in_valid,
    output wire in_ready,
    input wire [6:0] in_funct,
    input wire in_xd,                             // the command asks for a result, which none of these has
    input wire [63:0] in_rs1,
    input wire [63:0] in_rs2,
    input wire [3:0] in_error,                    // error that an unroller found
    input wire [3:0] in_tag,                      // goes with the command
    output reg out_valid,
    input wire out_ready,
    output reg [6:0] out_funct,
    output reg [63:0] out_rs1,
    output reg [63:0] out_rs2,
    output reg [3:0] out_tag,
    input wire accepted,                          // it goes in this cycle, and it is legal
    output reg [1:0] out_kind,                    // 0 load, 1 execute, 2 store
    output wire [3:0] out_error,                  // code of the rejection, 0 when the command is legal
    output reg [1:0] out_uses,                    // operand n touches local memory
    output reg [1:0] out_acc,                     // ... the accumulator
    output reg [1:0] out_write,                   // ... and writes it
    output wire [2*27-1:0] start,                 // first row
    output wire [2*27-1:0] past,                  // row after the last
    output reg pending,                           // a PRELOAD is without its COMPUTE
    output wire settled,                          // it is known whether
    output wire overwritten,                      // ... a COMPUTE's result overwrites an operand before that is read
    output wire busy                              // a command is here
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

  // ---------------------------------------------------------------- first step: fields, and the configuration
  wire [6:0] funct = in_funct;
  wire [63:0] rs1 = in_rs1;
  wire [63:0] rs2 = in_rs2;
  reg valid1;                                     // a command is in the second step
  assign in_ready = !valid1 || !out_valid || out_ready;
  wire taken = in_valid && in_ready;
  wire followed = taken && in_error == `BACO_ERROR_NONE;

  wire [2:0] ld_set, ld_shrink;
  wire ex_set, ex_ws, st_set, gathered, new_os;
  wire [1:0] ex_transposes;
  wire [15:0] stride_a, stride_c;
`ifdef BACO_ROW_FUNCTIONS
  wire st_by_row;
`endif
  wire [4:0] _unused_configuration;
  baco_configuration #(.DIM(DIM)) configuration (
      .clock(clock), .reset(reset), .passes(followed), .funct(funct), .rs1(rs1), .rs2(rs2),
      .preloaded(_unused_configuration[0]), .ld_set(ld_set), .ld_plain(_unused_configuration[3:1]), .ld_shrink(ld_shrink),
      .ex_set(ex_set), .ex_ws(ex_ws), .ex_transposes(ex_transposes), .ex_stride_a(stride_a), .ex_stride_c(stride_c),
      .st_set(st_set), .gathered(gathered),
`ifdef BACO_ROW_FUNCTIONS
      .st_by_row(st_by_row),
`endif
      .st_plain(_unused_configuration[4]), .new_os(new_os));
  wire os = !ex_ws;
  wire transpose_a = ex_transposes[0];
  wire transpose_b = ex_transposes[1];
  reg [3*16-1:0] block_stride;
  reg [3*8-1:0] repeats;
  reg pooling;
  reg [15:0] tile_rows;
  reg keeps;                                      // the last PRELOAD names a result to be kept
  reg empty;                                      // the array holds neither weights nor sums of this dataflow

  wire raw = rs2[31] && rs2[29];
`ifdef BACO_ROW_FUNCTIONS
  reg [1:0] function_of_stores;
  reg [7:0] apart;                                // softmax: rows from one block of a row to the next
  reg [26:0] parameters;                          // rows of gains and offsets begin there
  reg multiplies;                                  // ... or of what source rows, from 0 on, are multiplied by
  localparam [31:0] TABLE_VALUE = DIM > 128 ? 1 : 128 / DIM;
  localparam [TW-1:0] TABLE_ROWS = {{(TW-8){1'b0}}, TABLE_VALUE[7:0]};
  wire by_row = st_by_row && !raw;
  wire normalises = by_row && function_of_stores[0];
  wire unfit = st_by_row && function_of_stores[0];  // for the scratchpad
`else
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
  wire [16:0] blocks_wide = blocks - 17'd1;
  wire [15:0] blocks_less_one = blocks_wide[15:0];
  wire _unused_blocks = &{1'b0, blocks_wide, function_of_stores};
`endif
  wire [FW-1:0] more_blocks = blocks[FW-1:0] - 1'b1;  // exact for columns that are not too many

  wire [1:0] state = funct == 7'd1 ? 2'd1 : funct == 7'd14 ? 2'd2 : 2'd0;
  wire [15:0] state_stride = state == 2'd2 ? block_stride[47:32] : state == 2'd1 ? block_stride[31:16] : block_stride[15:0];
  wire [7:0] state_repeats = state == 2'd2 ? repeats[23:16] : state == 2'd1 ? repeats[15:8] : repeats[7:0];
  wire wide = rs2[31] && !ld_shrink[state];       // accType in memory
  wire [17:0] row_bytes = wide ? {cols2, 2'b00} : `BYTES(cols2);
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
`ifdef BACO_BLOCK_WEIGHTS
  reg [2:0] blocked;                              // by load state: elements of blocks with a shared power
  reg [15:0] powers;                              // columns whose powers the last load of powers brought
  wire is_load = funct == 7'd1 || funct == 7'd2 || funct == 7'd14;
  wire brings_powers = blocked[state] && rs2[30];
`endif
  wire known = funct <= 7'd29 || funct == 7'd126;

  // configuration commands
  wire whole = !rs1[7];                           // CONFIG_EX of everything
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
  reg [TW-1:0] sum1;                              // row after the last: of the operand in rs1 (COMPUTE, PRELOAD), or of the
  reg [TW-1:0] sum2;                              // only one; and of the other, without the product where it counts
  reg [1:0] far_on;                               // which it counts for
  wire [TW-1:0] wide_row1 = {{(TW-27){1'b0}}, row1};
  wire [TW-1:0] wide_row2 = {{(TW-27){1'b0}}, row2};
  wire [TW-1:0] wide_rows2 = {{(TW-16){1'b0}}, rows2};
  localparam [TW-1:0] ONE = {{(TW-1){1'b0}}, 1'b1};
  reg [15:0] stored1;                             // rows of an operand as stored
  reg [15:0] stored2;
  reg too_big;
  reg [1:0] kind, valid, acc, write;
  reg [3:0] error;                                // what is wrong without a look at rows
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
    sum1 = {TW{1'b0}};
    sum2 = {TW{1'b0}};
    far_on = 2'b00;
    stored1 = rows1;
    stored2 = rows2;
    too_big = 1'b0;
    case (funct)
      7'd0:
        case (rs1[1:0])
          2'd0: begin
            kind = 2'd1;
`ifndef BACO_NORMALIZATIONS
            if (whole && rs1[4:3] > 2'd1) fault = `BACO_ERROR_NOT_BUILT;
            else
`endif
            if (whole && rs1[9] && rs1[8] != new_os) fault = `BACO_ERROR_TRANSPOSES;
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
`ifdef BACO_BLOCK_WEIGHTS
        else if (blocked[state] && (rs2[31] || repeated)) fault = `BACO_ERROR_BAD_FLAGS;
        else if (blocked[state] && !rs2[30] && cols2 > powers) fault = `BACO_ERROR_NOT_CONFIGURED;
`endif
        too_big = rows2 == 16'd0 || rows2 > 16'd255 || cols2 == 16'd0 || many_bytes
            || (large_cols2 && state_stride < rows2) || crowded;
`ifdef BACO_BLOCK_WEIGHTS
        if (brings_powers && rows2 != 16'd1) too_big = 1'b1;
`endif
        count = more_blocks;
        step[15:0] = state_stride;
        if (repeated) first1 = row2 > below ? wide_row2 - {{(TW-27){1'b0}}, below} : {TW{1'b0}};
        far_on[0] = 1'b1;
        sum1 = wide_row2 + wide_rows2;
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
        too_big = cols2 == 16'd0 || (`BYTES(cols2) > MOST_BYTES && !by_row) || ((raw || gathered) && large_cols2)
            || (!gathered && (rows2 == 16'd0 || rows2 > 16'd255 || (large_rows2 && (large_cols2 || by_row))));
        sum1 = wide_row2 + (gathered ? {{(TW-16){1'b0}}, tile_rows} : {{(TW-FW-LOG_DIM){1'b0}}, more_blocks, {LOG_DIM{1'b0}}} + wide_rows2);
`ifdef BACO_ROW_FUNCTIONS
        if (by_row) begin
          sum1 = wide_row2 + wide_rows2;
          far_on[0] = 1'b1;
          count = apart;
          step[15:0] = blocks_less_one;
        end
        if (normalises) begin
          valid = 2'b11;
          acc[1] = 1'b1;
          first2 = {{(TW-27){1'b0}}, parameters} + (multiplies ? wide_row2 : {TW{1'b0}});
          sum2 = {{(TW-27){1'b0}}, parameters} + (multiplies ? sum1 : {{(TW-17){1'b0}}, blocks});
          far_on[1] = multiplies;
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
        far_on[1] = 1'b1;
        sum1 = wide_row2 + further + wide_rows2;
        sum2 = wide_row1 + further + ONE;
`ifdef BACO_ROW_FUNCTIONS
        // of several blocks a row, what is written lies together: the product is of what is read
        if (by_row && large_cols2) begin
          far_on = 2'b01;
          count = apart;
          step = {SW{1'b0}};
          step[15:0] = blocks_less_one;
          sum1 = wide_row2 + wide_rows2;
          sum2 = wide_row1 + further + wide_rows2;
        end
`endif
      end
      7'd4, 7'd5: begin
        kind = 2'd1;
        if (funct == 7'd5 && empty) fault = `BACO_ERROR_NOTHING_TO_ADD_TO;
        else if ((real1 && rs1[31]) || (real2 && rs2[31])) fault = `BACO_ERROR_BAD_FLAGS;
        too_big = (real1 && large1) || (real2 && large2);
        stored1 = transpose_a ? cols1 : rows1;
        stored2 = os && transpose_b ? cols2 : rows2;
        valid = {real2 && !empty2, real1 && !empty1};
        count = stored1[FW-1:0] - 1'b1;
        step[15:0] = stride_a;
        first1 = wide_row1;
        first2 = wide_row2;
        far_on[0] = 1'b1;
        sum1 = wide_row1 + ONE;
        sum2 = wide_row2 + {{(TW-16){1'b0}}, stored2};
      end
      7'd6: begin
        kind = 2'd1;
        write = 2'b10;
        acc[1] = rs2[31];
        if (!ex_set) fault = `BACO_ERROR_NOT_CONFIGURED;
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
        far_on[1] = 1'b1;
        sum1 = wide_row1 + {{(TW-16){1'b0}}, stored1};
        sum2 = wide_row2 + ONE;
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
        sum1 = wide_row1 + TABLE_ROWS;
      end
`else
      7'd26, 7'd27: begin
        absent = 1'b1;
        fault = `BACO_ERROR_NOT_BUILT;
      end
`endif
      7'd28, 7'd29: begin
        kind = 2'd2;
`ifndef BACO_REQUANTIZATION
        absent = 1'b1;
        fault = `BACO_ERROR_NOT_BUILT;
`endif
      end
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
    error = in_error != `BACO_ERROR_NONE ? in_error
          : absent ? fault
          : in_xd ? `BACO_ERROR_NO_RESULT
          : fault != `BACO_ERROR_NONE ? fault
          : too_big ? `BACO_ERROR_BAD_SIZE : `BACO_ERROR_NONE;
  end

  // ---------------------------------------------------------------- second step: the product
  reg [6:0] funct1;
  reg [63:0] rs1_1, rs2_1;
  reg [3:0] tag1, error1;
  reg [1:0] kind1, uses1, acc1, write1, far_on1;
  reg [TW-1:0] first1_1, first2_1, sum1_1, sum2_1;
  reg [FW-1:0] count1;
  reg [SW-1:0] step1;
  reg far1, known1, os1, transposed1;             // known: what is wrong comes before any turn of PRELOAD and COMPUTE
  wire [FW+SW-1:0] product = {{SW{1'b0}}, count1} * {{FW{1'b0}}, step1};
  wire [TW-1:0] distance = {{(TW-FW-SW){1'b0}}, product};
  always @(posedge clock) begin
    if (in_ready) begin
      valid1 <= in_valid;
      funct1 <= funct;
      rs1_1 <= rs1;
      rs2_1 <= rs2;
      tag1 <= in_tag;
      error1 <= error;
      known1 <= in_error != `BACO_ERROR_NONE || absent || in_xd;
      kind1 <= kind;
      uses1 <= valid;
      acc1 <= acc;
      write1 <= write;
      far_on1 <= far_on;
      first1_1 <= first1;
      first2_1 <= first2;
      sum1_1 <= sum1;
      sum2_1 <= sum2;
      count1 <= count;
      step1 <= step;
      far1 <= far;
      os1 <= os;
      transposed1 <= transpose_a;
    end
    if (reset) valid1 <= 1'b0;
  end

  // ---------------------------------------------------------------- third step: the verdict; hazards go on beside it
  reg [3:0] error2;
  reg [TW-1:0] first1_2, first2_2, past1_2, past2_2;
  reg [15:0] stride2;
  reg far2, known2, os2, transposed2;
  wire go2 = !out_valid || out_ready;
  always @(posedge clock) begin
    if (go2) begin
      out_valid <= valid1;
      out_funct <= funct1;
      out_rs1 <= rs1_1;
      out_rs2 <= rs2_1;
      out_tag <= tag1;
      error2 <= error1;
      known2 <= known1;
      out_kind <= kind1;
      out_uses <= uses1;
      out_acc <= acc1;
      out_write <= write1;
      first1_2 <= first1_1;
      first2_2 <= first2_1;
      past1_2 <= sum1_1 + (far_on1[0] ? distance : {TW{1'b0}});
      past2_2 <= sum2_1 + (far_on1[1] ? distance : {TW{1'b0}});
      stride2 <= step1[15:0];
      far2 <= far1;
      os2 <= os1;
      transposed2 <= transposed1;
    end
    if (reset) out_valid <= 1'b0;
  end
  assign busy = valid1 || out_valid;
  wire computes = out_funct == 7'd4 || out_funct == 7'd5;
  wire preloads = out_funct == 7'd6;
  wire reconfigures = out_funct == 7'd0 && out_rs1[1:0] == 2'd0;
  wire out_of_turn = pending ? preloads || reconfigures : computes;
  wire beyond = (out_uses[0] && past1_2 > (out_acc[0] ? ACC_END : SP_END))
      || (out_uses[1] && (far2 || past2_2 > (out_acc[1] ? ACC_END : SP_END)));
  wire overlap = out_funct == 7'd23 && !out_acc[0] && first1_2 < past2_2 && first2_2 < past1_2;
  assign out_error = known2 ? error2
      : out_of_turn ? `BACO_ERROR_OUT_OF_TURN
      : error2 != `BACO_ERROR_NONE ? error2
      : beyond ? `BACO_ERROR_LOCAL_ADDRESS
      : overlap ? `BACO_ERROR_ROWS_IN_USE : `BACO_ERROR_NONE;
  assign start = {first2_2[26:0], first1_2[26:0]};
  assign past = {past2_2[26:0], past1_2[26:0]};

  always @(posedge clock)
    if (reset) pending <= 1'b0;
    else if (accepted) pending <= preloads || (pending && !computes);

`ifdef BACO_WRITE_SCRATCHPAD
  // Output-stationary, results leave when all operands are in the array; weight-stationary, they leave while later rows
  // of A and of the bias are still read, unless A comes through the transposer.
  reg result_local;                               // the pending PRELOAD names a result in the scratchpad
  reg [26:0] result_first;                        // ... in these rows
  reg [26:0] result_past;
  reg [15:0] result_stride;
  reg [7:0] result_rows;
  always @(posedge clock)
    if (accepted && preloads) begin
      result_local <= out_uses[1] && !out_acc[1];
      result_first <= first2_2[26:0];
      result_past <= past2_2[26:0];
      result_stride <= stride2;
      result_rows <= out_rs2[55:48];
    end
  wire streams = out_valid && !os2 && computes && pending && result_local && out_error == `BACO_ERROR_NONE;
  wire leaves = out_valid && out_ready;
  wire settled_a, settled_d, overwritten_a, overwritten_d;
  baco_in_place u_in_place_a (
      .clock(clock), .reset(reset), .asked(streams && out_uses[0] && !transposed2), .taken(leaves),
      .result_first(result_first), .result_past(result_past), .result_stride(result_stride), .result_rows(result_rows),
      .first(first1_2[26:0]), .past(past1_2[26:0]), .stride(stride2), .rows(out_rs1[55:48]),
      .settled(settled_a), .overwritten(overwritten_a));
  baco_in_place u_in_place_d (
      .clock(clock), .reset(reset), .asked(streams && out_uses[1]), .taken(leaves),
      .result_first(result_first), .result_past(result_past), .result_stride(result_stride), .result_rows(result_rows),
      .first(first2_2[26:0]), .past(past2_2[26:0]), .stride(16'd1), .rows(out_rs2[55:48]),
      .settled(settled_d), .overwritten(overwritten_d));
  assign settled = settled_a && settled_d;
  assign overwritten = overwritten_a || overwritten_d;
`else
  assign settled = 1'b1;
  assign overwritten = 1'b0;
  wire _unused_in_place = &{1'b0, stride2, os2, transposed2};
`endif

  wire configure = followed && funct == 7'd0;
  always @(posedge clock) begin
    if (configure && rs1[1:0] == 2'd0 && whole && new_os != os) empty <= 1'b1;
    if (configure && rs1[1:0] == 2'd1 && rs1[4:3] != 2'd3) begin
      block_stride[rs1[4:3]*16 +: 16] <= rs1[31:16];
`ifdef BACO_FIRST_LAYER
      repeats[rs1[4:3]*8 +: 8] <= rs1[15:8];
`endif
    end
`ifdef BACO_BLOCK_WEIGHTS
    if (configure && rs1[1:0] == 2'd1 && rs1[4:3] != 2'd3) blocked[rs1[4:3]] <= rs1[7:6] != 2'd0;
    if (followed && is_load && brings_powers) powers <= cols2;
    if (reset) begin
      blocked <= 3'd0;
      powers <= 16'd0;
    end
`endif
    if (configure && rs1[1:0] == 2'd2) begin
      pooling <= new_pooling;
      if (new_gathered) tile_rows <= {8'd0, rs1[55:48]} * {8'd0, rs1[63:56]};
    end
`ifdef BACO_NORMALIZATIONS
    if (configure && rs1[1:0] == 2'd2) activation <= {1'b0, rs1[3:2]};
    if (configure && rs1[1:0] == 2'd3 && !rs1[17]) activation[2] <= rs1[16];
    if (reset) activation <= 3'd0;
`endif
`ifdef BACO_ROW_FUNCTIONS
    if (followed && funct == 7'd26) begin
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
    if (followed && funct == 7'd6) keeps <= valid[1];
    if (followed && (funct == 7'd4 || funct == 7'd5)) empty <= os && keeps;
    if (reset) begin
      block_stride <= 48'd0;
      repeats <= 24'd0;
      pooling <= 1'b0;
      tile_rows <= 16'd0;
      keeps <= 1'b0;
      empty <= 1'b1;
    end
  end

  wire _unused = &{1'b0, rs1, rs2, repeats, state_repeats, below, blocks, first1_2[TW-1:27], first2_2[TW-1:27],
                   stored1, stored2, _unused_configuration};
endmodule
