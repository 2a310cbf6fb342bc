// The PRELOAD and COMPUTE commands of a LOOP_WS, block by block:
//   for each GROUP columns of C: for k: for each column j of them: for i: PRELOAD, COMPUTE
// i is innermost so that a block of weights, once in the array, serves all rows. Taking the columns in groups
// (Gemmini takes all of them) finishes the first results after 1/groups of the time, so that their stores overlap
// the rest of the products; a group is as wide as one load of B and one store of C, so neither gets narrower.
// Sizes and bases are read while running and must not change before `active` falls.
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
    input wire [ROW_BITS-1:0] a_base,      // local rows of the first blocks; `start` reads the next loop's
    input wire [ROW_BITS-1:0] b_base,
    input wire [ROW_BITS-1:0] c_base,
    output reg active,                     // the outputs below name a command
    output wire last,                      // it is the last one
    output reg [15:0] i,                   // its block
    output reg [15:0] j,
    output reg [15:0] k,
    output reg [15:0] first_j,             // first column of its group
    output wire last_k,                    // k is the last one, results are complete after this
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
  // Local rows of the present blocks, and of where the loops around them began or begin next.
  reg [ROW_BITS-1:0] a;
  reg [ROW_BITS-1:0] a_k;                  // i = 0
  reg [ROW_BITS-1:0] b;
  reg [ROW_BITS-1:0] b_k;                  // j = first_j
  reg [ROW_BITS-1:0] b_group;              // k = 0, first column of the next group
  reg [ROW_BITS-1:0] c;
  reg [ROW_BITS-1:0] c_j;                  // i = 0
  reg [ROW_BITS-1:0] c_group;              // i = 0, j = first_j

  wire last_i = i == max_i - 16'd1;
  wire last_j = j == max_j - 16'd1;
  wire group_end = last_j || j - first_j == GROUP_WORD[15:0] - 16'd1;
  assign last_k = k == max_k - 16'd1;
  assign last = compute && last_i && last_j && last_k;

  // Distances in local rows, modulo their number.
  wire [ROW_BITS+15:0] i_wide = {{ROW_BITS{1'b0}}, max_i} << LOG_DIM;
  wire [ROW_BITS+15:0] j_wide = {{ROW_BITS{1'b0}}, max_j} << LOG_DIM;
  wire [ROW_BITS+15:0] k_wide = {{ROW_BITS{1'b0}}, max_k} << LOG_DIM;
  wire _unused = &{1'b0, i_wide[ROW_BITS+15:ROW_BITS], j_wide[ROW_BITS+15:ROW_BITS],
                   k_wide[ROW_BITS+15:ROW_BITS]};
  wire [ROW_BITS-1:0] one_block = {{ROW_BITS-1{1'b0}}, 1'b1} << LOG_DIM;
  wire [ROW_BITS-1:0] a_next_i = a + (a_transpose ? one_block : k_wide[ROW_BITS-1:0]);
  wire [ROW_BITS-1:0] a_next_k = a_k + (a_transpose ? i_wide[ROW_BITS-1:0] : one_block);
  wire [ROW_BITS-1:0] b_next_j = b + (b_transpose ? k_wide[ROW_BITS-1:0] : one_block);
  wire [ROW_BITS-1:0] b_next_k = b_k + (b_transpose ? one_block : j_wide[ROW_BITS-1:0]);
  wire [ROW_BITS-1:0] b_next_group = k == 16'd0 ? b_next_j : b_group;
  wire [ROW_BITS-1:0] c_next_i = c + j_wide[ROW_BITS-1:0];
  wire [ROW_BITS-1:0] c_next_j = c_j + one_block;

  wire [15:0] size_i = DIM_WORD[15:0] - (last_i ? {{16-LOG_DIM{1'b0}}, pad_i} : 16'd0);
  wire [15:0] size_j = DIM_WORD[15:0] - (last_j ? {{16-LOG_DIM{1'b0}}, pad_j} : 16'd0);
  wire [15:0] size_k = DIM_WORD[15:0] - (last_k ? {{16-LOG_DIM{1'b0}}, pad_k} : 16'd0);
  wire new_weights = i == 16'd0;
  wire [31:0] a_word = {{32-ROW_BITS{1'b0}}, a};
  wire [31:0] b_word = new_weights ? {{32-ROW_BITS{1'b0}}, b} : GARBAGE;
  wire [31:0] c_word = {1'b1, accumulate || k != 16'd0, {30-ROW_BITS{1'b0}}, c};

  assign funct = !compute ? PRELOAD : new_weights ? COMPUTE_PRELOADED : COMPUTE_ACCUMULATED;
  assign rs1 = compute ? {size_i, size_k, a_word} : {size_k, size_j, b_word};
  assign rs2 = compute ? {DIM_WORD[15:0], DIM_WORD[15:0], GARBAGE} : {size_i, size_j, c_word};

  always @(posedge clock) begin
    if (reset) active <= 1'b0;
    else if (start) active <= 1'b1;
    else if (next && last) active <= 1'b0;

    if (start) begin
      compute <= 1'b0;
      i <= 16'd0;
      j <= 16'd0;
      k <= 16'd0;
      first_j <= 16'd0;
      a <= a_base;
      a_k <= a_base;
      b <= b_base;
      b_k <= b_base;
      c <= c_base;
      c_j <= c_base;
      c_group <= c_base;
    end else if (next) begin
      compute <= !compute;
      if (compute) begin
        i <= last_i ? 16'd0 : i + 16'd1;
        a <= a_next_i;
        c <= c_next_i;
        if (last_i) begin
          if (group_end && k == 16'd0) b_group <= b_next_j;
          if (!group_end) begin
            j <= j + 16'd1;
            a <= a_k;
            b <= b_next_j;
            c <= c_next_j;
            c_j <= c_next_j;
          end else if (!last_k) begin
            j <= first_j;
            k <= k + 16'd1;
            a <= a_next_k;
            a_k <= a_next_k;
            b <= b_next_k;
            b_k <= b_next_k;
            c <= c_group;
            c_j <= c_group;
          end else begin
            j <= j + 16'd1;
            first_j <= j + 16'd1;
            k <= 16'd0;
            a <= a_base;
            a_k <= a_base;
            b <= b_next_group;
            b_k <= b_next_group;
            c <= c_next_j;
            c_j <= c_next_j;
            c_group <= c_next_j;
          end
        end
      end
    end
  end
endmodule
