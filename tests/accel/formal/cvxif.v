  localparam INDEX_BITS = $clog2(DEPTH), WIDTH = 17;
  // The core: an instruction comes in the cycle after there was room, and a fence that waits is the oldest itself. The accelerator is
  // busy from the cycle after a command on, and writes only while it is.
  reg room, sent, was_busy;
  always @(posedge clock) begin
    room <= !reset && issue_ready;
    sent <= !reset && cmd_valid && cmd_ready;
    was_busy <= !reset && accelerator_busy;
  end
  always @* begin
    if (!room) assume (!issue_valid);
    if (fence_waiting) assume (commit == tail || ids[commit[INDEX_BITS-1:0]] != oldest_id);
    if (!was_busy && !sent) assume (!accelerator_busy);
    if (accelerator_writes) assume (accelerator_busy);
  end

  // A command is followed, whichever the solver likes: it goes to the accelerator as it came, once, and only after it was the
  // oldest with all stores before it in memory; not if there was a flush before.
  (* anyseq *) wire follow;
  reg following, certain;
  reg [INDEX_BITS:0] place;
  reg [WIDTH-1:0] content;
  reg [ID_BITS-1:0] name;
  wire comes = issue_valid && is_command && !flush;
  wire goes = cmd_valid && cmd_ready && following && head == place;
  always @(posedge clock)
    if (reset) following <= 1'b0;
    else if (!following && comes && follow) begin
      following <= 1'b1;
      certain <= 1'b0;
      place <= tail;
      name <= issue_id;
      content <= {issue_instr[31:25], issue_instr[11:7], issue_instr[14], issue_rs1, issue_rs2};
    end else if (following) begin
      if (goes || (flush && !certain)) following <= 1'b0;
      if (commit == place && !flush && stores_done && oldest_id == name) certain <= 1'b1;
    end

  // what the data cache may hold that is no more in memory
  reg stale;
  always @(posedge clock)
    if (reset) stale <= 1'b0;
    else if (accelerator_writes) stale <= 1'b1;
    else if (flush_cache && flush_cache_ack) stale <= 1'b0;

  wire [INDEX_BITS:0] all = tail - head, sure = commit - head, ours = place - head;
  always @(posedge clock) if (started && !reset) begin
    assert (all <= DEPTH);
    assert (sure <= all);
    if (room) assert (all < DEPTH);
    if (following) begin
      assert (ours < all);
      assert (certain == (ours < sure));
      assert (items[place[INDEX_BITS-1:0]] == content);
      assert (ids[place[INDEX_BITS-1:0]] == name);
      if (goes) assert (certain && {cmd_funct, cmd_rd, cmd_xd, cmd_rs1, cmd_rs2} == content);
    end
    if (fence_go) assert (fence_waiting && head == commit && !accelerator_busy && !stale);
    if (fence_go || flush_cache) assert (!cmd_valid && !accelerator_writes);
    assert (stale == written);
    // every instruction of another opcode is illegal, every command without a result is done at once
    if (issue_valid && !is_command) assert (result_valid && result_exc && !result_we && result_id == issue_id);
    if (resp_valid && resp_ready) assert (result_valid && result_we && result_data == resp_data);
    if (issue_valid && is_command && !issue_instr[14]) assert (result_valid && !result_exc && result_id == issue_id);
  end
