// Several users of registers on one AXI4-Lite port, for testbenches: one transaction at a time, in turn. Addresses of the user with
// number N have N above their 12 bits.
module axi4_join #(
    parameter UNITS = 2,
    parameter SELECT_BITS = 1
) (
    input wire clock,
    input wire reset,
    // users, the first in the lowest bits
    input wire [UNITS-1:0] unit_awvalid,
    output wire [UNITS-1:0] unit_awready,
    input wire [UNITS-1:0] unit_wvalid,
    output wire [UNITS-1:0] unit_wready,
    output wire [UNITS-1:0] unit_bvalid,
    input wire [UNITS-1:0] unit_bready,
    input wire [UNITS-1:0] unit_arvalid,
    output wire [UNITS-1:0] unit_arready,
    output wire [UNITS-1:0] unit_rvalid,
    input wire [UNITS-1:0] unit_rready,
    input wire [UNITS*12-1:0] unit_address,
    input wire [UNITS*32-1:0] unit_data,
    // the port; data and responses of answers are everybody's
    output wire awvalid,
    input wire awready,
    output wire wvalid,
    input wire wready,
    output wire [31:0] wdata,
    input wire bvalid,
    output wire bready,
    output wire arvalid,
    input wire arready,
    output wire [SELECT_BITS+11:0] address,
    input wire rvalid,
    output wire rready
);
  reg held = 0;
  integer owner = 0, n;
  wire [UNITS-1:0] wants = unit_awvalid | unit_wvalid | unit_arvalid;
  wire [UNITS-1:0] its = held ? {{(UNITS - 1) {1'b0}}, 1'b1} << owner : {UNITS{1'b0}};
  assign awvalid = (unit_awvalid & its) != 0;
  assign wvalid = (unit_wvalid & its) != 0;
  assign arvalid = (unit_arvalid & its) != 0;
  assign bready = (unit_bready & its) != 0;
  assign rready = (unit_rready & its) != 0;
  assign unit_awready = its & {UNITS{awready}};
  assign unit_wready = its & {UNITS{wready}};
  assign unit_arready = its & {UNITS{arready}};
  assign unit_bvalid = its & {UNITS{bvalid}};
  assign unit_rvalid = its & {UNITS{rvalid}};
  assign address = {owner[SELECT_BITS-1:0], unit_address[owner*12 +: 12]};
  assign wdata = unit_data[owner*32 +: 32];
  always @(posedge clock)
    if (reset) held <= 0;
    else if (held) held <= !((bvalid && bready) || (rvalid && rready));
    else if (wants != 0) begin
      held <= 1;
      owner = (owner + 1) % UNITS;
      for (n = 0; n < UNITS; n = n + 1) if (!wants[owner]) owner = (owner + 1) % UNITS;
    end
endmodule
