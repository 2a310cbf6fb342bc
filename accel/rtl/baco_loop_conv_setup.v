// Configuration of the convolution unroller, and everything about a loop that needs a multiplication.
//
// The six configuration commands fill one set of registers; the run command locks it. One multiplier, shared over
// time, then computes the sizes and the address steps which the phases only have to add: that takes 22 cycles, in
// the order in which the phases need them, so that weights can be fetched after 7. One more multiplication, of what only
// the check of sizes needs, goes beside the start of the last phase. The set is released when every phase has copied what
// it needs. All steps are modulo 2**32: main memory offsets wrap at 32 bits (bytes = elements).
//
// Words: "und" halves a length (rounding up) for an input that is dilated, "ds" halves an index (rounding down) for a
// downsampled one.
module baco_loop_conv_setup #(
    parameter DIM = 16,
    parameter ROW_BITS = 20,             // width of local row arithmetic
    parameter PRODUCT_BITS = 32          // of a legal number of local rows and a factor of 16 bits, at least 32
) (
    input wire clock,
    input wire reset,
    input wire write,                    // a configuration command is accepted
    input wire run,                      // the run command is accepted
    input wire [6:0] funct,              // its function code (15..21)
    input wire [63:0] rs1,
    input wire [63:0] rs2,
    // how far the arithmetic of the accepted loop is: what each phase needs is there
    output wire weights_ready,
    output wire bias_ready,
    output wire input_ready,
    output wire execute_ready,
    output wire store_ready,
    output wire all_ready,               // also what only the check needs
    output reg [4:0] step,               // of the arithmetic
    output reg [PRODUCT_BITS-1:0] product,   // ... and what the step before has multiplied
    // fields as in the commands
    output reg [63:0] weights_addr,
    output reg [63:0] output_addr,
    output reg [63:0] bias_addr,
    output reg [63:0] input_addr,
    output reg [15:0] batches,
    output reg [15:0] ochs,              // output channels of the tile
    output reg [15:0] ichs,              // input channels of the tile
    output reg [15:0] krows,
    output reg [15:0] kcols,
    output reg [15:0] orows,
    output reg [15:0] ocols,
    output reg [15:0] in_channels,
    output reg [15:0] batch_size,
    output reg [15:0] weight_stride,
    output reg [7:0] stride,
    output reg [9:0] kernel_dilation,
    output wire odd_up,                  // the padding above, left is odd
    output wire odd_left,
    output reg [7:0] pool_size,          // only the fields which fit a config_st
    output reg [7:0] pool_stride,
    output reg [7:0] pool_upad,
    output reg [7:0] pool_lpad,
    output reg [15:0] pool_out_col_dim,
    output reg [15:0] pool_out_rows,
    output reg [15:0] pool_out_cols,
    output reg [15:0] out_stride,
    output wire no_bias,
    output wire wrot180,
    output wire trans_weight_1203,
    output wire trans_weight_0132,
    output wire trans_input_3120,
`ifdef BACO_PACKED_WEIGHTS
    output reg weights_packed,           // memory holds weights of 4 bits
`endif
    output wire dw,
    output wire no_pool,
    output wire downsample,
    output wire dilated,
    output wire [1:0] activation,
    output reg [19:0] flags1,            // all of the run command that has a meaning
    output reg [4:0] flags2,
    output wire [1:0] a_spad_id,
    output wire [1:0] b_spad_id,
    output wire [7:0] pixels_per_row,    // max_pixels_per_row, at least 1
    // derived: local memory, in rows
    output reg [ROW_BITS-1:0] image_out,     // orows*ocols
    output reg [ROW_BITS-1:0] block_out,     // one channel block of the output
    output reg [15:0] kernel_chs,            // rows of one kernel position: input (0132: output) channels
    output reg [ROW_BITS-1:0] kernel_line,   // rows of one kernel row
    output reg [ROW_BITS-1:0] kernel_block,  // one channel block of the weights
    output reg [ROW_BITS-1:0] weights_rows,  // all weights
    output reg [ROW_BITS-1:0] image_in,      // input rows*columns after ds
    output reg [ROW_BITS-1:0] block_in,      // one channel (3120: batch) block of the input
    output reg [19:0] icols,                 // input columns after ds
    output reg [15:0] pack_dilation,         // pixels_per_row * kernel_dilation
    output reg [ROW_BITS-1:0] pack_chs,      // pixels_per_row * kernel_chs
    // derived: shape of the input, in pixels
    output wire overlong,                        // the windows span more than 65,535 rows or columns
    output reg signed [19:0] rows_inside,    // rows and columns of them which are not padding, after und
    output reg signed [19:0] cols_inside,
    output reg odd,                          // an odd number of rows, or of columns on one side of the image or in it
    output wire [16:0] pad_up,               // padding on each side, after und
    output wire [16:0] pad_down,
    output wire [16:0] pad_left,
    output wire [16:0] pad_right,
    // derived: main memory steps, in elements
    output reg [31:0] weight_col,        // next kernel column
    output reg [31:0] weight_row,        // next kernel row
    output reg [31:0] weight_plane,      // 1203: next input channel
    output wire [15:0] in_pixel,         // next input pixel
    output reg [31:0] in_line,           // next input row
    output reg [31:0] in_image,          // next image (3120: next channel)
    output reg [31:0] out_pixel,         // next output pixel
    output reg [31:0] out_line,          // next output row (pooled: one row of the pooled image)
    output reg [31:0] out_image          // next image
);
  localparam LOG_DIM = $clog2(DIM);
  localparam [4:0] LAST = 5'd23;

  reg [15:0] out_channels, in_row_dim, in_col_dim, out_col_dim, out_row_dim, pool_out_row_dim, kernel_dim, in_stride;
  reg [7:0] dpad;
  reg [15:0] upad, lpad, rpad;
  wire trans_output_1203;

  always @(posedge clock) begin
    if (write)
      case (funct)
        7'd16: begin
          {in_channels, in_row_dim, batch_size} <= rs1[47:0];
          out_channels <= rs1[63:48];
          {stride, out_col_dim, pool_out_row_dim, out_row_dim} <= rs2[55:0];
        end
        7'd17: begin
          {kernel_dim, pool_out_col_dim} <= rs1[63:32];
          pool_size <= rs1[23:16];
          pool_stride <= rs1[15:8];
          {batches, pool_out_rows, pool_out_cols, ochs} <= rs2;
        end
        7'd18: begin
          {krows, kcols, ichs, lpad} <= rs1;
          {rpad, upad, dpad} <= rs2[63:24];
          pool_lpad <= rs2[23:16];
          in_col_dim <= rs2[15:0];
        end
        7'd19: begin
          orows <= rs1[63:48];
          pool_upad <= rs1[28:21];
          kernel_dilation <= rs1[9:0];
          {in_stride, weight_stride, out_stride, ocols} <= rs2;
        end
        7'd20: {weights_addr, output_addr} <= {rs1, rs2};
        7'd21: {bias_addr, input_addr} <= {rs1, rs2};
        default: begin
          flags1 <= rs1[19:0];
          flags2 <= rs2[4:0];
`ifdef BACO_PACKED_WEIGHTS
          weights_packed <= rs2[5];
`endif
        end
      endcase
  end

  assign no_bias = flags1[0];
`ifdef BACO_TRAINING_CONVS
  assign {trans_input_3120, trans_weight_0132, trans_weight_1203, trans_output_1203, wrot180} = flags1[5:1];
  wire run_0132 = rs1[4];
  assign dilated = flags2[2];
`else
  assign {trans_input_3120, trans_weight_0132, trans_weight_1203, trans_output_1203, wrot180} = 5'd0;
  wire run_0132 = 1'b0;
  assign dilated = 1'b0;
`endif
`ifdef BACO_DEPTHWISE
  assign dw = flags1[6];
`else
  assign dw = 1'b0;
`endif
`ifdef BACO_FIRST_LAYER
  assign pixels_per_row = flags1[15:8] == 8'd0 ? 8'd1 : flags1[15:8];
`else
  assign pixels_per_row = 8'd1;
`endif
`ifdef BACO_MAX_POOL
  assign no_pool = flags2[0];
`else
  assign no_pool = 1'b1;
`endif
  assign downsample = flags2[1];
  assign activation = flags2[4:3];
  assign b_spad_id = flags1[17:16];
  assign a_spad_id = flags1[19:18];

  assign odd_up = upad[0];
  assign odd_left = lpad[0];
  // und(x) = (x + 1)/2 where the input is dilated
  wire [16:0] dil = {16'd0, dilated};
  assign pad_up = ({1'b0, upad} + dil) >> dilated;
  assign pad_left = ({1'b0, lpad} + dil) >> dilated;
  assign pad_down = ({9'd0, dpad} + dil) >> dilated;
  assign pad_right = ({1'b0, rpad} + dil) >> dilated;
  assign in_pixel = trans_input_3120 ? batches : in_stride;

  // The program of the multiplier: operands at step s, chosen in the step before, and the product one step later. A step
  // may use the product of the step before it.
  reg signed [19:0] rows_in, cols_in;    // rows and columns that the windows span: stride, kernel, padding
  assign overlong = rows_in[19:16] != 4'd0 | cols_in[19:16] != 4'd0;
  reg [31:0] left, left_next;
  reg [15:0] right, right_next;
  reg chained, chained_next;             // the product takes the place of `left`
  wire [4:0] upcoming = run ? 5'd0 : step + 5'd1;
  wire [15:0] kernel_chs_next = run_0132 ? ochs : ichs;
  wire [31:0] operand = chained ? product[31:0] : left;
  wire [PRODUCT_BITS-1:0] factor;
  generate
    if (PRODUCT_BITS > 32) begin : wide_product
      assign factor = {{(PRODUCT_BITS-32){1'b0}}, operand};
    end else begin : usual_product
      assign factor = operand;
    end
  endgenerate
  // of weights; of the input; of the output
  wire [15:0] in_blocks = upcoming == 5'd21 ? (trans_input_3120 ? batches : ichs)
                        : upcoming == 5'd2 && trans_weight_0132 ? ichs : ochs;
  wire [16:0] blocks = {1'b0, in_blocks} + (DIM[16:0] - 17'd1);
  wire [16:0] blocks_of_dim = blocks >> LOG_DIM;
  wire _unused = &{1'b0, rs1, rs2, blocks_of_dim};
  wire [31:0] dilation_less_one = {22'd0, kernel_dilation} - 32'd1;
  wire signed [19:0] rows_dil = rows_inside + $signed({3'd0, pad_up}) + $signed({3'd0, pad_down});
  wire signed [19:0] cols_dil = cols_inside + $signed({3'd0, pad_left}) + $signed({3'd0, pad_right});

  assign weights_ready = step >= 5'd7;
  assign bias_ready = step >= 5'd9;
  assign input_ready = step >= 5'd18;
  assign execute_ready = step >= 5'd19;
  assign store_ready = step >= 5'd22;
  assign all_ready = step == LAST;

  wire [19:0] irows_next = (dilated ? rows_dil : rows_in) >> downsample;
  wire [19:0] icols_next = (dilated ? cols_dil : cols_in) >> downsample;
  always @* begin
    left_next = 32'd0;
    right_next = 16'd0;
    chained_next = 1'b0;
    case (upcoming)
      5'd0: {left_next, right_next} = {16'd0, kernel_chs_next, kcols};
      5'd1: {chained_next, right_next} = {1'b1, krows};
      5'd2: {chained_next, right_next} = {1'b1, blocks_of_dim[15:0]};
      5'd3: begin
        left_next = dw ? 32'd1 : {16'd0, trans_weight_1203 | trans_weight_0132 ? out_channels : in_channels};
        right_next = dw | trans_weight_1203 ? 16'd1 : trans_weight_0132 ? in_channels : weight_stride;
      end
      5'd4, 5'd5: {chained_next, right_next} = {1'b1, kernel_dim};
      5'd6: {left_next, right_next} = {16'd0, orows, ocols};
      5'd7: {chained_next, right_next} = {1'b1, batches};
      5'd8: {left_next, right_next} = {16'd0, orows, 8'd0, stride};
      5'd9: {left_next, right_next} = {16'd0, ocols, 8'd0, stride};
      5'd10: {left_next, right_next} = {dilation_less_one, krows - 16'd1};
      5'd11: {left_next, right_next} = {dilation_less_one, kcols - 16'd1};
      5'd12: {left_next, right_next} = {16'd0, in_pixel, in_col_dim};
      5'd13: {chained_next, right_next} = {1'b1, in_row_dim};
      5'd14: {left_next, right_next} = {24'd0, pixels_per_row, 6'd0, kernel_dilation};
      5'd15: {left_next, right_next} = {12'd0, irows_next, icols_next[15:0]};
      5'd16: {chained_next, right_next} = {1'b1, trans_input_3120 ? ichs : batches};
      5'd17: {left_next, right_next} = {24'd0, pixels_per_row, kernel_chs};
      5'd18: {left_next, right_next} = {16'd0, trans_output_1203 & no_pool ? batch_size : out_stride,
                                        trans_output_1203 & no_pool ? out_channels : 16'd1};
      5'd19: {chained_next, right_next} = {1'b1, no_pool ? out_col_dim : pool_out_col_dim};
      5'd20: {chained_next, right_next} = {1'b1, no_pool ? out_row_dim : pool_out_row_dim};
      5'd21: {left_next, right_next} = {{(32-ROW_BITS){1'b0}}, block_in, blocks_of_dim[15:0]};
      default: {left_next, right_next} = {{(32-ROW_BITS){1'b0}}, block_out, blocks_of_dim[15:0]};
    endcase
  end

  always @(posedge clock) begin
    if (reset) step <= LAST;
    else if (run) step <= 5'd0;
    else if (step != LAST) step <= step + 5'd1;

    {left, right, chained} <= {left_next, right_next, chained_next};
    if (run) kernel_chs <= kernel_chs_next;
    else if (step != LAST) begin
      product <= factor * {{(PRODUCT_BITS-16){1'b0}}, right};
      case (step)
        5'd1: kernel_line <= product[ROW_BITS-1:0];
        5'd2: kernel_block <= product[ROW_BITS-1:0];
        5'd3: weights_rows <= product[ROW_BITS-1:0];
        5'd4: weight_col <= product[31:0];
        5'd5: weight_row <= product[31:0];
        5'd6: weight_plane <= product[31:0];
        5'd7: image_out <= product[ROW_BITS-1:0];
        5'd8: block_out <= product[ROW_BITS-1:0];
        5'd9: rows_in <= product[19:0];
        5'd10: cols_in <= product[19:0];
        5'd11: rows_in <= rows_in + product[19:0] + {4'd0, krows} - 20'd1;
        5'd12: cols_in <= cols_in + product[19:0] + {4'd0, kcols} - 20'd1;
        5'd13: begin
          in_line <= product[31:0];
          rows_inside <= (rows_in - $signed({4'd0, upad}) - $signed({12'd0, dpad}) + $signed({19'd0, dilated})) >>> dilated;
          cols_inside <= (cols_in - $signed({4'd0, lpad}) - $signed({4'd0, rpad}) + $signed({19'd0, dilated})) >>> dilated;
        end
        5'd14: begin
          in_image <= product[31:0];
          odd <= (dilated ? rows_dil[0] : rows_in[0]) | pad_left[0] | cols_inside[0] | pad_right[0];
          icols <= icols_next;
        end
        5'd15: pack_dilation <= product[15:0];
        5'd16: image_in <= product[ROW_BITS-1:0];
        5'd17: block_in <= product[ROW_BITS-1:0];
        5'd18: pack_chs <= product[ROW_BITS-1:0];
        5'd19: out_pixel <= product[31:0];
        5'd20: out_line <= product[31:0];
        5'd21: out_image <= trans_output_1203 & no_pool ? {16'd0, out_channels} : product[31:0];
        default: ;
      endcase
    end
  end
endmodule
