// Entries of the reservation station that are not promised yet: an unroller sends nothing of its own without one, so what is
// between it and the station never waits there for an entry behind which others could go on.
//
// A command takes its entry when it is sent, whether there is one or not, and gives it back when it is done or rejected.
module baco_credits #(
    parameter LOADS = 8,
    parameter EXECUTES = 16,
    parameter STORES = 4
) (
    input wire clock,
    input wire reset,
    input wire passes,                            // a command of others passes in this cycle
    input wire [6:0] passes_funct,
    input wire [1:0] passes_kind,                 // lowest bits of its rs1: what a CONFIG is of
    input wire [2:0] own,                         // a command of an unroller leaves: 0 a load, 1 execution, 2 a store
    input wire [2:0] behind,                      // ... of the unroller behind it
    input wire [4:0] done,                        // 0 load, 1..3 execution, 4 store
    input wire dropped,                           // a command is rejected
    input wire [6:0] dropped_funct,
    input wire [1:0] dropped_kind,
    output wire [2:0] space                       // there is an entry: 0 loads, 1 execution, 2 stores
);
  localparam [31:0] LOADS_VALUE = LOADS;
  localparam [31:0] EXECUTES_VALUE = EXECUTES;
  localparam [31:0] STORES_VALUE = STORES;

  function [2:0] class_of;  // one bit
    input [6:0] funct;
    input [1:0] kind;
    case (funct)
      7'd0: class_of = kind == 2'd0 ? 3'b010 : kind == 2'd1 ? 3'b001 : 3'b100;
      7'd1, 7'd2, 7'd14: class_of = 3'b001;
      7'd4, 7'd5, 7'd6: class_of = 3'b010;
      7'd3, 7'd23, 7'd26, 7'd27, 7'd28, 7'd29: class_of = 3'b100;
      default: class_of = 3'b000;
    endcase
  endfunction

  wire [2:0] sent = own | (passes ? class_of(passes_funct, passes_kind) : 3'd0);
  wire [2:0] back = dropped ? class_of(dropped_funct, dropped_kind) : 3'd0;
  wire [2:0] freed0 = {done[4], done[1], done[0]};
  wire [2:0] freed1 = {1'b0, done[2], 1'b0};
  wire [2:0] freed2 = {1'b0, done[3], 1'b0};
  // What is sent is known last: it chooses among sums.
  (* mem2reg *) reg signed [7:0] left [0:2];
  (* mem2reg *) reg signed [7:0] more [0:2];
  integer n;
  always @* begin
    n = 0;
    for (n = 0; n < 3; n = n + 1)
      more[n] = left[n] + $signed({7'd0, back[n]}) + $signed({7'd0, freed0[n]}) + $signed({7'd0, freed1[n]})
          + $signed({7'd0, freed2[n]});
  end
  always @(posedge clock) begin
    for (n = 0; n < 3; n = n + 1)
      left[n] <= sent[n] && behind[n] ? more[n] - 8'sd2 : sent[n] || behind[n] ? more[n] - 8'sd1 : more[n];
    if (reset) begin
      left[0] <= LOADS_VALUE[7:0];
      left[1] <= EXECUTES_VALUE[7:0];
      left[2] <= STORES_VALUE[7:0];
    end
  end
  assign space = {left[2] > 8'sd0, left[1] > 8'sd0, left[0] > 8'sd0};
endmodule
