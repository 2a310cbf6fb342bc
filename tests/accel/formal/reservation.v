  // Commands of a class are issued in their order, each once; a command waits for older ones only, so that the oldest one can always
  // go on; entries are freed when their command is done, and none is filled that is in use. What operands touch, and which
  // commands are legal, is left to the solver (see `proofs.stubbed`).
  localparam N = LOAD_ENTRIES + EX_ENTRIES + STORE_ENTRIES;
  function [1:0] class_of(input integer entry);
    class_of = entry < LOAD_ENTRIES ? 0 : entry < LOAD_ENTRIES + EX_ENTRIES ? 1 : 2;
  endfunction
  function integer first_of(input integer of_class);
    first_of = of_class == 0 ? 0 : of_class == 1 ? LOAD_ENTRIES : LOAD_ENTRIES + EX_ENTRIES;
  endfunction
  always @* assume (kind != 3);
  // the next entry to issue of each class
  function [31:0] next_of(input [1:0] of_class);
    next_of = of_class == 0 ? \head[0] : of_class == 1 ? \head[1] : \head[2] ;
  endfunction

  // entries that were issued and are not done; those filled and not issued
  reg [N-1:0] running, filled;
  wire [N-1:0] issues =
      ((issue_valid[0] && issue_ready[0]) << next_of(0)) | ((issue_valid[1] && issue_ready[1]) << next_of(1))
      | ((issue_valid[2] && issue_ready[2]) << next_of(2));
  wire [N-1:0] fills = alloc << slot;
  wire [N-1:0] of_kind = ((1 << (kind == 0 ? LOAD_ENTRIES : kind == 1 ? EX_ENTRIES : STORE_ENTRIES)) - 1) << first_of(kind);
  always @(posedge clock) begin
    running <= reset ? {N{1'b0}} : (running | issues) & ~done;
    filled <= reset ? {N{1'b0}} : (filled | fills) & ~issues;
  end

  // units are done with what was issued to them, once
  integer d, other;
  reg [31:0] entry_of [0:4];
  always @* begin
    other = 0;
    for (d = 0; d < 5; d = d + 1) begin
      entry_of[d] = first_of(d == 0 ? 0 : d == 4 ? 2 : 1) + done_id[d*ID_BITS +: ID_BITS];
      if (done_valid[d] && started && !reset) begin
        assume (entry_of[d] < N && class_of(entry_of[d]) == (d == 0 ? 0 : d == 4 ? 2 : 1) && running[entry_of[d]]);
        for (other = 0; other < d; other = other + 1)
          assume (!done_valid[other] || entry_of[other] != entry_of[d]);
      end
    end
  end

  // one command is followed, whichever the solver likes: `older` are those that were there when it came and are not done
  (* anyseq *) wire follow;
  reg following;
  reg [31:0] place;
  reg [N-1:0] older, before;   // before: of its class, and not issued yet
  always @(posedge clock)
    if (reset) following <= 1'b0;
    else if (!following && alloc && follow) begin
      following <= 1'b1;
      place <= slot;
      older <= used & ~done;
      before <= filled & ~issues & of_kind;
    end else if (following) begin
      if (done[place]) following <= 1'b0;
      older <= older & ~done;
      before <= before & ~issues;
    end

  integer n, c;
  reg [31:0] from, to;
  always @* begin
    from = 0;
    to = 0;
    n = 0;
    c = 0;
    if (started && !reset) begin
      assert (used == (running | filled) && (running & filled) == 0);
      assert ((fills & used) == 0);
      for (c = 0; c < 3; c = c + 1) begin
        assert (class_of(next_of(c)) == c && next_of(c) < N && class_of(enter[c]) == c && enter[c] < N);
        assert (waiting[c] || next_of(c) == enter[c]);
        if (issue_valid[c]) assert (filled[next_of(c)]);
      end
      for (n = 0; n < N; n = n + 1) begin
        from = next_of(class_of(n));
        to = enter[class_of(n)];
        // what is filled lies between the next one to issue and the next one to fill
        assert (filled[n] == (waiting[class_of(n)] && (from < to ? n >= from && n < to : n >= from || n < to)));
        if (used[n]) assert ((wait_for[n] & ~used) == 0 && !wait_for[n][n]);
        if (running[n]) assert (wait_for[n] == 0);
      end
      if (following) begin
        assert (used[place] && !older[place]);
        assert ((older & ~used) == 0 && (before & ~(older & filled)) == 0);
        assert ((wait_for[place] & ~older) == 0);
        // the oldest one is issued, or can be in this cycle
        if (older == 0) assert (running[place] || (issue_valid[class_of(place)] && next_of(class_of(place)) == place));
        // those of its class that came before it and were not issued lie between the next one and itself: it is issued behind them
        from = next_of(class_of(place));
        for (n = 0; n < N; n = n + 1)
          if (filled[place])
            assert (before[n] == (class_of(n) == class_of(place)
                    && (from <= place ? n >= from && n < place : n >= from || n < place)));
        if (issues[place]) assert (before == 0);
      end
    end
  end
