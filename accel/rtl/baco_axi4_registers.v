// The registers of the accelerator on AXI4-Lite, its interrupt, and its reset by software. baco.accel.bus says what they mean.
//
// An address and data are held until both are there; a write of COMMAND is answered when the command has a place in the queue.
module baco_axi4_registers #(
    parameter ADDR_BITS = 40,
    parameter COMMAND_QUEUE = 16,
    parameter [63:0] HASH = 64'd0        // of the configuration
) (
    input wire clock,
    input wire reset,                    // of all of it, not by software
    output wire irq,
    // AXI4-Lite
    input wire awvalid,
    output wire awready,
    input wire [11:0] awaddr,
    input wire wvalid,
    output wire wready,
    input wire [31:0] wdata,
    input wire [3:0] wstrb,
    output reg bvalid,
    input wire bready,
    output wire [1:0] bresp,
    input wire arvalid,
    output wire arready,
    input wire [11:0] araddr,
    output reg rvalid,
    input wire rready,
    output reg [31:0] rdata,
    output wire [1:0] rresp,
    // commands to the queue
    output wire new_valid,
    input wire new_ready,
    output wire [6:0] new_funct,
    output wire [4:0] new_rd,
    output wire new_xd,
    output wire [63:0] new_rs1,
    output wire [63:0] new_rs2,
    input wire command_taken,            // one left the queue
    input wire working,                  // commands wait or are under way
    // results, errors
    input wire resp_valid,
    output wire resp_ready,
    input wire [4:0] resp_rd,
    input wire [63:0] resp_data,
    input wire error_valid,
    input wire [3:0] error_code,
    input wire [6:0] error_funct,
    input wire [63:0] error_rs1,
    input wire [63:0] error_rs2,
    input wire bus_error,
    input wire bus_error_write,
    input wire [1:0] bus_error_response,
    input wire [ADDR_BITS-1:0] bus_error_address,
    output wire bus_forget,
    // reset by software
    input wire bus_idle,                 // no burst is under way
    output wire halted,
    output wire restart
);
  localparam [1:0] OKAY = 2'b00, SLVERR = 2'b10;

  // ---------------------------------------------------------------- writes
  reg address_held, data_held, refused;
  reg [11:0] address;
  reg [31:0] data;
  reg [3:0] strobes;
  wire whole = strobes == 4'b1111;
  wire both = address_held && data_held && !bvalid;
  wire is_command = address == `BACO_AXI_COMMAND && whole;
  assign new_valid = both && is_command;
  wire act = both && (!is_command || new_ready);
  wire write = act && whole;
  assign awready = !address_held;
  assign wready = !data_held;
  assign bresp = refused ? SLVERR : OKAY;
  always @(posedge clock)
    if (reset) begin
      address_held <= 1'b0;
      data_held <= 1'b0;
      bvalid <= 1'b0;
    end else begin
      if (awvalid && awready) address_held <= 1'b1;
      if (wvalid && wready) data_held <= 1'b1;
      if (act) begin
        address_held <= 1'b0;
        data_held <= 1'b0;
        bvalid <= 1'b1;
        refused <= !whole && strobes != 4'b0000;
      end else if (bready) bvalid <= 1'b0;
    end
  always @(posedge clock) begin
    if (awvalid && awready) address <= awaddr;
    if (wvalid && wready) {data, strobes} <= {wdata, wstrb};
  end

  reg [63:0] rs1, rs2;
  reg [3:0] enabled;
  always @(posedge clock)
    if (reset) enabled <= 4'd0;
    else if (write && address == `BACO_AXI_INTERRUPT) enabled <= data[3:0];
  always @(posedge clock)
    if (write)
      case (address)
        `BACO_AXI_RS1_LOW: rs1[31:0] <= data;
        `BACO_AXI_RS1_HIGH: rs1[63:32] <= data;
        `BACO_AXI_RS2_LOW: rs2[31:0] <= data;
        `BACO_AXI_RS2_HIGH: rs2[63:32] <= data;
        default: ;
      endcase
  assign new_funct = data[`BACO_AXI_COMMAND_FUNCT];
  assign new_rd = data[`BACO_AXI_COMMAND_RD];
  assign new_xd = data[`BACO_AXI_COMMAND_RESULT];
  assign new_rs1 = rs1;
  assign new_rs2 = rs2;

  wire control = write && address == `BACO_AXI_CONTROL;
  assign resp_ready = control && data[`BACO_AXI_CONTROL_TAKE_RESULT];
  assign bus_forget = control && data[`BACO_AXI_CONTROL_FORGET_BUS_ERROR];

  // ---------------------------------------------------------------- reset by software: when the bus has come to rest
  reg ending;
  reg [2:0] left;                        // cycles of reset
  assign restart = left != 3'd0;
  assign halted = ending || restart;
  always @(posedge clock)
    if (reset) begin
      ending <= 1'b0;
      left <= 3'd0;
    end else begin
      if (control && data[`BACO_AXI_CONTROL_RESET]) ending <= 1'b1;
      else if (ending && bus_idle) begin
        ending <= 1'b0;
        left <= 3'd4;
      end
      if (restart) left <= left - 3'd1;
    end

  // ---------------------------------------------------------------- reads
  localparam COUNT_BITS = $clog2(COMMAND_QUEUE + 1);
  localparam [31:0] PLACES = COMMAND_QUEUE;
  reg [COUNT_BITS-1:0] free;
  wire placed = new_valid && new_ready;
  always @(posedge clock)
    if (reset || restart) free <= PLACES[COUNT_BITS-1:0];
    else if (placed && !command_taken) free <= free - 1'b1;
    else if (command_taken && !placed) free <= free + 1'b1;

  wire busy = working || halted;
  wire [7:0] places = {{(8 - COUNT_BITS) {1'b0}}, free};
  wire [4:0] destination = resp_valid ? resp_rd : 5'd0;
  wire [31:0] status = {11'd0, destination, places, 3'd0, halted, bus_error, error_valid, resp_valid, busy};
  wire [63:0] failed_at = {{(64 - ADDR_BITS) {1'b0}}, bus_error_address};
  reg [31:0] shown;
  always @*
    case (araddr)
      `BACO_AXI_ID: shown = `BACO_AXI_IDENTIFIER;
      `BACO_AXI_VERSION: shown = 32'd1;
      `BACO_AXI_HASH_LOW: shown = HASH[31:0];
      `BACO_AXI_HASH_HIGH: shown = HASH[63:32];
      `BACO_AXI_RS1_LOW: shown = rs1[31:0];
      `BACO_AXI_RS1_HIGH: shown = rs1[63:32];
      `BACO_AXI_RS2_LOW: shown = rs2[31:0];
      `BACO_AXI_RS2_HIGH: shown = rs2[63:32];
      `BACO_AXI_STATUS: shown = status;
      `BACO_AXI_RESULT_LOW: shown = resp_data[31:0];
      `BACO_AXI_RESULT_HIGH: shown = resp_data[63:32];
      `BACO_AXI_INTERRUPT: shown = {28'd0, enabled};
      `BACO_AXI_ERROR: shown = {17'd0, error_funct, 4'd0, error_code};
      `BACO_AXI_ERROR_RS1_LOW: shown = error_rs1[31:0];
      `BACO_AXI_ERROR_RS1_HIGH: shown = error_rs1[63:32];
      `BACO_AXI_ERROR_RS2_LOW: shown = error_rs2[31:0];
      `BACO_AXI_ERROR_RS2_HIGH: shown = error_rs2[63:32];
      `BACO_AXI_BUS_ERROR: shown = {28'd0, bus_error_response, bus_error_write, bus_error};
      `BACO_AXI_BUS_ADDRESS_LOW: shown = failed_at[31:0];
      `BACO_AXI_BUS_ADDRESS_HIGH: shown = failed_at[63:32];
      default: shown = 32'd0;
    endcase
  assign arready = !rvalid;
  assign rresp = OKAY;
  always @(posedge clock)
    if (reset) rvalid <= 1'b0;
    else if (arvalid && arready) begin
      rvalid <= 1'b1;
      rdata <= shown;
    end else if (rready) rvalid <= 1'b0;

  assign irq = |(enabled & {bus_error, error_valid, resp_valid, !busy});
endmodule
