  // A queue holds DEPTH items at most, and gives back what went in, in its order. One item is followed, whichever the solver likes.
  (* anyseq *) wire follow;
  reg following;
  reg [7:0] ahead;             // items that leave before it
  reg [WIDTH-1:0] item;
  wire goes_in = in_valid && in_ready;
  wire comes_out = out_valid && out_ready;
  always @(posedge clock)
    if (reset) following <= 1'b0;
    else if (!following && goes_in && follow) begin
      following <= 1'b1;
      item <= in_data;
      ahead <= count - comes_out;
    end else if (following && comes_out) begin
      if (ahead == 0) following <= 1'b0;
      ahead <= ahead - 1'b1;
    end

  wire [31:0] end_ = head + count, place = head + ahead;
  always @(posedge clock) if (started && !reset) begin
    assert (count <= DEPTH);
    assert (head < DEPTH);
    assert (tail == (end_ >= DEPTH ? end_ - DEPTH : end_));
    assert (in_ready == (count < DEPTH));
    if (following) begin
      assert (ahead < count);
      assert (items[place >= DEPTH ? place - DEPTH : place] == item);
      if (ahead == 0) assert (out_valid && out_data == item);
    end
  end
