// Whether a LOOP_CONV_WS is legal: the rules of accel/legality, in their order.
//
// A loop is begun before all of its sizes are known (baco_loop_conv_setup computes them one by one) and before the loop
// ahead of it has issued all its commands; so until the verdict is there what comes out of it is on trial. The verdict is
// complete when all phases have begun the loop and the arithmetic is done.
module baco_loop_conv_check #(
    parameter DIM = 16,
    parameter SP_ROWS = 16384,
    parameter ACC_ROWS = 1024,
    parameter ROW_BITS = 20,
    parameter MOST_LOG = 14,              // no legal number of local rows has more bits
    parameter PRODUCT_BITS = 32
) (
    input wire clock,
    input wire reset,
    input wire write,                     // a configuration command is accepted
    input wire run,                       // the run command is accepted
    input wire [6:0] funct,               // its function code (15..21)
    input wire [63:0] rs1,
    input wire [63:0] rs2,
    output reg [3:0] error,
    // what the setup holds and computes: `product` is that of the step before
    input wire [4:0] step,
    input wire [PRODUCT_BITS-1:0] product,
    input wire [15:0] batches,
    input wire [15:0] ochs,
    input wire [15:0] ichs,
    input wire [15:0] krows,
    input wire [15:0] kcols,
    input wire [15:0] orows,
    input wire [15:0] ocols,
    input wire [7:0] stride,
    input wire [9:0] kernel_dilation,
    input wire output_null,
    input wire wrot180,
    input wire trans_weight_1203,
    input wire trans_weight_0132,
    input wire trans_input_3120,
    input wire dw,
    input wire no_pool,
    input wire downsample,
    input wire dilated,
    input wire [1:0] activation,
    input wire [1:0] a_spad_id,
    input wire [1:0] b_spad_id,
    input wire same_half,                 // input and weights lie in one half of the scratchpad
    input wire [7:0] pixels_per_row,
    input wire overlong,                      // the windows span more than 65,535 rows or columns
    input wire negative,                  // the padding is more than they span
    input wire odd,                       // rows or a part of the columns are odd
    input wire [ROW_BITS-1:0] weights_rows,
    input wire [ROW_BITS-1:0] kernel_block,
    input wire [ROW_BITS-1:0] image_in,
    input wire [ROW_BITS-1:0] block_in,
    input wire [ROW_BITS-1:0] image_out,
    input wire [ROW_BITS-1:0] block_out,
    // configuration by others, see baco_configuration
    input wire preloaded,
    input wire begin_execute,             // the loop ahead has issued what changes the configuration of products
    input wire begin_store,               // ... of stores
    input wire ex_set,
    input wire ex_ws,
    input wire [1:0] ex_transposes,
    input wire [15:0] ex_stride_a,
    input wire [15:0] ex_stride_c,
    input wire st_set,
`ifdef BACO_ROW_FUNCTIONS
    input wire st_by_row,
`endif
    input wire st_plain
);
  localparam [31:0] DIM_VALUE = DIM;
  localparam [31:0] SP_HALF_VALUE = SP_ROWS / 2;
  localparam [31:0] ACC_HALF_VALUE = ACC_ROWS / 2;
  localparam [ROW_BITS-1:0] SP_HALF = SP_HALF_VALUE[ROW_BITS-1:0];
  localparam [PRODUCT_BITS-1:0] SP_MOST = {{(PRODUCT_BITS-ROW_BITS){1'b0}}, SP_HALF};
  localparam [PRODUCT_BITS-1:0] ACC_MOST = {{(PRODUCT_BITS-ROW_BITS){1'b0}}, ACC_HALF_VALUE[ROW_BITS-1:0]};
  localparam [PRODUCT_BITS-1:0] MOST_SPAN = {{(PRODUCT_BITS-16){1'b0}}, 16'hffff};

  // ---- configuration commands: which came since the last run, and fields that no one else keeps whole
  reg [5:0] given;
  reg no_turn;                            // at the run a PRELOAD was without its COMPUTE
  reg incomplete;
  reg [2:0] pool_flags;                   // window or padding out of bounds, from CONFIG_2, _3, _4
  reg pool_size;                          // pooled image out of bounds
  always @(posedge clock) begin
    if (write && !run) begin
      given[funct[2:0]] <= 1'b1;          // 16 is 0
      case (funct)
        7'd17: begin
          pool_flags[0] <= rs1[31:16] == 16'd0 || rs1[31:16] > 16'd3 || rs1[15:8] == 8'd0 || rs1[15:8] > 8'd3;
          pool_size <= rs2[47:32] == 16'd0 || rs2[47:40] != 8'd0 || rs2[31:16] == 16'd0 || rs2[31:24] != 8'd0
              || rs1[47:40] != 8'd0;
        end
        7'd18: pool_flags[1] <= rs2[23:16] > 8'd3;
        7'd19: pool_flags[2] <= rs1[31:21] > 11'd3;
        default: ;
      endcase
    end
    if (run) begin
      given <= 6'd0;
      no_turn <= preloaded;
      incomplete <= given != 6'h3f;
    end
    if (reset) given <= 6'd0;
  end

  // ---- sizes, as the setup's arithmetic goes on
  wire huge = product >> MOST_LOG != {PRODUCT_BITS{1'b0}};
  reg too_large;                          // a factor of the next product is beyond all memory already, or a result is
  reg input_large;
  wire output_large = product > ACC_MOST; // after the last step
  always @(posedge clock)
    if (run) too_large <= 1'b0;
    else
      case (step)
        5'd1, 5'd2, 5'd7, 5'd8, 5'd16, 5'd17: if (huge) too_large <= 1'b1;
        5'd3: if (product > SP_MOST) too_large <= 1'b1;
        5'd9, 5'd10: if (product > MOST_SPAN) too_large <= 1'b1;
        5'd11, 5'd12: if (kernel_dilation != 10'd0 && product > MOST_SPAN) too_large <= 1'b1;
        5'd22: input_large <= product > SP_MOST
            || (same_half && product[ROW_BITS-1:0] + weights_rows > SP_HALF);
        default: ;
      endcase

  wire unwieldy;                          // blocks further apart than a CONFIG can say
  generate
    if (SP_ROWS > 131071 || ACC_ROWS > 131071) begin : giant
      reg several;
      always @(posedge clock)
        case (step)
          5'd3: several <= kernel_block >> 16 != {ROW_BITS{1'b0}} && product[ROW_BITS-1:0] > kernel_block;
          5'd22: if (block_in >> 16 != {ROW_BITS{1'b0}} && product[ROW_BITS-1:0] > block_in) several <= 1'b1;
          default: ;
        endcase
      assign unwieldy = several || (block_out >> 16 != {ROW_BITS{1'b0}} && product[ROW_BITS-1:0] > block_out)
          || (trans_input_3120 && (image_in >> 16 != {ROW_BITS{1'b0}} || image_out >> 16 != {ROW_BITS{1'b0}}));
    end else begin : usual
      assign unwieldy = 1'b0;
      wire _unused_blocks = &{1'b0, kernel_block, image_in, block_in, image_out, block_out};
    end
  endgenerate

  // ---- configuration by others, when it is the one that the loop will find
  reg ex_unset, ex_unsuitable, st_unset, st_unsuitable;
  always @(posedge clock) begin
    if (begin_execute) begin
      ex_unset <= !ex_set;
      ex_unsuitable <= !ex_ws || ex_transposes != {trans_weight_0132, trans_input_3120}
          || (!trans_input_3120 && (ex_stride_a != {8'd0, stride} >> downsample || ex_stride_c != 16'd1 + {15'd0, dilated}));
    end
    if (begin_store) begin
      st_unset <= !output_null && !st_set;
`ifdef BACO_ROW_FUNCTIONS
      st_unsuitable <= !output_null && (st_by_row || (no_pool && !st_plain));
`else
      st_unsuitable <= !output_null && no_pool && !st_plain;
`endif
    end
  end

  // ---- the verdict
  wire pools = !output_null && !no_pool;
  wire packs = pixels_per_row != 8'd1;
  wire wrong_flags = a_spad_id == 2'd3 || b_spad_id == 2'd3 || (trans_weight_1203 && trans_weight_0132)
      || (packs && (wrot180 || trans_input_3120)) || (pools && pool_flags != 3'd0);
`ifdef BACO_NORMALIZATIONS
  wire wrong_activation = 1'b0;
`else
  wire wrong_activation = pools && activation[1];
`endif
`ifdef BACO_READ_SMALL
  wire not_built = wrong_activation;
`else
  wire not_built = !output_null || wrong_activation;
`endif
  wire zero = batches == 16'd0 || ochs == 16'd0 || ichs == 16'd0 || krows == 16'd0 || kcols == 16'd0 || orows == 16'd0
      || ocols == 16'd0 || stride == 8'd0;
  wire crowded = packs && (ichs > DIM_VALUE[15:0] || {8'd0, pixels_per_row} * {8'd0, ichs[7:0]} > DIM_VALUE[15:0]);
  wire wrong_size = zero || (dw && (ochs != 16'd1 || ichs != 16'd1)) || crowded
      || (pools && (pool_size || orows[15:8] != 8'd0 || ocols[15:8] != 8'd0))
      || overlong || negative || (downsample && odd)
      || too_large || input_large || output_large || unwieldy;
  always @*
    error = no_turn ? `BACO_ERROR_OUT_OF_TURN
          : incomplete ? `BACO_ERROR_INCOMPLETE
          : wrong_flags ? `BACO_ERROR_BAD_FLAGS
          : not_built ? `BACO_ERROR_NOT_BUILT
          : wrong_size ? `BACO_ERROR_BAD_SIZE
          : ex_unset || st_unset ? `BACO_ERROR_NOT_CONFIGURED
          : ex_unsuitable || st_unsuitable ? `BACO_ERROR_UNSUITABLE : `BACO_ERROR_NONE;

  wire _unused = &{1'b0, rs1, rs2, activation};
endmodule
