// Convolution unroller, bias phase: each row of DIM output pixels gets the same bias (or zeros), one MVIN3 for as many
// channel blocks as one load can hold.
//
// Channel blocks are outermost, as in the execute phase, so that the first block can be computed while the biases of
// the others are still being loaded.
module baco_loop_conv_bias #(
    parameter DIM = 16,
    parameter DMA_MAX_BYTES = 64,
    parameter ROW_BITS = 20
) (
    input wire clock,
    input wire reset,
    input wire start,                        // copy the loop's parameters and begin
    input wire [63:0] bias_addr,
    input wire no_bias,                      // fill with zeros
    input wire [15:0] ochs,
    input wire [15:0] ocols,
    input wire [ROW_BITS-1:0] block_out,     // batches*orows*ocols: rows of one channel block
    input wire [ROW_BITS-1:0] acc_start,     // first row in the accumulator
    // commands before this position have been taken: load number of the channels, first row within the block
    output reg [15:0] at_group,
    output reg [ROW_BITS-1:0] at_pixel,
    output reg cmd_valid,                    // from the start until the last command is taken
    input wire cmd_ready,
    output reg [6:0] cmd_funct,
    output reg [63:0] cmd_rs1,
    output reg [63:0] cmd_rs2
);
  localparam BLOCKS = DMA_MAX_BYTES > 4 * DIM ? DMA_MAX_BYTES / (4 * DIM) : 1;   // blocks in one load
  localparam [15:0] CHS = BLOCKS[15:0] * DIM[15:0];
  localparam [15:0] D = DIM[15:0];

  reg more;                                  // the counters stand on a command
  reg [63:0] address;                        // of the channels' first
  reg zeros;
  reg [15:0] chs, cols;
  reg [ROW_BITS-1:0] block;
  reg [15:0] och, ocol, group;
  reg [ROW_BITS-1:0] pixel, row;             // row: first of the channel block

  wire [15:0] left_cols = cols - ocol;
  wire [15:0] left_chs = chs - och;
  wire [15:0] size_cols = left_cols > D ? D : left_cols;
  wire [15:0] size_chs = left_chs > CHS ? CHS : left_chs;
  wire [ROW_BITS-1:0] pixel_next = pixel + {{(ROW_BITS-16){1'b0}}, size_cols};
  wire [ROW_BITS-1:0] local_row = row + pixel;
  wire [31:0] block_stride = {{(32-ROW_BITS){1'b0}}, block_out};
  wire _unused = &{1'b0, block_stride};

  always @(posedge clock) begin
    if (reset) cmd_valid <= 1'b0;
    else if (start) begin
      cmd_valid <= 1'b1;                     // config_ld, id 2, memory stride 0, scale 1
      cmd_funct <= 7'd0;
      cmd_rs1 <= {32'h3f800000, block_stride[15:0], 8'd1, 3'd0, 2'd2, 1'b0, 2'd1};
      cmd_rs2 <= 64'd0;
      more <= 1'b1;
      address <= bias_addr;
      zeros <= no_bias;
      chs <= ochs;
      cols <= ocols;
      block <= block_out;
      och <= 16'd0;
      ocol <= 16'd0;
      group <= 16'd0;
      pixel <= {ROW_BITS{1'b0}};
      row <= acc_start;
      at_group <= 16'd0;
      at_pixel <= {ROW_BITS{1'b0}};
    end else if (cmd_valid & cmd_ready) begin
      cmd_valid <= more;
      cmd_funct <= 7'd14;
      cmd_rs1 <= zeros ? 64'd0 : address;
      cmd_rs2 <= {size_cols, size_chs, 1'b1, {(31-ROW_BITS){1'b0}}, local_row};
      at_group <= group;
      at_pixel <= pixel;
      if (pixel_next < block) begin
        pixel <= pixel_next;
        ocol <= left_cols > D ? ocol + D : 16'd0;
      end else begin
        pixel <= {ROW_BITS{1'b0}};
        ocol <= 16'd0;
        och <= och + CHS;
        address <= address + {46'd0, CHS, 2'd0};
        group <= group + 16'd1;
        row <= row + BLOCKS[ROW_BITS-1:0] * block;
        if (left_chs <= CHS) more <= 1'b0;
      end
    end
  end
endmodule
