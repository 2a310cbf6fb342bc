// What happens by chance in testbenches of AXI4: see axi4_bench.v.
`include "test_config.vh"
module axi4_chance (
    input wire clock,
    input wire [3:0] stirs,                          // what the caller's memory does
    input wire forgotten,                            // there are no more errors
    output reg [31:0] chance,                        // xorshift (Marsaglia 2003)
    output reg [31:0] errors,                        // one burst of about so many fails, 0: none
    output reg [7:0] go                              // whether channels go on; in some stretches of time hardly ever
);
  initial begin
    chance = 32'h2545f491;
    errors = 0;
    go = 0;
  end
`ifdef BACO_TEST_BUS
  integer seed, given;
  initial begin
    if ($value$plusargs("bus_seed=%d", seed)) chance = seed ^ 32'h9e3779b9;
    if ($value$plusargs("bus_errors=%d", given)) errors = given;
  end
`endif
  always @(posedge clock) begin
    if (forgotten) errors = 0;
    chance = chance ^ {28'd0, stirs};
    if (chance == 0) chance = 1;
    chance = chance ^ (chance << 13);
    chance = chance ^ (chance >> 17);
    chance = chance ^ (chance << 5);
  end
  reg [9:0] stretch = 0;
  reg slow = 0;
  always @(posedge clock) begin
    stretch <= stretch + 1;
    if (stretch == 0) slow <= chance[30:28] == 0;
    go <= slow ? chance[7:0] & chance[15:8] & chance[23:16] : chance[7:0] | chance[15:8];
  end
endmodule
