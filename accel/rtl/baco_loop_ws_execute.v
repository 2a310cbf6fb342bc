// The PRELOAD and COMPUTE commands of a LOOP_WS, block by block:
//   for each GROUP columns of C: for k: for each column j of them: for i: PRELOAD, COMPUTE
// i is innermost so that a block of weights, once in the array, serves all rows. Taking the columns in groups
// (Gemmini takes all of them) finishes the first results after 1/groups of the time, so that their stores overlap
// the rest of the products; a group is as wide as one load of B and one store of C, so neither gets narrower.
// Sizes are read while running and must not change before `active` falls.
//
// The outputs are registers, or a choice between two: the block behind the one that they name is worked out beside it.
module baco_loop_ws_execute #(
    parameter DIM = 16,
    parameter ROW_BITS = 15,   // width of a local row index
    parameter GROUP = 4        // block columns in a group
) (
    input wire clock,
    input wire reset,
    input wire start,                      // begin; no bound may be 0
    input wire next,                       // the present command has gone out
    input wire [15:0] max_i,               // block rows of A and C
    input wire [15:0] max_j,               // block columns of B and C
    input wire [15:0] max_k,               // block columns of A, block rows of B
    input wire [$clog2(DIM)-1:0] pad_i,        // elements that the last blocks lack
    input wire [$clog2(DIM)-1:0] pad_j,
    input wire [$clog2(DIM)-1:0] pad_k,
    input wire a_transpose,                // the scratchpad holds the blocks of A as K x I
    input wire b_transpose,                // ... those of B as J x K
    input wire accumulate,                 // k = 0 also adds to the accumulator
    input wire [ROW_BITS-1:0] a_base,      // local rows of the first blocks, read with `start`
    input wire [ROW_BITS-1:0] b_base,
    input wire [ROW_BITS-1:0] c_base,
    output wire active,                    // from the start until the last command has gone out
    output reg valid,                      // the outputs below name a command
    output wire last,                      // it is the last one
    output reg [15:0] i,                   // its block
    output reg [15:0] j,
    output reg [15:0] k,
    output reg [15:0] first_j,             // first column of its group
    output reg last_k,                     // k is the last one, results are complete after this
    output wire [6:0] funct,
    output wire [63:0] rs1,
    output wire [63:0] rs2
);
  localparam LOG_DIM = $clog2(DIM);
  localparam [31:0] DIM_WORD = DIM;
  localparam [31:0] GROUP_WORD = GROUP;
  localparam [6:0] COMPUTE_PRELOADED = 7'd4;
  localparam [6:0] COMPUTE_ACCUMULATED = 7'd5;
  localparam [6:0] PRELOAD = 7'd6;
  localparam [31:0] GARBAGE = 32'hffffffff;

  reg compute;                             // the COMPUTE of the block, otherwise its PRELOAD
  reg last_block;
  reg [15:0] size_i, size_j, size_k;
  reg [ROW_BITS-1:0] a, b, c;
  reg adds;                                // to what the accumulator holds
  wire new_weights = i == 16'd0;

  // The block behind it: its local rows, and of where the loops around it began or begin next.
  reg walking;
  reg [15:0] i_at, j_at, k_at, first_j_at;
  reg [ROW_BITS-1:0] a_first;
  reg [ROW_BITS-1:0] a_at;
  reg [ROW_BITS-1:0] a_k;                  // i = 0
  reg [ROW_BITS-1:0] b_at;
  reg [ROW_BITS-1:0] b_k;                  // j = first_j
  reg [ROW_BITS-1:0] b_group;              // k = 0, first column of the next group
  reg [ROW_BITS-1:0] c_at;
  reg [ROW_BITS-1:0] c_j;                  // i = 0
  reg [ROW_BITS-1:0] c_group;              // i = 0, j = first_j
  wire advance = walking && (!valid || (next && compute));
  assign active = walking || valid;

  wire last_i_at = i_at == max_i - 16'd1;
  wire last_j_at = j_at == max_j - 16'd1;
  wire last_k_at = k_at == max_k - 16'd1;
  wire group_end = last_j_at || j_at - first_j_at == GROUP_WORD[15:0] - 16'd1;
  wire first_k = k_at == 16'd0;

  // Distances in local rows, modulo their number.
  wire [ROW_BITS+15:0] i_wide = {{ROW_BITS{1'b0}}, max_i} << LOG_DIM;
  wire [ROW_BITS+15:0] j_wide = {{ROW_BITS{1'b0}}, max_j} << LOG_DIM;
  wire [ROW_BITS+15:0] k_wide = {{ROW_BITS{1'b0}}, max_k} << LOG_DIM;
  wire _unused = &{1'b0, i_wide[ROW_BITS+15:ROW_BITS], j_wide[ROW_BITS+15:ROW_BITS],
                   k_wide[ROW_BITS+15:ROW_BITS]};
  wire [ROW_BITS-1:0] one_block = {{ROW_BITS-1{1'b0}}, 1'b1} << LOG_DIM;
  wire [ROW_BITS-1:0] a_next_i = a_at + (a_transpose ? one_block : k_wide[ROW_BITS-1:0]);
  wire [ROW_BITS-1:0] a_next_k = a_k + (a_transpose ? i_wide[ROW_BITS-1:0] : one_block);
  wire [ROW_BITS-1:0] b_next_j = b_at + (b_transpose ? k_wide[ROW_BITS-1:0] : one_block);
  wire [ROW_BITS-1:0] b_next_k = b_k + (b_transpose ? one_block : j_wide[ROW_BITS-1:0]);
  wire [ROW_BITS-1:0] b_next_group = first_k ? b_next_j : b_group;
  wire [ROW_BITS-1:0] c_next_i = c_at + j_wide[ROW_BITS-1:0];
  wire [ROW_BITS-1:0] c_next_j = c_j + one_block;

  wire [31:0] a_word = {{32-ROW_BITS{1'b0}}, a};
  wire [31:0] b_word = new_weights ? {{32-ROW_BITS{1'b0}}, b} : GARBAGE;
  wire [31:0] c_word = {1'b1, adds, {30-ROW_BITS{1'b0}}, c};
  assign last = compute && last_block;
  assign funct = !compute ? PRELOAD : new_weights ? COMPUTE_PRELOADED : COMPUTE_ACCUMULATED;
  assign rs1 = compute ? {size_i, size_k, a_word} : {size_k, size_j, b_word};
  assign rs2 = compute ? {DIM_WORD[15:0], DIM_WORD[15:0], GARBAGE} : {size_i, size_j, c_word};

  always @(posedge clock) begin
    if (start) walking <= 1'b1;
    else if (advance && last_i_at && last_j_at && last_k_at) walking <= 1'b0;
    if (advance) valid <= 1'b1;
    else if (next && compute) valid <= 1'b0;
    if (start) compute <= 1'b0;
    else if (next) compute <= !compute;
    if (reset) begin
      walking <= 1'b0;
      valid <= 1'b0;
    end

    if (advance) begin
      last_block <= last_i_at && last_j_at && last_k_at;
      last_k <= last_k_at;
      {i, j, k, first_j} <= {i_at, j_at, k_at, first_j_at};
      {a, b, c} <= {a_at, b_at, c_at};
      adds <= accumulate || !first_k;
      size_i <= DIM_WORD[15:0] - (last_i_at ? {{16-LOG_DIM{1'b0}}, pad_i} : 16'd0);
      size_j <= DIM_WORD[15:0] - (last_j_at ? {{16-LOG_DIM{1'b0}}, pad_j} : 16'd0);
      size_k <= DIM_WORD[15:0] - (last_k_at ? {{16-LOG_DIM{1'b0}}, pad_k} : 16'd0);
    end

    if (start) begin
      {i_at, j_at, k_at, first_j_at} <= 64'd0;
      a_first <= a_base;
      a_at <= a_base;
      a_k <= a_base;
      b_at <= b_base;
      b_k <= b_base;
      c_at <= c_base;
      c_j <= c_base;
      c_group <= c_base;
    end else if (advance) begin
      i_at <= last_i_at ? 16'd0 : i_at + 16'd1;
      a_at <= a_next_i;
      c_at <= c_next_i;
      if (last_i_at) begin
        if (group_end && first_k) b_group <= b_next_j;
        if (!group_end) begin
          j_at <= j_at + 16'd1;
          a_at <= a_k;
          b_at <= b_next_j;
          c_at <= c_next_j;
          c_j <= c_next_j;
        end else if (!last_k_at) begin
          j_at <= first_j_at;
          k_at <= k_at + 16'd1;
          a_at <= a_next_k;
          a_k <= a_next_k;
          b_at <= b_next_k;
          b_k <= b_next_k;
          c_at <= c_group;
          c_j <= c_group;
        end else begin
          j_at <= j_at + 16'd1;
          first_j_at <= j_at + 16'd1;
          k_at <= 16'd0;
          a_at <= a_first;
          a_k <= a_first;
          b_at <= b_next_group;
          b_k <= b_next_group;
          c_at <= c_next_j;
          c_j <= c_next_j;
          c_group <= c_next_j;
        end
      end
    end
  end
endmodule
