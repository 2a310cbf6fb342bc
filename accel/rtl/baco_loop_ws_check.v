// Whether a LOOP_WS, or a command of its configuration, is legal: the rules of accel/legality, in their order.
//
// Sizes are multiplied as soon as the bounds are known, by one multiplier in three cycles. A run that comes sooner waits, and
// each for its verdict, which is known a cycle after it is offered with its sizes. Rows and places of the slot are looked up a
// cycle before: it stays the same from its configuration on.
module baco_loop_ws_check #(
    parameter DIM = 16,
    parameter SP_ROWS = 16384,
    parameter ACC_ROWS = 1024,
    parameter ROW_BITS = 15        // a row index and one bit more
) (
    input wire clock,
    input wire reset,
    input wire [6:0] funct,        // the command
    input wire [63:0] rs1,
    input wire [63:0] rs2,
    input wire offered,            // there is one
    input wire leaves,             // ... until this cycle
    input wire take,               // it is legal, and taken in this cycle
    output reg [3:0] error,        // what it is refused for
    output wire settled,           // ... which is certain
    // the loop that is being configured
    input wire slot,
    input wire [15:0] max_i,
    input wire [15:0] max_j,
    input wire [15:0] max_k,
    input wire a_null,
    input wire b_null,
    input wire c_null,
    input wire d_null,
    input wire [ROW_BITS-1:0] a_own,      // where A starts and B ends unless the loop names a half
    input wire [ROW_BITS-1:0] b_own,
    output wire a_write,           // rows of A, of B are known
    output wire b_write,
    output wire [ROW_BITS-1:0] rows,
    input wire [ROW_BITS-1:0] a_rows,
    input wire [ROW_BITS-1:0] b_rows,
    // configuration by others, see baco_configuration
    input wire preloaded,
    input wire [2:0] ld_set,
    input wire [2:0] ld_plain,
    input wire [2:0] ld_shrink,
    input wire ex_set,
    input wire ex_ws,
    input wire [15:0] ex_stride_a,
    input wire [15:0] ex_stride_c,
    input wire st_set,
    input wire st_plain
);
  localparam LOG_DIM = $clog2(DIM);
  localparam BLOCK_BITS = ROW_BITS - LOG_DIM;
  localparam M = BLOCK_BITS < 16 ? BLOCK_BITS : 16;   // bits of a factor: a larger one makes too many rows
  localparam [31:0] SP_VALUE = SP_ROWS;
  localparam [31:0] SP_HALF_VALUE = SP_ROWS / 2;
  localparam [31:0] ACC_HALF_VALUE = ACC_ROWS / 2;
  localparam [ROW_BITS-1:0] SP_END = SP_VALUE[ROW_BITS-1:0];
  localparam [ROW_BITS-1:0] SP_HALF = SP_HALF_VALUE[ROW_BITS-1:0];
  localparam [ROW_BITS-1:0] ACC_HALF = ACC_HALF_VALUE[ROW_BITS-1:0];

  localparam [6:0] LOOP_WS = 7'd8;
  localparam [6:0] BOUNDS = 7'd9;
  localparam [6:0] STRIDES_DC = 7'd13;
  localparam [6:0] SPAD_AB = 7'd24;

  // ---- the configuration since the last run
  reg [4:0] given;                 // a bit each, from BOUNDS on
  reg [1:0] placed;                // by slot: there was a SPAD_AB
  wire [2:0] which = funct[2:0] - 3'd1;

  // ---- rows: I*K, K*J, I*J blocks
  reg [1:0] step;                  // 3: all are known
  reg a_over;                      // more than a number of rows can tell
  reg b_over;
  reg c_over;
  reg [ROW_BITS-1:0] c_rows;
  wire [15:0] left = step == 2'd1 ? max_j : max_i;
  wire [15:0] right = step == 2'd2 ? max_j : max_k;
  wire [2*M-1:0] blocks = {{M{1'b0}}, left[M-1:0]} * {{M{1'b0}}, right[M-1:0]};
  wire over = left >> M != 16'd0 || right >> M != 16'd0 || blocks >> BLOCK_BITS != {2*M{1'b0}};
  assign rows = {blocks[BLOCK_BITS-1:0], {LOG_DIM{1'b0}}};
  assign a_write = step == 2'd0 && given[0];
  assign b_write = step == 2'd1;
  reg judged;                      // the run that is offered
  reg moved;                       // places have changed in the cycle before
  reg [ROW_BITS-1:0] a_place, b_place, a_size, b_size;  // a_own, b_own, a_rows, b_rows
  reg [3:0] verdict;
  assign settled = funct != LOOP_WS || judged;

  // ---- what the run uses
  wire resadd = rs2[2];
  wire spad_only = rs2[9];
  wire full_c = rs1[1];
  wire loads_a = !a_null && !rs2[3];
  wire loads_b = !b_null && !rs2[4];
  wire loads_d = !d_null && !rs2[5];
  wire computes = !rs2[6] && !resadd;
  wire stores = (!c_null || spad_only) && !rs2[7];
  wire uses_a = !resadd && (loads_a || computes);
  wire uses_b = !resadd && (loads_b || computes);
  wire [1:0] a_id = rs1[19:18];
  wire [1:0] b_id = rs1[17:16];
`ifdef BACO_READ_FULL
  wire full_built = 1'b1;
`else
  wire full_built = 1'b0;
`endif
`ifdef BACO_READ_SMALL
  wire small_built = 1'b1;
`else
  wire small_built = 1'b0;
`endif

  // ---- where A and B lie: products of spad_only take them from the slot's own half or places, whatever the ids say
  wire a_named = a_id != 2'd0 && (loads_a || !spad_only);
  wire b_named = b_id != 2'd0 && (loads_b || !spad_only);
  wire [ROW_BITS-1:0] a_first = !a_named ? a_place : a_id[1] ? SP_HALF : {ROW_BITS{1'b0}};
  wire [ROW_BITS-1:0] b_past = !b_named ? b_place : b_id[1] ? SP_HALF + SP_HALF : SP_HALF;
  wire [ROW_BITS-1:0] a_room = placed[slot] && !a_named ? SP_END - a_place : SP_HALF;
  wire [ROW_BITS-1:0] b_room = placed[slot] && !b_named ? b_place : SP_HALF;
  wire [ROW_BITS:0] a_past = {1'b0, a_first} + {1'b0, a_size};
  wire [ROW_BITS-1:0] b_first = b_past - b_size;
  wire overlap = a_first < b_past && {1'b0, b_first} < a_past;
  wire [ROW_BITS:0] both_rows = {1'b0, a_size} + {1'b0, b_size};
  wire crowded = spad_only && computes && !placed[slot] && both_rows > {1'b0, SP_HALF};
  wire [ROW_BITS:0] c_past = {1'b0, rs2[32 +: ROW_BITS]} + {1'b0, c_rows};

  wire normalises = rs1[10:8] == 3'd2 || rs1[10:8] == 3'd4;
`ifdef BACO_NORMALIZATIONS
  wire wrong_act = normalises && (full_c || spad_only);
  wire act_not_built = 1'b0;
`else
  wire wrong_act = 1'b0;
  wire act_not_built = normalises;
`endif
  wire wrong_flags = a_id == 2'd3 || b_id == 2'd3 || (resadd && (loads_d || rs2[0] || rs2[1]))
      || (spad_only && (full_c || (placed[slot] && ((loads_a && a_id != 2'd0) || (loads_b && b_id != 2'd0)))))
      || wrong_act;
  wire not_built = act_not_built || (stores && !(full_c ? full_built : small_built));
  wire wrong_size = max_i == 16'd0 || max_j == 16'd0 || ((uses_a || uses_b) && max_k == 16'd0)
      || (uses_a && (a_over || a_size > a_room)) || (uses_b && (b_over || b_size > b_room))
      || (uses_a && uses_b && overlap) || crowded || c_over || c_rows > ACC_HALF;
  wire wrong_place = stores && spad_only && (rs2[63:32] >> ROW_BITS != 32'd0 || c_past > {1'b0, SP_END});
  wire not_configured = (loads_a && !ld_set[0]) || (loads_b && !ld_set[1]) || (loads_d && !ld_set[2])
      || (computes && !ex_set) || (stores && !st_set);
  wire unsuitable = (loads_a && !(ld_plain[0] && (ld_shrink[0] || !resadd)))
      || (loads_b && !(ld_plain[1] && (ld_shrink[1] || !resadd)))
      || (loads_d && !(ld_plain[2] && ld_shrink[2] == rs1[2]))
      || (computes && !(ex_ws && ex_stride_a == 16'd1 && ex_stride_c == 16'd1)) || (stores && !st_plain);

  wire large_pads = rs1[15:0] >> LOG_DIM != 16'd0 || rs1[31:16] >> LOG_DIM != 16'd0 || rs1[47:32] >> LOG_DIM != 16'd0;
  always @(posedge clock) begin
    {a_place, b_place, a_size, b_size} <= {a_own, b_own, a_rows, b_rows};
    moved <= take && funct == SPAD_AB;
    judged <= offered && !leaves && funct == LOOP_WS && (!given[0] || step == 2'd3) && !moved && !reset;
    verdict <= preloaded ? `BACO_ERROR_OUT_OF_TURN
             : given != 5'h1f ? `BACO_ERROR_INCOMPLETE
             : wrong_flags ? `BACO_ERROR_BAD_FLAGS
             : not_built ? `BACO_ERROR_NOT_BUILT
             : wrong_size ? `BACO_ERROR_BAD_SIZE
             : wrong_place ? `BACO_ERROR_LOCAL_ADDRESS
             : not_configured ? `BACO_ERROR_NOT_CONFIGURED
             : unsuitable ? `BACO_ERROR_UNSUITABLE : `BACO_ERROR_NONE;
  end
  always @* begin
    error = `BACO_ERROR_NONE;
    case (funct)
      LOOP_WS: error = verdict;
      BOUNDS: if (large_pads) error = `BACO_ERROR_BAD_SIZE;
      SPAD_AB: if (rs1[31:0] > SP_VALUE || rs2[31:0] > SP_VALUE) error = `BACO_ERROR_LOCAL_ADDRESS;
      default: error = `BACO_ERROR_NONE;
    endcase
  end

  always @(posedge clock) begin
    if (step != 2'd3 && given[0]) begin
      step <= step + 2'd1;
      if (step == 2'd0) a_over <= over;
      if (step == 2'd1) b_over <= over;
      if (step == 2'd2) begin
        c_over <= over;
        c_rows <= rows;
      end
    end
    if (take) begin
      if (funct >= BOUNDS && funct <= STRIDES_DC) given[which] <= 1'b1;
      if (funct == BOUNDS) step <= 2'd0;
      if (funct == SPAD_AB) placed[slot] <= 1'b1;
      if (funct == LOOP_WS) given <= 5'd0;
    end
    if (reset) begin
      given <= 5'd0;
      placed <= 2'd0;
      step <= 2'd0;
    end
  end

  wire _unused = &{1'b0, rs1, rs2};
endmodule
