// First-in first-out queue. The oldest item is visible combinationally while out_valid is high; an item pushed
// into an empty queue appears in the next cycle. Storage is a memory, not a shift register, so that a deep queue
// of wide items costs a simulator one write and one read a cycle.
module baco_fifo #(
    parameter WIDTH = 8,  // bits of an item
    parameter DEPTH = 4   // items held, 1 or more, not necessarily a power of two
) (
    input  wire             clock,
    input  wire             reset,
    input  wire             in_valid,   // an item is offered
    output wire             in_ready,   // there is room for it
    input  wire [WIDTH-1:0] in_data,    // the item
    output wire             out_valid,  // there is an item
    input  wire             out_ready,  // it is taken in this cycle
    output wire [WIDTH-1:0] out_data    // the oldest item
);
  localparam POINTER_BITS = DEPTH > 1 ? $clog2(DEPTH) : 1;
  localparam COUNT_BITS = $clog2(DEPTH + 1);
  localparam [31:0] LAST_ITEM = DEPTH - 1;
  localparam [31:0] ITEMS = DEPTH;
  localparam [POINTER_BITS-1:0] LAST = LAST_ITEM[POINTER_BITS-1:0];
  localparam [COUNT_BITS-1:0] FULL = ITEMS[COUNT_BITS-1:0];

  reg [WIDTH-1:0] items[0:DEPTH-1];
  reg [POINTER_BITS-1:0] head;
  reg [POINTER_BITS-1:0] tail;
  reg [COUNT_BITS-1:0] count;

  wire push = in_valid && in_ready;
  wire pop = out_valid && out_ready;
  assign in_ready = count != FULL;
  assign out_valid = count != {COUNT_BITS{1'b0}};
  assign out_data = items[head];

  always @(posedge clock) begin
    if (push) items[tail] <= in_data;
    if (reset) begin
      head <= {POINTER_BITS{1'b0}};
      tail <= {POINTER_BITS{1'b0}};
      count <= {COUNT_BITS{1'b0}};
    end else begin
      if (push) tail <= tail == LAST ? {POINTER_BITS{1'b0}} : tail + 1'b1;
      if (pop) head <= head == LAST ? {POINTER_BITS{1'b0}} : head + 1'b1;
      if (push && !pop) count <= count + 1'b1;
      if (pop && !push) count <= count - 1'b1;
    end
  end
endmodule
