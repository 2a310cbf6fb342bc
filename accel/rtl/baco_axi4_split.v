// One AXI4-Lite port for the registers of several units: those of unit N lie from N * 4096 on. One write and one read at a time.
// What lies behind the last unit is answered with DECERR.
module baco_axi4_split #(
    parameter UNITS = 2,
    parameter SELECT_BITS = 1            // of addresses: those above the 12 of a unit
) (
    input wire clock,
    input wire reset,
    input wire awvalid,
    output wire awready,
    input wire [SELECT_BITS-1:0] awselect,
    input wire wvalid,
    output wire wready,
    output wire bvalid,
    input wire bready,
    output reg [1:0] bresp,
    input wire arvalid,
    output wire arready,
    input wire [SELECT_BITS-1:0] arselect,
    output wire rvalid,
    input wire rready,
    output reg [31:0] rdata,
    output reg [1:0] rresp,
    // units, the first in the lowest bits; addresses and data of writes are those of the port
    output wire [UNITS-1:0] unit_awvalid,
    input wire [UNITS-1:0] unit_awready,
    output wire [UNITS-1:0] unit_wvalid,
    input wire [UNITS-1:0] unit_wready,
    input wire [UNITS-1:0] unit_bvalid,
    output wire [UNITS-1:0] unit_bready,
    input wire [UNITS*2-1:0] unit_bresp,
    output wire [UNITS-1:0] unit_arvalid,
    input wire [UNITS-1:0] unit_arready,
    input wire [UNITS-1:0] unit_rvalid,
    output wire [UNITS-1:0] unit_rready,
    input wire [UNITS*32-1:0] unit_rdata,
    input wire [UNITS*2-1:0] unit_rresp
);
  localparam [1:0] DECERR = 2'b11;
  integer unit;

  function [UNITS:0] chosen;             // the bit of the unit with a number; the highest for none
    input [SELECT_BITS-1:0] number;
    integer at;
    begin
      chosen = {1'b1, {UNITS{1'b0}}};
      for (at = 0; at < UNITS; at = at + 1)
        if (number == at[SELECT_BITS-1:0]) chosen = {{UNITS{1'b0}}, 1'b1} << at;
    end
  endfunction

  // ---------------------------------------------------------------- writes: an address, then its data, then the answer
  reg write_open, data_taken;
  reg [UNITS:0] write_unit;
  wire [UNITS:0] write_asked = chosen(awselect);
  wire nowhere = write_unit[UNITS];
  assign unit_awvalid = write_asked[UNITS-1:0] & {UNITS{awvalid && !write_open}};
  assign awready = !write_open && (write_asked[UNITS] || (write_asked[UNITS-1:0] & unit_awready) != {UNITS{1'b0}});
  assign unit_wvalid = write_unit[UNITS-1:0] & {UNITS{wvalid && write_open && !data_taken}};
  assign wready = write_open && !data_taken && (nowhere || (write_unit[UNITS-1:0] & unit_wready) != {UNITS{1'b0}});
  assign bvalid = write_open && data_taken && (nowhere || (write_unit[UNITS-1:0] & unit_bvalid) != {UNITS{1'b0}});
  assign unit_bready = write_unit[UNITS-1:0] & {UNITS{bready && write_open && data_taken}};
  always @* begin
    bresp = nowhere ? DECERR : 2'b00;
    for (unit = 0; unit < UNITS; unit = unit + 1) bresp = bresp | (unit_bresp[unit*2 +: 2] & {2{write_unit[unit]}});
  end
  always @(posedge clock)
    if (reset) begin
      write_open <= 1'b0;
      data_taken <= 1'b0;
    end else begin
      if (awvalid && awready) begin
        write_open <= 1'b1;
        write_unit <= write_asked;
      end
      if (wvalid && wready) data_taken <= 1'b1;
      if (bvalid && bready) begin
        write_open <= 1'b0;
        data_taken <= 1'b0;
      end
    end

  // ---------------------------------------------------------------- reads
  reg read_open;
  reg [UNITS:0] read_unit;
  wire [UNITS:0] read_asked = chosen(arselect);
  assign unit_arvalid = read_asked[UNITS-1:0] & {UNITS{arvalid && !read_open}};
  assign arready = !read_open && (read_asked[UNITS] || (read_asked[UNITS-1:0] & unit_arready) != {UNITS{1'b0}});
  assign rvalid = read_open && (read_unit[UNITS] || (read_unit[UNITS-1:0] & unit_rvalid) != {UNITS{1'b0}});
  assign unit_rready = read_unit[UNITS-1:0] & {UNITS{rready && read_open}};
  always @* begin
    rresp = read_unit[UNITS] ? DECERR : 2'b00;
    rdata = 32'd0;
    for (unit = 0; unit < UNITS; unit = unit + 1) begin
      rresp = rresp | (unit_rresp[unit*2 +: 2] & {2{read_unit[unit]}});
      rdata = rdata | (unit_rdata[unit*32 +: 32] & {32{read_unit[unit]}});
    end
  end
  always @(posedge clock)
    if (reset) read_open <= 1'b0;
    else if (arvalid && arready) begin
      read_open <= 1'b1;
      read_unit <= read_asked;
    end else if (rvalid && rready) read_open <= 1'b0;
endmodule
