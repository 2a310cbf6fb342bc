// What stores do with their int8 elements, once scaled: a table, softmax or normalisation of rows, or nothing. A slice a
// cycle, six stages, no stall.
//
//   1  table entries (of the element, or of its distance from the row's largest one); largest elements
//   2  entries and the row's factor and mean at registers
//   3  entries times each byte of the row's inverse; elements times the row's factor; sums over a few lanes
//   4  softmax: both products' sum, rounded; normalisation: less the mean, 12 fraction bits; sums of rows; offsets in place
//   5  normalisation: times the gain, plus the offset
//   6  ... shifted and limited
//
// Gains and offsets (an element of 32 bits a column: gain below, offset above) come beforehand, by rows of DIM columns. A
// product is a normalisation without first pass, mean and offsets, whose gains are the other operand.
module baco_functions #(
    parameter DIM = 16,
    parameter LANES = 16,         // elements in a slice, a part of DIM
    parameter SLICE = 16,         // bytes that go along with it
    parameter META = 48           // bits that go along with it
) (
    input wire clock,
    input wire reset,
    input wire clear,                            // a store of rows begins
    input wire softmax,                          // its function, else normalisation
    input wire centre,                           // normalisation: subtract the mean
    input wire product,                          // ... nothing but the last pass: one factor, multiplied by `parameters`
    input wire [4:0] shift,                      // configuration, constant while slices are in here; of a softmax's numerator
    input wire [31:0] numerator,
    input wire [47:0] epsilon,
    input wire [15:0] elements,                  // of a row
    input wire table_write,                      // entries of the table
    input wire [7:0] table_index,
    input wire [15:0] table_entry,
    input wire parameters_valid,                 // gains and offsets of the next block of results
    input wire [DIM*32-1:0] parameters,
    output wire parameters_taken,                // a block's are no longer needed
    input wire in_valid,                         // a slice
    input wire [1:0] in_function,                // 0 nothing, 1 table, 2 softmax, 3 normalisation
    input wire [1:0] in_pass,                    // of rows: 0 largest elements or statistics, 1 sums, 2 results
    input wire [6:0] in_row,                     // of the store
    input wire [7:0] in_count,                   // elements that take part
    input wire in_end,                           // last slice of its row
    input wire in_pop,                           // last slice of its block
    input wire [($clog2(DIM/LANES) == 0 ? 1 : $clog2(DIM/LANES))-1:0] in_index,  // slice of its block
    input wire [SLICE*8-1:0] in_data,
    input wire [META-1:0] in_meta,
    output reg out_valid,                        // a slice of results, six cycles later
    output reg [SLICE*8-1:0] out_data,
    output reg [META-1:0] out_meta,
    output reg [DIM-1:0] summable,               // rows whose largest element is known
    output wire [DIM-1:0] finished,              // rows whose statistics are
    output wire busy
);
  localparam INDEX_BITS = $clog2(DIM/LANES) == 0 ? 1 : $clog2(DIM/LANES);
  localparam ROW_BITS = $clog2(DIM);
  localparam GROUP = LANES < 4 ? LANES : 4;      // lanes that stage 3 adds up
  localparam GROUPS = LANES / GROUP;
  localparam [1:0] TABLE = 2'd1, SOFTMAX = 2'd2, NORMALISE = 2'd3;
  localparam [1:0] RESULTS = 2'd2;
  localparam signed [29:0] MOST = 30'sd524287;

  // ---- stage 1
  reg valid_1, end_1, pop_1;
  reg [1:0] function_1, pass_1;
  reg [6:0] row_1;
  reg [7:0] count_1;
  reg [INDEX_BITS-1:0] index_1;
  reg [SLICE*8-1:0] data_1;
  reg [META-1:0] meta_1;
  reg fresh;                                     // the next slice of a first pass begins a row
  reg [7:0] largest;                             // element of the row so far
  reg [7:0] largest_of [0:DIM-1];
  wire [7:0] own_largest = largest_of[in_row[ROW_BITS-1:0]];
  wire [LANES*16-1:0] entries;

  wire looks_up = in_valid && (in_function == TABLE || (in_function == SOFTMAX && in_pass != 2'd0));
  genvar g;
  generate
    for (g = 0; g < LANES; g = g + 1) begin : lane_table
      wire [7:0] element = in_data[g*8 +: 8];
      baco_sram #(.ROWS(256), .LANES(1), .LANE_BITS(16)) u_table (
          .clock(clock),
          .read_enable(looks_up),
          .read_row(in_function == TABLE ? element : own_largest - element),
          .read_data(entries[g*16 +: 16]),
          .write_enable(table_write),
          .write_row(table_index),
          .write_mask(1'b1),
          .write_data(table_entry)
      );
    end
  endgenerate

  // verilator lint_off BLKSEQ
  // (blocking assignments are to names within a block only)
  integer i;
  reg [7:0] found;
  reg [2*LANES*8-1:0] larger;                    // of a tree's nodes, the root the second: lanes' elements from the LANESth on
  always @(posedge clock) begin
    valid_1 <= in_valid && !reset;
    if (in_valid) begin
      function_1 <= in_function;
      pass_1 <= in_pass;
      row_1 <= in_row;
      count_1 <= in_count;
      end_1 <= in_end;
      pop_1 <= in_pop;
      index_1 <= in_index;
      data_1 <= in_data;
      meta_1 <= in_meta;
      if (in_function == SOFTMAX && in_pass == 2'd0) begin
        for (i = 0; i < LANES; i = i + 1)
          larger[(LANES+i)*8 +: 8] = i[7:0] < in_count ? in_data[i*8 +: 8] : 8'h80;
        for (i = LANES - 1; i > 0; i = i - 1)
          larger[i*8 +: 8] = $signed(larger[(2*i)*8 +: 8]) > $signed(larger[(2*i+1)*8 +: 8])
              ? larger[(2*i)*8 +: 8] : larger[(2*i+1)*8 +: 8];
        found = fresh || $signed(larger[8 +: 8]) > $signed(largest) ? larger[8 +: 8] : largest;
        largest <= found;
        fresh <= in_end;
        if (in_end) begin
          largest_of[in_row[ROW_BITS-1:0]] <= found;
          summable[in_row[ROW_BITS-1:0]] <= 1'b1;
        end
      end
    end
    if (clear || reset) begin
      summable <= {DIM{1'b0}};
      fresh <= 1'b1;
    end
  end

  // ---- stage 2: what comes late in its cycle, at registers
  reg valid_2, end_2, pop_2;
  reg [1:0] function_2, pass_2;
  reg [7:0] count_2;
  reg [INDEX_BITS-1:0] index_2;
  reg [SLICE*8-1:0] data_2;
  reg [META-1:0] meta_2;
  reg [LANES*16-1:0] entries_2;
  reg [27:0] factor_2;
  reg signed [36:0] mean_2;
  wire [27:0] factor;
  wire signed [36:0] mean;
  always @(posedge clock) begin
    valid_2 <= valid_1 && !reset;
    if (valid_1) begin
      function_2 <= function_1;
      pass_2 <= pass_1;
      count_2 <= count_1;
      end_2 <= end_1;
      pop_2 <= pop_1;
      index_2 <= index_1;
      data_2 <= data_1;
      meta_2 <= meta_1;
      entries_2 <= entries;
      factor_2 <= factor;
      mean_2 <= product ? 37'd0 : mean;
    end
  end

  // ---- stage 3
  reg valid_3, end_3, pop_3;
  reg [1:0] function_3, pass_3;
  reg [INDEX_BITS-1:0] index_3;
  reg [SLICE*8-1:0] data_3;
  reg [META-1:0] meta_3;
  reg signed [36:0] mean_3;
  reg [GROUPS*19-1:0] sums_3;                    // over each group's lanes
  reg [GROUPS*18-1:0] squares_3;
  (* mem2reg *) reg signed [36:0] product_3 [0:LANES-1];  // softmax: by the inverse's upper byte
  (* mem2reg *) reg [23:0] low_3 [0:LANES-1];    // ... and by its lower one
  integer j, q;
  reg [18:0] sum;
  reg [17:0] squares;
  reg signed [7:0] x;
  reg [15:0] power;
  always @(posedge clock) begin
    valid_3 <= valid_2 && !reset;
    if (valid_2) begin
      function_3 <= function_2;
      pass_3 <= pass_2;
      end_3 <= end_2;
      pop_3 <= pop_2;
      index_3 <= index_2;
      data_3 <= data_2;
      meta_3 <= meta_2;
      mean_3 <= mean_2;
      for (q = 0; q < GROUPS; q = q + 1) begin
        sum = 19'd0;
        squares = 18'd0;
        for (j = q * GROUP; j < q * GROUP + GROUP; j = j + 1)
          if (j[7:0] < count_2) begin
            x = data_2[j*8 +: 8];
            power = {{8{x[7]}}, x} * {{8{x[7]}}, x};
            sum = sum + (function_2 == SOFTMAX ? {3'd0, entries_2[j*16 +: 16]} : {{11{x[7]}}, x});
            squares = squares + {2'd0, power};
          end
        sums_3[q*19 +: 19] <= sum;
        squares_3[q*18 +: 18] <= squares;
      end
      for (j = 0; j < LANES; j = j + 1) begin
        x = data_2[j*8 +: 8];
        if (function_2 == TABLE)
          data_3[j*8 +: 8] <= entries_2[j*16 +: 8];
        low_3[j] <= j[7:0] < count_2 ? {8'd0, entries_2[j*16 +: 16]} * {16'd0, factor_2[7:0]} : 24'd0;
        if (function_2 == SOFTMAX)
          product_3[j] <= j[7:0] < count_2 ? {13'd0, {8'd0, entries_2[j*16 +: 16]} * {16'd0, factor_2[15:8]}} : 37'd0;
        else if (function_2 == NORMALISE)
          product_3[j] <= {{29{x[7]}}, x} * {9'd0, product ? epsilon[27:0] : factor_2};
      end
    end
  end

  // ---- gains and offsets, which stage 4 keeps for the last one
  wire parameters_there;
  wire [DIM*32-1:0] parameter_row;
  wire _unused_ready;
  baco_fifo #(.WIDTH(DIM*32), .DEPTH(8)) u_parameters (
      .clock(clock),
      .reset(reset),
      .in_valid(parameters_valid),
      .in_ready(_unused_ready),
      .in_data(parameters),
      .out_valid(parameters_there),
      .out_ready(valid_3 && pop_3),
      .out_data(parameter_row)
  );

  // ---- stage 4
  reg valid_4, pop_4;
  reg [1:0] function_4;
  reg [SLICE*8-1:0] data_4;
  reg [META-1:0] meta_4;
  (* mem2reg *) reg signed [19:0] normal_4 [0:LANES-1];
  (* mem2reg *) reg signed [15:0] gain_4 [0:LANES-1];
  (* mem2reg *) reg signed [40:0] offset_4 [0:LANES-1];  // and what rounds, before the shift
  reg [32:0] row_sum;                            // so far
  reg [30:0] row_squares;
  reg sums_valid;
  reg [32:0] whole_sum;
  reg [30:0] whole_squares;
  wire counts = valid_3 && (function_3 == SOFTMAX ? pass_3 == 2'd1 : function_3 == NORMALISE && pass_3 == 2'd0);
  reg [32:0] next_sum;
  reg [30:0] next_squares;
  integer n;
  always @* begin
    next_sum = row_sum;
    next_squares = row_squares;
    for (n = 0; n < GROUPS; n = n + 1) begin
      next_sum = next_sum + {{14{sums_3[n*19+18]}}, sums_3[n*19 +: 19]};
      next_squares = next_squares + {13'd0, squares_3[n*18 +: 18]};
    end
  end
  integer k;
  reg [31:0] own;
  reg [32:0] rounded;
  reg signed [37:0] difference;
  reg signed [29:0] scaled;
  always @(posedge clock) begin
    sums_valid <= counts && end_3 && !reset;
    whole_sum <= softmax || centre ? next_sum : 33'd0;
    whole_squares <= next_squares;
    if (counts) begin
      row_sum <= end_3 ? 33'd0 : next_sum;
      row_squares <= end_3 ? 31'd0 : next_squares;
    end
    if (clear || reset) begin
      row_sum <= 33'd0;
      row_squares <= 31'd0;
    end
    valid_4 <= valid_3 && !reset && (!function_3[1] || pass_3 == RESULTS);
    if (valid_3) begin
      function_4 <= function_3;
      pop_4 <= pop_3;
      data_4 <= data_3;
      meta_4 <= meta_3;
      for (k = 0; k < LANES; k = k + 1)
        if (function_3 == SOFTMAX) begin
          rounded = {1'b0, product_3[k][23:0], 8'd0} + {9'd0, low_3[k]} + 33'h800000;
          data_4[k*8 +: 8] <= rounded[32:31] != 2'd0 ? 8'd127 : rounded[31:24];
        end
        else if (function_3 == NORMALISE) begin
          difference = {product_3[k][36], product_3[k]} - {mean_3[36], mean_3} + 38'sd128;
          scaled = difference[37:8];
          normal_4[k] <= scaled > MOST ? MOST[19:0] : scaled < -MOST - 30'sd1 ? 20'h80000 : scaled[19:0];
          own = parameter_row[({27'd0, {5{1'b0}}} + k + {{(32-INDEX_BITS){1'b0}}, index_3} * LANES) * 32 +: 32];
          if (product)
            own[31:16] = 16'd0;
          gain_4[k] <= own[15:0];
          offset_4[k] <= ({{25{own[31]}}, own[31:16]} <<< (shift - 5'd7)) + (41'sd1 <<< (shift - 5'd1));
        end
    end
  end

  // ---- stage 5
  assign parameters_taken = valid_4 && pop_4;
  reg valid_5;
  reg [1:0] function_5;
  reg [SLICE*8-1:0] data_5;
  reg [META-1:0] meta_5;
  (* mem2reg *) reg signed [42:0] result_5 [0:LANES-1];
  integer m;
  always @(posedge clock) begin
    valid_5 <= valid_4 && !reset;
    if (valid_4) begin
      function_5 <= function_4;
      data_5 <= data_4;
      meta_5 <= meta_4;
      if (function_4 == NORMALISE)
        for (m = 0; m < LANES; m = m + 1)
          result_5[m] <= {{23{normal_4[m][19]}}, normal_4[m]} * {{27{gain_4[m][15]}}, gain_4[m]}
                         + {{2{offset_4[m][40]}}, offset_4[m]};
    end
  end

  // ---- stage 6
  reg signed [42:0] shifted;
  integer w;
  always @(posedge clock) begin
    out_valid <= valid_5 && !reset;
    if (valid_5) begin
      out_data <= data_5;
      out_meta <= meta_5;
      if (function_5 == NORMALISE)
        for (w = 0; w < LANES; w = w + 1) begin
          shifted = result_5[w] >>> shift;
          out_data[w*8 +: 8] <= shifted > 43'sd127 ? 8'd127 : shifted < -43'sd128 ? 8'h80 : shifted[7:0];
        end
    end
  end
  // verilator lint_on BLKSEQ

  baco_row_statistics #(.DIM(DIM)) u_statistics (
      .clock(clock),
      .reset(reset),
      .clear(clear),
      .softmax(softmax),
      .shift(shift[3:0]),
      .numerator(numerator),
      .epsilon(epsilon),
      .elements(elements),
      .sums_valid(sums_valid),
      .sum(whole_sum),
      .squares(whole_squares),
      .finished(finished),
      .index(row_1),
      .factor(factor),
      .mean(mean)
  );

  assign busy = valid_1 || valid_2 || valid_3 || valid_4 || valid_5 || out_valid;
  wire _unused = &{1'b0, parameters_there, in_row, rounded, difference};
endmodule
