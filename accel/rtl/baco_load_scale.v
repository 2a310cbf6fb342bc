// Scales rows on their way to local memory, LANES elements a cycle, and keeps their order.
//
// Rows that need no scaling pass through in the same cycle when nothing is being scaled. Otherwise rows of 1-byte elements follow
// through the multiplier with scale 1.0, which changes nothing, and rows of 4-byte elements wait: a float32 does not hold them.
// The multiplier cannot be stopped, so a row enters it only when the queue behind it has room for the result. Where it has fewer
// lanes than a row has elements, a row stands at the input for as many turns as it takes, lowest elements first, and is put together behind it.
module baco_load_scale #(
    parameter DIM = 16,       // elements of a row
    parameter LANES = 16,     // elements that are scaled in a cycle, a part of DIM
    parameter WIDE = 0,       // 1: scales rows of 4-byte elements too
    parameter PASS_BITS = 8   // bits handed on with every row
) (
    input  wire                 clock,
    input  wire                 reset,
    input  wire                 in_valid,     // a row is there
    output wire                 in_ready,     // it is taken
    input  wire                 in_wide,      // its elements are 4 bytes, else 1
    input  wire                 in_identity,  // it is not to be scaled
    input  wire [31:0]          in_scale,     // bits of the float32 scale
    input  wire [PASS_BITS-1:0] in_pass,      // handed on
    input  wire [DIM*32-1:0]    in_data,      // elements, packed from the low bits by their size
    output wire                 out_valid,    // a row is there
    input  wire                 out_ready,    // it is taken
    output wire                 out_wide,     // its elements are 4 bytes
    output wire [PASS_BITS-1:0] out_pass,     // from the input
    output wire [DIM*32-1:0]    out_data,     // scaled elements
    output wire                 busy          // rows are held here
);
  localparam STAGES = 3;               // latency of baco_scale
  localparam ROOM = STAGES + 2;        // rows in it and behind it that keep it going at a row a cycle
  localparam [31:0] ROOM_WORD = ROOM;
  localparam TURNS = DIM / LANES;      // of a row at the multiplier
  localparam TURN_BITS = TURNS > 1 ? $clog2(TURNS) : 1;
  localparam KEPT = WIDE != 0 ? DIM * 32 : DIM * `ELEMENT_BITS;
  localparam ITEM = 1 + PASS_BITS + KEPT;

  reg [2:0] held;                      // rows in the multiplier and in the queue
  reg [STAGES-1:0] stage_valid;        // rows in the multiplier, oldest in the top bit
  reg [(1+PASS_BITS)*STAGES-1:0] stage_pass;

  wire begun;                          // some of the row at the input is in the multiplier
  wire ends;                           // the rest of it enters
  wire [TURN_BITS-1:0] turn;
  wire idle = held == 3'd0 && !begun;
  wire straight = in_identity && idle;
  wire follows = !in_identity || !in_wide;  // may go through the multiplier
  wire step = in_valid && !straight && follows && held != ROOM_WORD[2:0];
  wire enter = step && ends;
  assign in_ready = straight ? out_ready : follows && held != ROOM_WORD[2:0] && ends;

  wire queue_valid;
  wire [ITEM-1:0] queue_item;
  assign out_valid = queue_valid || (in_valid && straight);
  assign out_wide = queue_valid ? queue_item[ITEM-1] : in_wide;
  assign out_pass = queue_valid ? queue_item[KEPT+:PASS_BITS] : in_pass;
  assign busy = !idle;

  wire [31:0] scale = in_identity ? 32'h3f800000 : in_scale;
  wire [PASS_BITS:0] leaving = stage_pass[(1+PASS_BITS)*(STAGES-1)+:1+PASS_BITS];
  wire leaving_wide = leaving[PASS_BITS];
  wire [KEPT-1:0] scaled;
  wire [DIM*`ELEMENT_BITS-1:0] scaled_narrow;
  wire [LANES*`ELEMENT_BITS-1:0] part_in, part_out;
  // The multiplier's own valid flag is not reset; stage_valid is.
  wire valid_narrow;
  baco_scale #(.LANES(LANES), .IN_BITS(`ELEMENT_BITS), .OUT_BITS(`ELEMENT_BITS)) narrow (
      .clock(clock), .in_valid(step && !in_wide), .in_scale(scale), .in_data(part_in), .in_relu(1'b0),
      .out_valid(valid_narrow), .out_data(part_out));
  generate
    if (TURNS == 1) begin : whole
      assign turn = 1'b0;
      assign begun = 1'b0;
      assign ends = 1'b1;
      assign part_in = in_data[DIM*`ELEMENT_BITS-1:0];
      assign scaled_narrow = part_out;
    end else begin : parts
      localparam [31:0] LAST = TURNS - 1;
      reg [TURN_BITS-1:0] count;
      reg [(DIM-LANES)*`ELEMENT_BITS-1:0] earlier;  // of the row whose parts leave the multiplier
      assign turn = count;
      assign begun = turn != {TURN_BITS{1'b0}};
      assign ends = turn == LAST[TURN_BITS-1:0];
      assign part_in = in_data[turn*LANES*`ELEMENT_BITS +: LANES*`ELEMENT_BITS];
      assign scaled_narrow = {part_out, earlier};
      always @(posedge clock) begin
        if (reset)
          count <= {TURN_BITS{1'b0}};
        else if (step)
          count <= count + {{(TURN_BITS-1){1'b0}}, 1'b1};
        if (valid_narrow)
          earlier <= scaled_narrow[DIM*`ELEMENT_BITS-1:LANES*`ELEMENT_BITS];
      end
    end
    if (WIDE != 0) begin : wide
      wire [DIM*32-1:0] scaled_wide;
      wire [LANES*32-1:0] wide_in, wide_out;
      wire valid_wide;
      baco_scale #(.LANES(LANES), .IN_BITS(32), .OUT_BITS(32)) multiplier (
          .clock(clock), .in_valid(step && in_wide), .in_scale(scale), .in_data(wide_in), .in_relu(1'b0),
          .out_valid(valid_wide), .out_data(wide_out));
      if (TURNS == 1) begin : whole
        assign wide_in = in_data;
        assign scaled_wide = wide_out;
      end else begin : parts
        reg [(DIM-LANES)*32-1:0] earlier;
        assign wide_in = in_data[turn*LANES*32 +: LANES*32];
        assign scaled_wide = {wide_out, earlier};
        always @(posedge clock)
          if (valid_wide)
            earlier <= scaled_wide[DIM*32-1:LANES*32];
      end
      wire _unused_valid = &{1'b0, valid_narrow, valid_wide};
      assign scaled[DIM*`ELEMENT_BITS-1:0] = leaving_wide ? scaled_wide[DIM*`ELEMENT_BITS-1:0] : scaled_narrow;
      assign scaled[DIM*32-1:DIM*`ELEMENT_BITS] = scaled_wide[DIM*32-1:DIM*`ELEMENT_BITS];
      assign out_data = queue_valid ? queue_item[DIM*32-1:0] : in_data;
    end else begin : narrow_only
      wire _unused_valid = &{1'b0, valid_narrow};
      assign scaled = scaled_narrow;
      assign out_data[DIM*`ELEMENT_BITS-1:0] = queue_valid ? queue_item[DIM*`ELEMENT_BITS-1:0] : in_data[DIM*`ELEMENT_BITS-1:0];
      assign out_data[DIM*32-1:DIM*`ELEMENT_BITS] = in_data[DIM*32-1:DIM*`ELEMENT_BITS];
    end
  endgenerate

  wire queue_ready;
  wire _unused = &{1'b0, queue_ready, leaving_wide, turn};  // ROOM bounds what arrives
  baco_fifo #(.WIDTH(ITEM), .DEPTH(ROOM)) queue (
      .clock(clock), .reset(reset), .in_valid(stage_valid[STAGES-1]), .in_ready(queue_ready),
      .in_data({leaving, scaled}), .out_valid(queue_valid), .out_ready(out_ready), .out_data(queue_item));

  always @(posedge clock) begin
    if (reset) begin
      held <= 3'd0;
      stage_valid <= {STAGES{1'b0}};
    end else begin
      stage_valid <= {stage_valid[STAGES-2:0], enter};
      if (enter && !(queue_valid && out_ready)) held <= held + 3'd1;
      if (!enter && queue_valid && out_ready) held <= held - 3'd1;
    end
    if (enter || stage_valid != {STAGES{1'b0}})
      stage_pass <= {stage_pass[(1+PASS_BITS)*(STAGES-1)-1:0], in_wide, in_pass};
  end
endmodule
