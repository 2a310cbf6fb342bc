// Convolution unroller, input phase: for each image, row and run of at most DIM pixels, one MVIN for as many channel
// blocks as one load can hold; padding is loaded as zeros. trans_input_3120: batches take the place of the channels
// of a load, and channels are walked one by one.
//
// Rows count from the first one that is not padding, so padding has negative numbers. Columns are walked in three parts:
// padding, those inside, padding; a run ends where its part does.
module baco_loop_conv_input #(
    parameter DIM = 16,
    parameter DMA_MAX_BYTES = 64,
    parameter ROW_BITS = 20
) (
    input wire clock,
    input wire reset,
    input wire start,                        // copy the loop's parameters and begin
    input wire [63:0] input_addr,
    input wire [15:0] batches,
    input wire [15:0] batch_size,
    input wire [15:0] ichs,
    input wire trans_input_3120,
    input wire downsample,
    input wire [7:0] pixels_per_row,
    input wire signed [19:0] rows_inside,
    input wire signed [19:0] cols_inside,
    input wire [16:0] pad_up,
    input wire [16:0] pad_down,
    input wire [16:0] pad_left,
    input wire [16:0] pad_right,
    input wire [15:0] in_pixel,              // main memory steps, see the setup
    input wire [31:0] in_line,
    input wire [31:0] in_image,
    input wire [19:0] icols,                 // local rows of an image row
    input wire [ROW_BITS-1:0] image_in,      // local rows of an image
    input wire [ROW_BITS-1:0] block_in,      // local rows of a block
    input wire [ROW_BITS-1:0] sp_start,      // first row in the scratchpad
    // commands before this position have been taken: image (3120: first of the load), row of the image after ds
    output reg [15:0] at_batch,
    output reg [19:0] at_row,
    output reg cmd_valid,                    // from the start until the last command is taken
    input wire cmd_ready,
    output reg [6:0] cmd_funct,
    output reg [63:0] cmd_rs1,
    output reg [63:0] cmd_rs2
);
  localparam BLOCKS = DMA_MAX_BYTES > `ROW_BYTES ? DMA_MAX_BYTES / `ROW_BYTES : 1;   // blocks in one load
  localparam LOG_DIM = $clog2(DIM);
  localparam [15:0] WIDE = BLOCKS[15:0] * DIM[15:0];
  localparam [1:0] LEFT = 2'd0, INSIDE = 2'd1, RIGHT = 2'd2;

  reg more;                                  // the counters stand on a command
  reg [63:0] base;
  reg swapped, ds;                           // trans_input_3120, downsample
  reg [15:0] images, chs;
  reg signed [19:0] r_first, r_inside, r_end;
  reg [19:0] cols_of_inside, cols_of_right;  // columns of a part
  reg [19:0] cols_of_first;
  reg [1:0] part_first;
  reg [31:0] ch_step, run_step, line_step, line, image_step;                    // main memory
  reg [ROW_BITS-1:0] local_ch_step, local_line_step, local_image_step;
  reg [15:0] b, ch;
  reg signed [19:0] r;
  reg [1:0] part;                            // of the columns: LEFT, INSIDE, RIGHT
  reg [19:0] cols_left;                      // columns of it that are not passed
  reg [19:0] line_number;
  reg [31:0] at_b, at_r, at_c, at;           // main memory offset where each loop stands
  reg [ROW_BITS-1:0] row_b, row_r, row;      // local row likewise
  reg [19:0] column;                         // columns passed

  wire outside = r < 20'sd0 || r >= r_inside || part != INSIDE;
  wire [19:0] most = part == INSIDE && ds ? 20'd2 * DIM[19:0] : DIM[19:0];
  wire part_goes_on = cols_left > most;
  wire [19:0] run = part_goes_on ? most : cols_left;              // columns passed, twice the pixels if ds
  wire [19:0] pixels = run >> ds;
  wire [15:0] left_chs = swapped ? images - b : chs - ch;
  wire [15:0] size_chs = left_chs > WIDE ? WIDE : left_chs;
  wire [15:0] ch_next = ch + (swapped ? 16'd1 : WIDE);
  wire [15:0] b_next = b + (swapped ? WIDE : 16'd1);
  wire signed [19:0] r_next = r + 20'sd1 + $signed({19'd0, ds});
  wire last_ch = ch_next >= chs || ch_next < ch;
  wire to_inside = part == LEFT && cols_of_inside != 20'd0;
  wire last_c = !part_goes_on && !to_inside && (part == RIGHT || cols_of_right == 20'd0);
  wire last_r = r_next >= r_end;
  wire last_b = b_next >= images || b_next < b;
  wire [19:0] column_next = column + run;
  wire [19:0] column_ds = column_next >> ds;
  // the first row inside is row 0, or 1 when a downsampled image begins between
  wire [31:0] at_r_next = r < 20'sd0 ? at_b + (r_next[0] ? line : 32'd0) : at_r + line_step;
  wire [31:0] at_c_next = part == LEFT ? at_r : at_c + run_step;
  wire [31:0] block_stride = {{(32-ROW_BITS){1'b0}}, block_in};
  wire [ROW_BITS-1:0] wide_block = BLOCKS[ROW_BITS-1:0] * block_in;
  wire [31:0] stride = {16'd0, trans_input_3120 ? batch_size : in_pixel} << downsample;
  wire [19:0] new_inside = cols_inside[19] ? 20'd0 : cols_inside;
  wire [19:0] new_right = {3'd0, pad_right};
  wire [1:0] new_part = pad_left != 17'd0 ? LEFT : new_inside != 20'd0 ? INSIDE : RIGHT;
  wire [19:0] new_cols = pad_left != 17'd0 ? {3'd0, pad_left} : new_inside != 20'd0 ? new_inside : new_right;
  wire _unused = &{1'b0, block_stride, pixels};
`ifdef BACO_WIDE_INTEGERS
  wire _unused_stride = stride[31];
`endif

  always @(posedge clock) begin
    if (reset) cmd_valid <= 1'b0;
    else if (start) begin
      cmd_valid <= 1'b1;                     // config_ld, id 0, scale 1
      cmd_funct <= 7'd0;
      cmd_rs1 <= {32'h3f800000, block_stride[15:0], pixels_per_row, 3'd0, 2'd0, 1'b0, 2'd1};
      cmd_rs2 <= {32'd0, `OFFSET(stride)};
      more <= 1'b1;
      base <= input_addr;
      swapped <= trans_input_3120;
      ds <= downsample;
      images <= batches;
      chs <= ichs;
      r_first <= -$signed({3'd0, pad_up});
      r_inside <= rows_inside;
      r_end <= rows_inside + $signed({3'd0, pad_down});
      cols_of_inside <= new_inside;
      cols_of_right <= new_right;
      cols_of_first <= new_cols;
      part_first <= new_part;
      ch_step <= trans_input_3120 ? in_image : {16'd0, WIDE};
      run_step <= {16'd0, in_pixel} << (LOG_DIM[4:0] + {4'd0, downsample});
      line <= in_line;
      line_step <= in_line << downsample;
      image_step <= trans_input_3120 ? {16'd0, WIDE} : in_image;
      local_ch_step <= trans_input_3120 ? image_in : wide_block;
      local_line_step <= {{(ROW_BITS-20){1'b0}}, icols};
      local_image_step <= trans_input_3120 ? wide_block : image_in;
      {b, ch} <= 32'd0;
      r <= -$signed({3'd0, pad_up});
      part <= new_part;
      cols_left <= new_cols;
      line_number <= 20'd0;
      {at_b, at_r, at_c, at} <= 128'd0;
      row_b <= sp_start;
      row_r <= sp_start;
      row <= sp_start;
      column <= 20'd0;
      at_batch <= 16'd0;
      at_row <= 20'd0;
    end else if (cmd_valid & cmd_ready) begin
      cmd_valid <= more;
      cmd_funct <= 7'd2;
      cmd_rs1 <= outside ? 64'd0 : base + {32'd0, `OFFSET(at)};
      cmd_rs2 <= {pixels[15:0], size_chs, {(32-ROW_BITS){1'b0}}, row};
      at_batch <= b;
      at_row <= line_number;
      if (!last_ch) begin
        ch <= ch_next;
        at <= at + ch_step;
        row <= row + local_ch_step;
      end else begin
        ch <= 16'd0;
        if (!last_c) begin
          if (part_goes_on) cols_left <= cols_left - most;
          else begin
            part <= to_inside ? INSIDE : RIGHT;
            cols_left <= to_inside ? cols_of_inside : cols_of_right;
          end
          column <= column_next;
          at_c <= at_c_next;
          at <= at_c_next;
          row <= row_r + {{(ROW_BITS-20){1'b0}}, column_ds};
        end else begin
          part <= part_first;
          cols_left <= cols_of_first;
          column <= 20'd0;
          if (!last_r) begin
            r <= r_next;
            line_number <= line_number + 20'd1;
            at_r <= at_r_next;
            at_c <= at_r_next;
            at <= at_r_next;
            row_r <= row_r + local_line_step;
            row <= row_r + local_line_step;
          end else begin
            r <= r_first;
            line_number <= 20'd0;
            b <= b_next;
            at_b <= at_b + image_step;
            at_r <= at_b + image_step;
            at_c <= at_b + image_step;
            at <= at_b + image_step;
            row_b <= row_b + local_image_step;
            row_r <= row_b + local_image_step;
            row <= row_b + local_image_step;
            if (last_b) more <= 1'b0;
          end
        end
      end
    end
  end
endmodule
