// Convolution unroller, store phase: without pooling one MVOUT for every run of at most DIM output pixels of a channel
// block; with pooling one for every image and channel block, between two config_st.
//
// Channel blocks are outermost, so that a block is stored as soon as its last command has gone to the array.
module baco_loop_conv_store #(
    parameter DIM = 16,
    parameter ROW_BITS = 20
) (
    input wire clock,
    input wire reset,
    input wire start,                        // copy the loop's parameters and begin
    input wire [63:0] output_addr,
    input wire [15:0] batches,
    input wire [15:0] ochs,
    input wire [15:0] orows,
    input wire [15:0] ocols,
    input wire no_pool,
    input wire [1:0] activation,
    input wire [15:0] out_stride,
    input wire [7:0] pool_size,
    input wire [7:0] pool_stride,
    input wire [7:0] pool_upad,
    input wire [7:0] pool_lpad,
    input wire [15:0] pool_out_col_dim,
    input wire [15:0] pool_out_rows,
    input wire [15:0] pool_out_cols,
    input wire [31:0] out_pixel,             // main memory steps, see the setup
    input wire [31:0] out_line,
    input wire [31:0] out_image,
    input wire [ROW_BITS-1:0] image_out,     // local rows, see the setup
    input wire [ROW_BITS-1:0] block_out,
    input wire [ROW_BITS-1:0] acc_start,     // first row in the accumulator
    // computes of this loop: all taken; else, if live, all of the channel blocks before one
    input wire execute_done,
    input wire execute_live,
    input wire [15:0] execute_block,
    output reg active,                       // from the start until the last command is taken
    output wire cmd_valid,
    input wire cmd_ready,
    output reg [6:0] cmd_funct,
    output reg [63:0] cmd_rs1,
    output reg [63:0] cmd_rs2
);
  localparam LOG_DIM = $clog2(DIM);
  localparam [15:0] D = DIM[15:0];

  reg more;                                  // the counters stand on a command
  reg restore;                               // pooling has to be switched off at the end
  reg pool;
  reg [63:0] base;
  reg [15:0] n_b, n_och, n_orow, n_ocol;
  reg [31:0] run_step, line_step, image_step, st_stride;
  reg [1:0] relu;
  reg [ROW_BITS-1:0] image, block_rows;
  reg [15:0] b, orow, ocol, och, block;
  reg [15:0] cmd_block;                      // channel block of the command
  reg cmd_move;                              // it is an MVOUT, which depends on computes
  reg blank;                                 // no command yet
  reg [31:0] at_b, at_orow, at;              // main memory offset where each loop stands
  reg [ROW_BITS-1:0] row_och, row;           // local row likewise

  // of the config_st that switches pooling on; all ones in rs2 keep the scale
  wire [63:0] pool_fields = {ocols[7:0], orows[7:0], pool_out_cols[7:0], pool_out_rows[7:0], pool_out_col_dim[7:0],
                             12'd0, pool_lpad[1:0], pool_upad[1:0], pool_size[1:0], pool_stride[1:0],
                             activation, 2'd2};
  wire [15:0] left_och = n_och - och;
  wire [15:0] left_ocol = n_ocol - ocol;
  wire [15:0] size_och = left_och > D ? D : left_och;
  wire [15:0] size_ocol = left_ocol > D ? D : left_ocol;
  wire last_ocol = pool || left_ocol <= D;
  wire last_orow = pool || n_orow - orow <= 16'd1;
  wire last_b = n_b - b <= 16'd1;
  wire last_och = left_och <= D;
  wire [15:0] och_next = och + D;
  wire _unused = &{1'b0, pool_size, pool_stride, pool_upad, pool_lpad, pool_out_col_dim, pool_out_rows, pool_out_cols};
`ifdef BACO_WIDE_INTEGERS
  wire _unused_stride = st_stride[31];
`endif

  assign cmd_valid = active & !blank & (!cmd_move | execute_done | (execute_live & cmd_block < execute_block));

  always @(posedge clock) begin
    if (reset) active <= 1'b0;
    else if (start) begin
      active <= 1'b1;
      blank <= no_pool;
      cmd_funct <= 7'd0;
      cmd_rs1 <= pool_fields;
`ifdef BACO_WIDE_ELEMENTS
      cmd_rs2 <= {32'hffffffff, 15'd0, out_stride, 1'b0};
`else
      cmd_rs2 <= {32'hffffffff, 16'd0, out_stride};
`endif
      cmd_move <= 1'b0;
      cmd_block <= 16'd0;
      more <= 1'b1;
      restore <= !no_pool;
      pool <= !no_pool;
      relu <= activation;
      st_stride <= {16'd0, out_stride};
      base <= output_addr;
      {n_b, n_och, n_orow, n_ocol} <= {batches, ochs, orows, ocols};
      run_step <= out_pixel << LOG_DIM;
      line_step <= out_line;
      image_step <= out_image;
      image <= image_out;
      block_rows <= block_out;
      {b, orow, ocol, och, block} <= 80'd0;
      {at_b, at_orow, at} <= 96'd0;
      row_och <= acc_start;
      row <= acc_start;
    end else if (active & blank | cmd_valid & cmd_ready) begin
      blank <= 1'b0;
      cmd_move <= more;
      cmd_block <= block;
      if (more) begin
        cmd_funct <= 7'd3;
        cmd_rs1 <= base + {32'd0, `OFFSET(at)};
        // a pooled store ignores the number of rows
        cmd_rs2 <= {size_ocol, size_och, 1'b1, {(31-ROW_BITS){1'b0}}, row};
        if (!last_ocol) begin
          ocol <= ocol + D;
          at <= at + run_step;
          row <= row + {{(ROW_BITS-16){1'b0}}, D};
        end else begin
          ocol <= 16'd0;
          row <= row + (pool ? image : {{(ROW_BITS-16){1'b0}}, left_ocol});
          if (!last_orow) begin
            orow <= orow + 16'd1;
            at_orow <= at_orow + line_step;
            at <= at_orow + line_step;
          end else begin
            orow <= 16'd0;
            if (!last_b) begin
              b <= b + 16'd1;
              at_b <= at_b + image_step;
              at_orow <= at_b + image_step;
              at <= at_b + image_step;
            end else begin
              b <= 16'd0;
              och <= och_next;
              block <= block + 16'd1;
              {at_b, at_orow, at} <= {3{16'd0, och_next}};
              row_och <= row_och + block_rows;
              row <= row_och + block_rows;
              if (last_och) more <= 1'b0;
            end
          end
        end
      end else if (restore) begin
        restore <= 1'b0;
        cmd_funct <= 7'd0;
        cmd_rs1 <= {60'd0, relu, 2'd2};
        cmd_rs2 <= {32'hffffffff, `OFFSET(st_stride)};
      end else active <= 1'b0;
    end
  end
endmodule
