// Convolution unroller, weight phase: for each group of output channel blocks, kernel row and kernel column, one
// MVIN2 for every DIM input channels (trans_weight_0132: output and input channels change places).
module baco_loop_conv_weights #(
    parameter DIM = 16,
    parameter DMA_MAX_BYTES = 64,
    parameter ROW_BITS = 20
) (
    input wire clock,
    input wire reset,
    input wire start,                        // copy the loop's parameters and begin
    input wire [63:0] weights_addr,
    input wire [15:0] ochs,
    input wire [15:0] ichs,
    input wire [15:0] krows,
    input wire [15:0] kcols,
    input wire dw,
    input wire trans_weight_1203,
    input wire trans_weight_0132,
`ifdef BACO_PACKED_WEIGHTS
    input wire weights_packed,               // memory holds elements of 4 bits
`endif
    input wire [15:0] in_channels,
    input wire [15:0] weight_stride,
    input wire [31:0] weight_col,            // main memory steps, see the setup
    input wire [31:0] weight_row,
    input wire [31:0] weight_plane,
    input wire [15:0] kernel_chs,            // rows of a kernel position
    input wire [ROW_BITS-1:0] kernel_block,  // rows of a channel block
    input wire [ROW_BITS-1:0] sp_start,      // first row in the scratchpad
    // commands before this position have been taken: number of the outermost step, load number within it
    output reg [15:0] at_group,
    output reg [31:0] at_load,
    output reg cmd_valid,                    // from the start until the last command is taken
    input wire cmd_ready,
    output reg [6:0] cmd_funct,
    output reg [63:0] cmd_rs1,
    output reg [63:0] cmd_rs2
);
  localparam BLOCKS = DMA_MAX_BYTES > `ROW_BYTES ? DMA_MAX_BYTES / `ROW_BYTES : 1;   // blocks in one load
  localparam LOG_DIM = $clog2(DIM);
  localparam [15:0] WIDE = BLOCKS[15:0] * DIM[15:0];
  localparam [15:0] D = DIM[15:0];

  reg more;                                  // the counters stand on a command
  // outer: the channels which the outermost loop walks, inner: those of the innermost
  reg swapped;                               // trans_weight_0132
`ifdef BACO_PACKED_WEIGHTS
  reg halved;                                // weights_packed
`endif
  reg [63:0] base;
  reg [15:0] outs, ins, rows, cols;
  reg [31:0] in_step, out_step, col_step, row_step;                // main memory
  reg [ROW_BITS-1:0] local_in_step, local_out_step, local_col_step;
  reg [15:0] och, kch, kr, kc, group;
  reg [31:0] load;
  reg [31:0] at_och, at_kr, at_kc, at;       // main memory offset where each loop stands
  reg [ROW_BITS-1:0] row_och, row_kc, row;   // local row likewise (kernel rows follow one another)

  wire [15:0] left_outs = outs - och;
  wire [15:0] left_ins = ins - kch;
  wire [15:0] most_outs = swapped ? D : WIDE;
  wire [15:0] most_ins = swapped ? WIDE : D;
  wire last_och = left_outs <= most_outs;
  wire last_kch = left_ins <= most_ins;
  wire last_kc = kc + 16'd1 >= cols;
  wire last_kr = kr + 16'd1 >= rows;
  wire [15:0] size_outs = last_och ? left_outs : most_outs;
  wire [15:0] size_ins = last_kch ? left_ins : most_ins;
  wire [31:0] block_stride = {{(32-ROW_BITS){1'b0}}, kernel_block};
  wire [ROW_BITS-1:0] wide_block = BLOCKS[ROW_BITS-1:0] * kernel_block;
  wire [31:0] stride = dw ? 32'd1 : trans_weight_1203 ? weight_plane :
                       {16'd0, trans_weight_0132 ? in_channels : weight_stride};
  wire _unused = &{1'b0, block_stride};

  always @(posedge clock) begin
    if (reset) cmd_valid <= 1'b0;
    else if (start) begin
      cmd_valid <= 1'b1;                     // config_ld, id 1, scale 1
      cmd_funct <= 7'd0;
`ifdef BACO_PACKED_WEIGHTS
      cmd_rs1 <= {32'h3f800000, block_stride[15:0], 8'd1, 2'd0, weights_packed, 2'd1, 1'b0, 2'd1};
      cmd_rs2 <= {32'd0, weights_packed ? {1'b0, stride[31:1]} : stride};
      halved <= weights_packed;
`else
      cmd_rs1 <= {32'h3f800000, block_stride[15:0], 8'd1, 3'd0, 2'd1, 1'b0, 2'd1};
      cmd_rs2 <= {32'd0, `OFFSET(stride)};
`endif
      more <= 1'b1;
      swapped <= trans_weight_0132;
      base <= weights_addr;
      {outs, ins, rows, cols} <= {ochs, ichs, krows, kcols};
      {col_step, row_step} <= {weight_col, weight_row};
      // Rows of a load are `stride` apart, its columns adjacent.
      in_step <= dw ? 32'd0 : trans_weight_0132 & !trans_weight_1203 ? {16'd0, WIDE} : stride << LOG_DIM;
      out_step <= dw ? 32'd0 : trans_weight_0132 & !trans_weight_1203 ? stride << LOG_DIM : {16'd0, WIDE};
      local_in_step <= trans_weight_0132 ? wide_block : {{(ROW_BITS-16){1'b0}}, D};
      local_out_step <= trans_weight_0132 ? {{(ROW_BITS-16){1'b0}}, D} : wide_block;
      local_col_step <= {{(ROW_BITS-16){1'b0}}, kernel_chs};
      {och, kch, kr, kc, group} <= 80'd0;
      load <= 32'd0;
      {at_och, at_kr, at_kc, at} <= 128'd0;
      row_och <= sp_start;
      row_kc <= sp_start;
      row <= sp_start;
      at_group <= 16'd0;
      at_load <= 32'd0;
    end else if (cmd_valid & cmd_ready) begin
      cmd_valid <= more;
      cmd_funct <= 7'd1;
`ifdef BACO_PACKED_WEIGHTS
      cmd_rs1 <= base + {32'd0, halved ? {1'b0, at[31:1]} : at};
`else
      cmd_rs1 <= base + {32'd0, `OFFSET(at)};
`endif
      cmd_rs2 <= {swapped ? size_outs : size_ins, swapped ? size_ins : size_outs, {(32-ROW_BITS){1'b0}}, row};
      at_group <= group;
      at_load <= load;
      load <= load + 32'd1;
      if (!last_kch) begin
        kch <= kch + most_ins;
        at <= at + in_step;
        row <= row + local_in_step;
      end else begin
        kch <= 16'd0;
        row_kc <= row_kc + local_col_step;
        row <= row_kc + local_col_step;
        if (!last_kc) begin
          kc <= kc + 16'd1;
          at_kc <= at_kc + col_step;
          at <= at_kc + col_step;
        end else begin
          kc <= 16'd0;
          if (!last_kr) begin
            kr <= kr + 16'd1;
            at_kr <= at_kr + row_step;
            at_kc <= at_kr + row_step;
            at <= at_kr + row_step;
          end else begin
            kr <= 16'd0;
            och <= och + most_outs;
            group <= group + 16'd1;
            load <= 32'd0;
            at_och <= at_och + out_step;
            at_kr <= at_och + out_step;
            at_kc <= at_och + out_step;
            at <= at_och + out_step;
            row_och <= row_och + local_out_step;
            row_kc <= row_och + local_out_step;
            row <= row_och + local_out_step;
            if (last_och) more <= 1'b0;
          end
        end
      end
    end
  end
endmodule
