// A first-in first-out queue whose head is visible without a read (first word falls through).
module baco_fifo #(
    parameter WIDTH = 8,
    parameter DEPTH = 2                        // entries, any number
) (
    input wire clock,
    input wire reset,
    input wire in_valid,
    output wire in_ready,
    input wire [WIDTH-1:0] in_data,
    output wire out_valid,
    input wire out_ready,
    output wire [WIDTH-1:0] out_data
);
  localparam PTR = DEPTH > 1 ? $clog2(DEPTH) : 1;
  localparam [31:0] LAST = DEPTH - 1;
  localparam [31:0] FULL = DEPTH;

  reg [WIDTH-1:0] entries [0:DEPTH-1];
  reg [PTR-1:0] head;
  reg [PTR-1:0] tail;
  reg [$clog2(DEPTH+1)-1:0] count;

  assign in_ready = count != FULL[$clog2(DEPTH+1)-1:0];
  assign out_valid = count != 0;
  assign out_data = entries[head];

  wire push = in_valid && in_ready;
  wire pop = out_valid && out_ready;

  always @(posedge clock) begin
    if (push) begin
      entries[tail] <= in_data;
      tail <= tail == LAST[PTR-1:0] ? {PTR{1'b0}} : tail + 1'b1;
    end
    if (pop) head <= head == LAST[PTR-1:0] ? {PTR{1'b0}} : head + 1'b1;
    if (push != pop) count <= push ? count + 1'b1 : count - 1'b1;
    if (reset) begin
      head <= {PTR{1'b0}};
      tail <= {PTR{1'b0}};
      count <= {$clog2(DEPTH+1){1'b0}};
    end
  end
endmodule
