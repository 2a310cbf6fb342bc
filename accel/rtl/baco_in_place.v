// Whether the result of a product overwrites rows of an operand before they are read: row i of the result leaves once row
// i of the operand has come, so it may fall on that one and on those before, but on none after.
//
// Hardly a product comes near; for one that might, both sequences of rows are walked upwards side by side, a row a cycle.
module baco_in_place (
    input wire clock,
    input wire reset,
    input wire asked,                             // there is such a product, until it is taken
    input wire taken,
    input wire [26:0] result_first,               // rows of the result
    input wire [26:0] result_past,
    input wire [15:0] result_stride,
    input wire [7:0] result_rows,
    input wire [26:0] first,                      // ... of the operand
    input wire [26:0] past,
    input wire [15:0] stride,
    input wire [7:0] rows,
    output wire settled,                          // the answer is known
    output wire overwritten                       // ... and this is it
);
  reg walking, finished, found;
  reg [27:0] result_row, row;
  reg [7:0] result_index, index;                  // of these rows

  // later rows of the operand do not count
  wire [7:0] most = rows < result_rows ? rows : result_rows;
  wire apart = result_past <= first || past <= result_first;
  wire behind = result_first <= first && result_stride <= stride && stride != 16'd0;
  wire open = asked && !apart && !behind && most > 8'd1;
  assign settled = !open || finished;
  assign overwritten = open && found;

  wire same = result_row == row;
  wire later = index > result_index;
  wire ends = result_index == most || index == most || (same && later);

  always @(posedge clock) begin
    if (!walking) begin
      walking <= open && !finished;
      result_row <= {1'b0, result_first};
      row <= {1'b0, first};
      result_index <= 8'd0;
      // where all are the same row, the last one counts
      index <= stride == 16'd0 ? most - 8'd1 : 8'd0;
    end else begin
      walking <= !ends;
      finished <= ends;
      found <= same && later && result_index != most && index != most;
      if (result_row <= row) begin
        result_row <= result_row + {12'd0, result_stride};
        result_index <= result_index + 8'd1;
      end
      if (row <= result_row) begin
        row <= row + {12'd0, stride};
        index <= index + 8'd1;
      end
    end
    if (reset || taken || !asked) begin
      walking <= 1'b0;
      finished <= 1'b0;
      found <= 1'b0;
    end
  end
endmodule
