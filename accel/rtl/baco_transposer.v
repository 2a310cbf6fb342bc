// Transposes DIM x DIM matrices that stream through it, one row in and one row out a cycle.
//
// The registers shift in two directions in turn: one matrix enters by rows moving up, the next one by columns moving
// left, which pushes the first one out column by column, and so on. A matrix leaves while the next one enters, or,
// when none is waiting as the first row is to leave, by itself.
module baco_transposer #(
    parameter DIM = 16
) (
    input wire clock,
    input wire reset,
    input wire in_valid,
    output wire in_ready,
    input wire [DIM*`ELEMENT_BITS-1:0] in_row,
    output wire out_valid,
    input wire out_ready,
    output reg [DIM*`ELEMENT_BITS-1:0] out_row,
    output wire empty
);
  (* mem2reg *) reg [DIM*`ELEMENT_BITS-1:0] cells [0:DIM-1];
  reg upwards;                                 // the matrix inside will leave by rows at the top
  reg full;                                    // a whole matrix is inside
  reg entering;                                // this pass takes a new matrix in
  reg started;                                 // a pass is under way
  reg [$clog2(DIM)-1:0] step;
  integer i;
  integer j;

  // what this pass does is fixed when it starts: whether a matrix enters (and whether one leaves: `full`)
  wire takes = started ? entering : in_valid;
  wire runs = (started || in_valid || full) && (!takes || in_valid) && (!full || out_ready);
  assign in_ready = runs && takes;
  assign out_valid = full && (!takes || in_valid);
  assign empty = !full && !started;
  wire last = step == {$clog2(DIM){1'b1}};

  always @* begin
    out_row = cells[0];
    j = 0;
    if (!upwards) for (j = 0; j < DIM; j = j + 1) out_row[j*`ELEMENT_BITS +: `ELEMENT_BITS] = cells[j][`ELEMENT_TOP:0];
  end

  always @(posedge clock) begin
    if (runs) begin
      if (upwards) begin
        for (i = 0; i < DIM - 1; i = i + 1) cells[i] <= cells[i+1];
        cells[DIM-1] <= in_row;
      end else begin
        for (i = 0; i < DIM; i = i + 1) cells[i] <= {in_row[i*`ELEMENT_BITS +: `ELEMENT_BITS], cells[i][DIM*`ELEMENT_BITS-1:`ELEMENT_BITS]};
      end
      step <= step + 1'b1;
      started <= !last;
      entering <= takes;
      if (last) begin
        full <= takes;
        upwards <= !upwards;                   // what entered by rows leaves by columns, and the other way round
      end
    end
    if (reset) begin
      upwards <= 1'b1;
      full <= 1'b0;
      started <= 1'b0;
      entering <= 1'b0;
      step <= {$clog2(DIM){1'b0}};
    end
  end
endmodule
