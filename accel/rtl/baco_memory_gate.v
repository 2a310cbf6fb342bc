// Between an accelerator's memory port and what several share: cuts the accelerator off while `halted`, without parting what is
// under way. What is offered then still goes out, and what comes for it is dropped.
module baco_memory_gate #(
    parameter DMA_BITS = 128
) (
    input wire clock,
    input wire reset,                    // of all of it, not by software
    input wire halted,
    output wire idle,                    // nothing is offered or under way
    // the accelerator
    input wire rd_req_valid,
    output wire rd_req_ready,
    input wire [2:0] rd_req_size,        // log2 of the bytes
    output wire rd_resp_valid,
    input wire rd_resp_ready,
    input wire wr_req_valid,
    output wire wr_req_ready,
    output wire wr_ack_valid,
    // what is shared
    output wire out_rd_req_valid,
    input wire out_rd_req_ready,
    input wire out_rd_resp_valid,
    output wire out_rd_resp_ready,
    output wire out_wr_req_valid,
    input wire out_wr_req_ready,
    input wire out_wr_ack_valid
);
  localparam [31:0] BEAT_LOG = $clog2(DMA_BITS / 8);
  reg read_offered, write_offered;       // in the last cycle, and not taken
  reg [15:0] reads, writes;              // beats that are still to come, and to be acknowledged
  wire [15:0] beats = 16'd1 << (rd_req_size - BEAT_LOG[2:0]);

  assign out_rd_req_valid = rd_req_valid && (!halted || read_offered);
  assign rd_req_ready = out_rd_req_ready && out_rd_req_valid;
  assign rd_resp_valid = out_rd_resp_valid && !halted;
  assign out_rd_resp_ready = rd_resp_ready || halted;
  assign out_wr_req_valid = wr_req_valid && (!halted || write_offered);
  assign wr_req_ready = out_wr_req_ready && out_wr_req_valid;
  assign wr_ack_valid = out_wr_ack_valid && !halted;
  assign idle = reads == 16'd0 && writes == 16'd0 && !read_offered && !write_offered;

  wire asked = out_rd_req_valid && out_rd_req_ready;
  wire wrote = out_wr_req_valid && out_wr_req_ready;
  always @(posedge clock)
    if (reset) begin
      read_offered <= 1'b0;
      write_offered <= 1'b0;
      reads <= 16'd0;
      writes <= 16'd0;
    end else begin
      read_offered <= out_rd_req_valid && !out_rd_req_ready;
      write_offered <= out_wr_req_valid && !out_wr_req_ready;
      reads <= reads + (asked ? beats : 16'd0) - {15'd0, out_rd_resp_valid && out_rd_resp_ready};
      writes <= writes + {15'd0, wrote} - {15'd0, out_wr_ack_valid};
    end
endmodule
