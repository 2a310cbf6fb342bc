// What macros and legality must know of the configuration, in the order of the commands that pass here.
//
// Whoever needs it watches the commands that leave him: so he knows it before they have come to the reservation station.
// A command that turns out to be illegal is followed all the same: after an error nothing counts any more.
module baco_configuration #(
    parameter DIM = 16
) (
    input wire clock,
    input wire reset,
    input wire passes,                            // a command does in this cycle
    input wire [6:0] funct,
    input wire [63:0] rs1,
    input wire [63:0] rs2,
    output reg preloaded,                         // a PRELOAD is without its COMPUTE
    output reg [2:0] ld_set,                      // by load state: there was a CONFIG_LD
    output reg [2:0] ld_plain,                    // ... with a block stride of DIM and without pixel repeats
    output reg [2:0] ld_shrink,
    output reg ex_set,                            // there was a CONFIG_EX of everything
    output wire ex_ws,                            // weight-stationary
    output reg [1:0] ex_transposes,               // B, A
    output reg [15:0] ex_stride_a,
    output reg [15:0] ex_stride_c,
    output reg st_set,                            // there was a CONFIG_ST
    output reg gathered,                          // ... with pooling or in 1-D mode: rows come from the tile
`ifdef BACO_ROW_FUNCTIONS
    output wire st_by_row,                        // rows that are stored are softmaxed or normalised
`endif
    output wire st_plain,                         // without pooling, 1-D mode and functions of rows
    output wire new_os                            // what a CONFIG_EX says of the dataflow
);
  localparam [31:0] DIM_VALUE = DIM;
  localparam [15:0] DIM_ROWS = DIM_VALUE[15:0];
  reg os;
  assign ex_ws = !os;
`ifdef BACO_WS
`ifdef BACO_OS
  assign new_os = !rs1[2];
`else
  assign new_os = 1'b0;
`endif
`else
  assign new_os = 1'b1;
`endif
`ifdef BACO_MAX_POOL
  wire new_pooling = rs1[5:4] != 2'd0;
`else
  wire new_pooling = 1'b0;
`endif
`ifdef BACO_ROW_FUNCTIONS
  reg by_row;
  assign st_by_row = by_row;
  assign st_plain = !gathered && !by_row;
  always @(posedge clock)
    if (reset) by_row <= 1'b0;
    else if (passes && funct == 7'd26) by_row <= rs1[1];
`else
  assign st_plain = !gathered;
`endif

  wire configure = passes && funct == 7'd0;
  always @(posedge clock) begin
    if (configure && rs1[1:0] == 2'd0) begin
      ex_stride_a <= rs1[31:16];
      ex_stride_c <= rs2[63:48];
      if (!rs1[7]) begin
        ex_set <= 1'b1;
        os <= new_os;
        ex_transposes <= rs1[9:8];
      end
    end
    if (configure && rs1[1:0] == 2'd1 && rs1[4:3] != 2'd3) begin
      ld_set[rs1[4:3]] <= 1'b1;
      ld_shrink[rs1[4:3]] <= rs1[2];
`ifdef BACO_FIRST_LAYER
      ld_plain[rs1[4:3]] <= rs1[31:16] == DIM_ROWS && rs1[15:9] == 7'd0;
`else
      ld_plain[rs1[4:3]] <= rs1[31:16] == DIM_ROWS;
`endif
`ifdef BACO_BLOCK_WEIGHTS
      // nor with elements of blocks
      if (rs1[7:6] != 2'd0) ld_plain[rs1[4:3]] <= 1'b0;
`endif
    end
    if (configure && rs1[1:0] == 2'd2) begin
      st_set <= 1'b1;
      gathered <= new_pooling || rs1[7:6] != 2'd0;
    end
    if (passes && funct == 7'd6) preloaded <= 1'b1;
    if (passes && (funct == 7'd4 || funct == 7'd5)) preloaded <= 1'b0;
    if (reset) begin
      preloaded <= 1'b0;
      ld_set <= 3'd0;
      ld_plain <= 3'd0;
      ld_shrink <= 3'd0;
      ex_set <= 1'b0;
      os <= 1'b0;
      ex_transposes <= 2'd0;
      ex_stride_a <= 16'd1;
      ex_stride_c <= 16'd1;
      st_set <= 1'b0;
      gathered <= 1'b0;
    end
  end

  wire _unused = &{1'b0, rs1, rs2};
endmodule
