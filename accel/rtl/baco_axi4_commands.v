// Commands of an accelerator through registers on AXI4-Lite (`baco_axi4_registers`), a queue of them, and the first error of main
// memory. While `halted` nothing goes to the accelerator.
module baco_axi4_commands #(
    parameter ADDR_BITS = `BACO_ADDR_BITS,
    parameter COMMAND_QUEUE = 16,                    // commands that wait for the accelerator
    parameter [63:0] HASH = `BACO_AXI_CONFIGURATION  // of the configuration
) (
    input wire clock,
    input wire reset,                                // of all of it, not by software
    output wire irq,
    input wire awvalid,
    output wire awready,
    input wire [11:0] awaddr,
    input wire wvalid,
    output wire wready,
    input wire [31:0] wdata,
    input wire [3:0] wstrb,
    output wire bvalid,
    input wire bready,
    output wire [1:0] bresp,
    input wire arvalid,
    output wire arready,
    input wire [11:0] araddr,
    output wire rvalid,
    input wire rready,
    output wire [31:0] rdata,
    output wire [1:0] rresp,
    // the accelerator
    output wire cmd_valid,
    input wire cmd_ready,
    output wire [6:0] cmd_funct,
    output wire [4:0] cmd_rd,
    output wire cmd_xd,
    output wire [63:0] cmd_rs1,
    output wire [63:0] cmd_rs2,
    input wire resp_valid,
    output wire resp_ready,
    input wire [4:0] resp_rd,
    input wire [63:0] resp_data,
    input wire busy,
    input wire error_valid,
    input wire [3:0] error_code,
    input wire [6:0] error_funct,
    input wire [63:0] error_rs1,
    input wire [63:0] error_rs2,
    // main memory: errors of its bursts, and whether one is under way
    input wire read_error,
    input wire [1:0] read_response,
    input wire [ADDR_BITS-1:0] read_address,
    input wire write_error,
    input wire [1:0] write_response,
    input wire [ADDR_BITS-1:0] write_address,
    input wire bus_idle,
    output wire halted,                              // the accelerator is cut off from the bus, or in reset
    output wire restart                              // the accelerator and what it left behind are reset
);
  // the first error of main memory since the last one was forgotten
  reg bus_error, bus_error_write;
  reg [1:0] bus_error_response;
  reg [ADDR_BITS-1:0] bus_error_address;
  wire bus_forget;
  always @(posedge clock)
    if (reset || bus_forget) bus_error <= 1'b0;
    else if (!bus_error && (read_error || write_error)) begin
      bus_error <= 1'b1;
      bus_error_write <= !read_error;
      bus_error_response <= read_error ? read_response : write_response;
      bus_error_address <= read_error ? read_address : write_address;
    end

  // commands wait here
  wire queued, queue_space;
  wire [6:0] new_funct;
  wire [4:0] new_rd;
  wire new_xd;
  wire [63:0] new_rs1, new_rs2;
  wire new_valid;
  baco_fifo #(.WIDTH(141), .DEPTH(COMMAND_QUEUE)) queue (
      .clock(clock), .reset(reset || restart), .in_valid(new_valid && !halted), .in_ready(queue_space),
      .in_data({new_funct, new_rd, new_xd, new_rs1, new_rs2}), .out_valid(queued), .out_ready(cmd_ready && !halted),
      .out_data({cmd_funct, cmd_rd, cmd_xd, cmd_rs1, cmd_rs2}));
  assign cmd_valid = queued && !halted;
  wire command_taken = cmd_valid && cmd_ready;

  baco_axi4_registers #(.ADDR_BITS(ADDR_BITS), .COMMAND_QUEUE(COMMAND_QUEUE), .HASH(HASH)) registers (
      .clock(clock), .reset(reset), .irq(irq),
      .awvalid(awvalid), .awready(awready), .awaddr(awaddr), .wvalid(wvalid), .wready(wready),
      .wdata(wdata), .wstrb(wstrb), .bvalid(bvalid), .bready(bready), .bresp(bresp),
      .arvalid(arvalid), .arready(arready), .araddr(araddr), .rvalid(rvalid), .rready(rready),
      .rdata(rdata), .rresp(rresp),
      .new_valid(new_valid), .new_ready(queue_space && !halted), .new_funct(new_funct), .new_rd(new_rd), .new_xd(new_xd),
      .new_rs1(new_rs1), .new_rs2(new_rs2), .command_taken(command_taken), .working(queued || busy),
      .resp_valid(resp_valid), .resp_ready(resp_ready), .resp_rd(resp_rd), .resp_data(resp_data),
      .error_valid(error_valid), .error_code(error_code), .error_funct(error_funct), .error_rs1(error_rs1),
      .error_rs2(error_rs2), .bus_error(bus_error), .bus_error_write(bus_error_write),
      .bus_error_response(bus_error_response), .bus_error_address(bus_error_address), .bus_forget(bus_forget),
      .bus_idle(bus_idle), .halted(halted), .restart(restart));
endmodule
