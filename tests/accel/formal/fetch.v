  // Every row of every operation comes out once, in order: what the scratchpad holds at its address, cleared beyond the lanes, or
  // zeros. No row finds its queue full, and nothing waits but for the scratchpad or for whoever takes rows.
  localparam PLACES = 7;
  reg asked;                   // an operation was there in the last cycle, and is not done
  reg [SP_AW-1:0] base;
  reg [15:0] stride;
  reg [CW-1:0] real_rows, total, wide;
  always @(posedge clock) begin
    asked <= !reset && op_valid && !op_ready;
    base <= op_base;
    stride <= op_stride;
    real_rows <= op_rows;
    total <= op_total;
    wide <= op_lanes;
  end
  always @* begin
    assume (op_total != 0 && op_total <= DIM && op_rows <= op_total && op_lanes <= DIM);
    if (asked && !reset) begin
      assume (op_valid && op_base == base && op_stride == stride);
      assume (op_rows == real_rows && op_total == total && op_lanes == wide);
    end
  end

  wire [31:0] expected_row = op_base + op_stride * index;
  wire [31:0] end_ = \rows.head + \rows.count ;
  wire fits = \rows.count < PLACES;
  wire takes = row_valid && row_ready;

  // one row is followed, whichever the solver likes
  (* anyseq *) wire follow;
  reg following, ordered, coming, empty;    // ordered, coming: it arrives in the next, in this cycle
  reg [3:0] ahead;
  reg [CW-1:0] kept_lanes;
  reg [DIM*8-1:0] held, arrived;
  integer lane;
  always @* begin
    arrived = {DIM*8{1'b0}};
    for (lane = 0; lane < DIM; lane = lane + 1)
      if (lane < kept_lanes && !empty) arrived[lane*8 +: 8] = read_data[lane*8 +: 8];
  end
  always @(posedge clock) begin
    ordered <= 1'b0;
    coming <= ordered && !reset;
    if (coming) held <= arrived;
    if (reset) following <= 1'b0;
    else if (!following && starts && follow) begin
      following <= 1'b1;
      ordered <= 1'b1;
      empty <= index >= op_rows;
      kept_lanes <= op_lanes;
      ahead <= \rows.count + arrives + requested - takes;
    end else if (following && takes) begin
      if (ahead == 0) following <= 1'b0;
      ahead <= ahead - 1'b1;
    end
  end
  wire [31:0] place = \rows.head + ahead;

  always @(posedge clock) if (started && !reset) begin
    assert (credits + \rows.count + arrives + requested == PLACES);
    if (arrives) assert (fits);
    assert (\rows.head < PLACES && \rows.tail == (end_ >= PLACES ? end_ - PLACES : end_));
    if (index != 0) assert (asked && index < op_total && address == expected_row[SP_AW-1:0]);
    if (read_valid) assert (op_valid && index < op_rows && read_row == expected_row[SP_AW-1:0]);
    if (op_valid && !starts) assert ((read_valid && !read_ready) || row_valid || requested);
    if (op_ready) assert (op_valid && index + 1 == op_total);
    if (following && coming) begin
      assert (arrives && ahead == \rows.count && cleaned == arrived);
      if (ahead == 0) assert (row_valid && row_data == arrived);
    end
    if (following && ordered) begin
      assert (requested && ahead == \rows.count + arrives && zero_requested == empty && lanes_requested == kept_lanes);
    end
    if (ordered || coming) assert (following && !(ordered && coming));
    if (following && !ordered && !coming) begin
      assert (ahead < \rows.count && \rows.items [place >= PLACES ? place - PLACES : place] == held);
      if (ahead == 0) assert (row_valid && row_data == held);
    end
  end
