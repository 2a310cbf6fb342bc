// Convolution unroller, execute phase: for each output channel block, kernel position and DIM input channels, one
// PRELOAD and COMPUTE for every run of at most DIM output pixels (trans_input_3120: for every DIM batches). Only the
// first of them brings new weights.
//
// Three steps: the counters; the input pixel together with what the command depends on; the command, whose address and
// size take a product each. A PRELOAD waits in the second step until the loads that fill its operands have been
// taken; hazards from there on are the reservation station's, which sees the commands in that order.
//
// A dilated input has data at every second pixel: only positions are visited which meet data. A kernel position that
// meets none at all costs one cycle.
module baco_loop_conv_execute #(
    parameter DIM = 16,
    parameter DMA_MAX_BYTES = 64,
    parameter ROW_BITS = 20
) (
    input wire clock,
    input wire reset,
    input wire start,                        // copy the loop's parameters and begin
    input wire [15:0] batches,
    input wire [15:0] ochs,
    input wire [15:0] ichs,
    input wire [15:0] krows,
    input wire [15:0] kcols,
    input wire [15:0] orows,
    input wire [15:0] ocols,
    input wire [7:0] stride,
    input wire [9:0] kernel_dilation,
    input wire odd_up,                       // the padding above, left is odd
    input wire odd_left,
    input wire wrot180,
    input wire trans_weight_0132,
    input wire trans_input_3120,
    input wire downsample,
    input wire dilated,
    input wire [7:0] pixels_per_row,
    input wire [15:0] pack_dilation,
    input wire [ROW_BITS-1:0] pack_chs,
    input wire [15:0] kernel_chs,            // local rows, see the setup
    input wire [ROW_BITS-1:0] kernel_line,
    input wire [ROW_BITS-1:0] kernel_block,
    input wire [19:0] icols,
    input wire [ROW_BITS-1:0] image_in,
    input wire [ROW_BITS-1:0] block_in,
    input wire [ROW_BITS-1:0] image_out,
    input wire [ROW_BITS-1:0] block_out,
    input wire [ROW_BITS-1:0] input_start,   // first rows of input and weights in the scratchpad, output in the accumulator
    input wire [ROW_BITS-1:0] weights_start,
    input wire [ROW_BITS-1:0] acc_start,
    // loads of this loop: all taken; else, if live, all before a position
    input wire bias_done,
    input wire bias_live,
    input wire [15:0] bias_group,
    input wire [ROW_BITS-1:0] bias_pixel,
    input wire weights_done,
    input wire weights_live,
    input wire [15:0] weights_group,
    input wire [31:0] weights_load,
    input wire input_done,
    input wire input_live,
    input wire [15:0] input_batch,
    input wire [19:0] input_row,
    // where the next PRELOAD stands, for the choice among loads
    output reg [15:0] need_bias_group,
    output reg [ROW_BITS-1:0] need_pixel,
    output reg [15:0] need_weights_group,
    output reg [31:0] need_load,
    output reg [15:0] at_block,              // all commands of output channel blocks before this one have been taken
    output reg active,                       // from the start until the last command is taken
    output reg cmd_valid,
    input wire cmd_ready,
    output reg [6:0] cmd_funct,
    output reg [63:0] cmd_rs1,
    output reg [63:0] cmd_rs2
);
  localparam LOG_DIM = $clog2(DIM);
  localparam LOG_BLOCKS = DMA_MAX_BYTES > `ROW_BYTES ? $clog2(DMA_MAX_BYTES / `ROW_BYTES) : 0;                    // of a weight load
  localparam LOG_BIAS_BLOCKS = DMA_MAX_BYTES > 4 * DIM ? $clog2(DMA_MAX_BYTES / (4 * DIM)) : 0;     // of a bias load
  localparam [15:0] D = DIM[15:0];
  localparam [15:0] WIDE = D << LOG_BLOCKS;
  localparam [31:0] GARBAGE = 32'hffffffff;

  // the loop's parameters
  reg [15:0] n_b, n_och, n_ich, n_kr, n_kc, n_orow, n_ocol;
  reg rot, swap_w, swap_in, ds, dil, up_odd, left_odd;
  reg [15:0] pack;
  reg [15:0] ocol_step, orow_step;            // dilated: the first row and column that meet data may be 0 or 1
  reg [19:0] step_x, step_kc_x, step_kr_x, step_ocol_x;     // input pixels
  reg [19:0] line_in;
  reg [ROW_BITS-1:0] w_kch_step, w_kc_step, w_kr_step, w_och_step;
  reg [ROW_BITS-1:0] a_kch_step, a_b_step, a_first, c_b_step, c_block;

  // first step: counters, and where each loop stands
  reg more;
  reg first;                                  // nothing of this weight block has been computed yet
  reg [15:0] och, kr, kc, kch, b, orow, ocol, block;
  reg [31:0] load;                            // weight loads before this block's, in its group
  reg [19:0] kr_x, kc_x, row_x, col_x;        // input pixel before halving
  reg [ROW_BITS-1:0] w_och, w_kr, w_kc, w;
  reg [ROW_BITS-1:0] a_kch, a_b, c_och, c_b, c_row;     // c_b, c_row: within the channel block

  // second step
  reg valid1, first1;
  reg [ROW_BITS-1:0] a1, w1, c1;              // a1: without the rows of the image before
  reg [7:0] pack1, ich1;
  reg [15:0] i1, j1, batch1, block1;
  reg [19:0] row1;

  // third step: what COMPUTE needs after its PRELOAD
  reg compute_next, first2;
  reg [ROW_BITS-1:0] a2;
  reg [15:0] i2, j2, k2;

  function [ROW_BITS-1:0] local_row;          // zero-extended
    input [15:0] value;
    local_row = {{(ROW_BITS-16){1'b0}}, value};
  endfunction

  wire bias_ok = bias_done | (bias_live & (need_bias_group < bias_group
                 || (need_bias_group == bias_group && need_pixel <= bias_pixel)));
  wire weights_ok = weights_done | (weights_live & !rot & (need_weights_group < weights_group
                    || (need_weights_group == weights_group && need_load < weights_load)));
  wire input_ok = input_done | (input_live & (batch1 < input_batch
                  || (batch1 == input_batch && row1 < input_row)));
  wire take2 = valid1 & bias_ok & weights_ok & input_ok & (!cmd_valid | (cmd_ready & !compute_next));
  wire advance = more & (!valid1 | take2);

  wire [15:0] b_step = swap_in ? D : 16'd1;
  wire empty = orow >= n_orow || ocol >= n_ocol;
  wire last_ocol = empty || {1'b0, ocol} + {1'b0, ocol_step} >= {1'b0, n_ocol};
  wire last_orow = empty || {1'b0, orow} + {1'b0, orow_step} >= {1'b0, n_orow};
  wire last_b = empty || {1'b0, b} + {1'b0, b_step} >= {1'b0, n_b};
  wire last_kch = n_ich - kch <= D;
  wire last_kc = n_kc - kc <= pack;
  wire last_kr = n_kr - kr <= 16'd1;
  wire last_och = n_och - och <= D;

  wire next_block = last_ocol & last_orow & last_b;          // of weights
  wire next_kc = next_block & last_kch;
  wire next_kr = next_kc & last_kc;
  wire next_och = next_kr & last_kr;
  wire [19:0] kr_x_next = next_och ? 20'd0 : next_kr ? kr_x + step_kr_x : kr_x;
  wire [19:0] kc_x_next = next_kr ? 20'd0 : next_kc ? kc_x + step_kc_x : kc_x;
  wire row_odd = dil & (kr_x_next[0] ^ up_odd);
  wire col_odd = dil & (kc_x_next[0] ^ left_odd);

  wire [15:0] left_ocol = n_ocol - ocol;
  wire [15:0] span = left_ocol > (D << dil) ? D << dil : left_ocol;
  wire [15:0] left_b = n_b - b;
  wire [15:0] size_b = left_b > D ? D : left_b;
  wire [15:0] size_ich = last_kch ? n_ich - kch : D;
  wire [15:0] size_pack = last_kc ? n_kc - kc : pack;
  wire [15:0] kch_next = kch + D;
  // (choices, not shifts by dil and then ds: Verilator 5.048 adds the two amounts in one bit)
  wire [19:0] row_und = dil ? (row_x + 20'd1) >> 1 : row_x;
  wire [19:0] col_und = dil ? (col_x + 20'd1) >> 1 : col_x;
  wire [19:0] row_ds = ds ? row_und >> 1 : row_und;
  wire [19:0] col_ds = ds ? col_und >> 1 : col_und;
  wire [ROW_BITS-1:0] pixel = c_row + local_row(ocol);
  wire [ROW_BITS-1:0] a = a1 + {{(ROW_BITS-20){1'b0}}, row1} * {{(ROW_BITS-20){1'b0}}, line_in};
  wire [15:0] k1 = {8'd0, pack1} * {8'd0, ich1};
  wire [31:0] image_rows = {{(32-ROW_BITS){1'b0}}, image_in};
  wire [31:0] image_out_rows = {{(32-ROW_BITS){1'b0}}, image_out};
  wire _unused = &{1'b0, image_rows, image_out_rows, size_ich};

  always @(posedge clock) begin
    if (reset) begin
      active <= 1'b0;
      cmd_valid <= 1'b0;
      valid1 <= 1'b0;
      more <= 1'b0;
    end else if (start) begin
      active <= 1'b1;
      // config_ex of strides only: batches, which become rows, lie a whole image apart
      cmd_valid <= trans_input_3120;
      cmd_funct <= 7'd0;
      cmd_rs1 <= {32'd0, image_rows[15:0], 8'd0, 1'b1, 7'd0};
      cmd_rs2 <= {image_out_rows[15:0], 48'd0};
      compute_next <= 1'b0;
      valid1 <= 1'b0;
      more <= 1'b1;
      first <= 1'b1;
      {n_b, n_och, n_ich, n_kr, n_kc, n_orow, n_ocol} <= {batches, ochs, ichs, krows, kcols, orows, ocols};
      {rot, swap_w, swap_in, ds, dil} <= {wrot180, trans_weight_0132, trans_input_3120, downsample, dilated};
      {up_odd, left_odd} <= {odd_up, odd_left};
      pack <= {8'd0, pixels_per_row};
      ocol_step <= (trans_input_3120 ? 16'd1 : D) << dilated;
      orow_step <= {14'd0, dilated, !dilated};
      step_x <= {12'd0, stride} << dilated;
      step_kc_x <= {4'd0, pack_dilation};
      step_kr_x <= {10'd0, kernel_dilation};
      step_ocol_x <= {12'd0, stride} << ((trans_input_3120 ? 5'd0 : LOG_DIM[4:0]) + {4'd0, dilated});
      line_in <= icols;
      w_kch_step <= trans_weight_0132 ? kernel_block : local_row(D);
      w_och_step <= trans_weight_0132 ? local_row(D) : kernel_block;
      w_kc_step <= wrot180 ? -pack_chs : pack_chs;
      w_kr_step <= wrot180 ? -kernel_line : kernel_line;
      a_kch_step <= trans_input_3120 ? image_in << LOG_DIM : block_in;
      a_b_step <= trans_input_3120 ? block_in : image_in;
      a_first <= input_start;
      c_b_step <= trans_input_3120 ? image_out << LOG_DIM : image_out;
      c_block <= block_out;
      {och, kr, kc, kch, b, block} <= 96'd0;
      load <= 32'd0;
      {kr_x, kc_x} <= 40'd0;
      row_x <= dilated & odd_up ? {12'd0, stride} : 20'd0;
      col_x <= dilated & odd_left ? {12'd0, stride} : 20'd0;
      orow <= {15'd0, dilated & odd_up};
      ocol <= {15'd0, dilated & odd_left};
      w_och <= weights_start + (wrot180 ? kernel_block - local_row(kernel_chs) : {ROW_BITS{1'b0}});
      w_kr <= weights_start + (wrot180 ? kernel_block - local_row(kernel_chs) : {ROW_BITS{1'b0}});
      w_kc <= weights_start + (wrot180 ? kernel_block - local_row(kernel_chs) : {ROW_BITS{1'b0}});
      w <= weights_start + (wrot180 ? kernel_block - local_row(kernel_chs) : {ROW_BITS{1'b0}});
      a_kch <= input_start;
      a_b <= input_start;
      c_och <= acc_start;
      c_b <= {ROW_BITS{1'b0}};
      c_row <= dilated & odd_up ? local_row(ocols) : {ROW_BITS{1'b0}};
      at_block <= 16'd0;
      need_bias_group <= 16'd0;
      need_pixel <= {ROW_BITS{1'b0}};
      need_weights_group <= 16'd0;
      need_load <= 32'd0;
    end else if (active) begin
      if (cmd_valid & cmd_ready) begin
        cmd_valid <= compute_next;
        compute_next <= 1'b0;
        cmd_funct <= first2 ? 7'd4 : 7'd5;
        cmd_rs1 <= {i2, k2, {(32-ROW_BITS){1'b0}}, a2};
        cmd_rs2 <= {i2, j2, GARBAGE};
        if (!compute_next & !valid1 & !more) active <= 1'b0;
      end else if (!cmd_valid & !valid1 & !more) active <= 1'b0;

      if (take2) begin
        cmd_valid <= 1'b1;
        compute_next <= 1'b1;
        cmd_funct <= 7'd6;
        cmd_rs1 <= {k1, j1, first1 ? {{(32-ROW_BITS){1'b0}}, w1} : GARBAGE};
        cmd_rs2 <= {i1, j1, 2'b11, {(30-ROW_BITS){1'b0}}, c1};     // accumulate
        a2 <= a;
        {i2, j2, k2} <= {i1, j1, k1};
        first2 <= first1;
        at_block <= block1;
        valid1 <= 1'b0;
      end

      if (advance) begin
        valid1 <= !empty;
        first1 <= first;
        a1 <= a_b + {{(ROW_BITS-20){1'b0}}, col_ds};
        w1 <= w;
        c1 <= c_och + pixel;
        i1 <= swap_in ? size_b : (span + {15'd0, dil}) >> dil;
        j1 <= last_och ? n_och - och : D;
        pack1 <= size_pack[7:0];
        ich1 <= size_ich[7:0];
        block1 <= block;
        batch1 <= b;
        row1 <= row_ds;
        if (!empty) begin
          need_bias_group <= block >> LOG_BIAS_BLOCKS;
          need_pixel <= swap_in ? {ROW_BITS{1'b1}} : pixel + local_row(span);
          need_weights_group <= swap_w ? block : block >> LOG_BLOCKS;
          need_load <= load + (swap_w ? 32'd0 : {16'd0, size_pack} - 32'd1);
        end
        first <= next_block | (first & empty);

        // innermost loop that goes on; those inside it begin again
        kr_x <= kr_x_next;
        kc_x <= kc_x_next;
        if (!last_ocol) begin
          ocol <= ocol + ocol_step;
          col_x <= col_x + step_ocol_x;
        end else begin
          ocol <= {15'd0, col_odd};
          col_x <= kc_x_next + (col_odd ? step_x >> 1 : 20'd0);
          if (!last_orow) begin
            orow <= orow + orow_step;
            row_x <= row_x + step_x;
            c_row <= c_row + (local_row(n_ocol) << dil);
          end else begin
            orow <= {15'd0, row_odd};
            row_x <= kr_x_next + (row_odd ? step_x >> 1 : 20'd0);
            if (!last_b) begin
              b <= b + b_step;
              a_b <= a_b + a_b_step;
              c_b <= c_b + c_b_step;
              c_row <= c_b + c_b_step + (row_odd ? local_row(n_ocol) : {ROW_BITS{1'b0}});
            end else begin
              b <= 16'd0;
              c_b <= {ROW_BITS{1'b0}};
              c_row <= row_odd ? local_row(n_ocol) : {ROW_BITS{1'b0}};
              if (!last_kch) begin
                kch <= kch_next;
                a_kch <= a_kch + a_kch_step;
                a_b <= a_kch + a_kch_step;
                w <= w + w_kch_step;
                if (!swap_w || (kch_next & (WIDE - 16'd1)) == 16'd0) load <= load + 32'd1;
              end else begin
                kch <= 16'd0;
                a_kch <= a_first;
                a_b <= a_first;
                load <= load + (swap_w ? 32'd1 : {16'd0, size_pack});
                if (!last_kc) begin
                  kc <= kc + pack;
                  w_kc <= w_kc + w_kc_step;
                  w <= w_kc + w_kc_step;
                end else begin
                  kc <= 16'd0;
                  if (!last_kr) begin
                    kr <= kr + 16'd1;
                    w_kr <= w_kr + w_kr_step;
                    w_kc <= w_kr + w_kr_step;
                    w <= w_kr + w_kr_step;
                  end else begin
                    kr <= 16'd0;
                    och <= och + D;
                    block <= block + 16'd1;
                    load <= 32'd0;
                    c_och <= c_och + c_block;
                    w_och <= w_och + w_och_step;
                    w_kr <= w_och + w_och_step;
                    w_kc <= w_och + w_och_step;
                    w <= w_och + w_och_step;
                    if (last_och) more <= 1'b0;
                  end
                end
              end
            end
          end
        end
      end
    end
  end
endmodule
