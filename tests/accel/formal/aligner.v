  // A piece is made of the beats that it says: of the one consumed last, or of the next; and of the one behind where it crosses. Every
  // beat is consumed once, none too early. A row stands still until it is taken, and nothing waits without reason.
  localparam BYTES = DMA_BITS / 8;
  localparam ROW_BYTES = DIM * 4;
  localparam PIECE = ROW_BYTES < BYTES ? ROW_BYTES : BYTES;
  reg asked;                   // a piece was there in the last cycle, and is not done
  reg [31:0] was;              // what it was
  wire [31:0] is = {piece_index, piece_offset, piece_fetch, piece_clear, piece_share, piece_crosses, piece_completes};
  always @(posedge clock) begin
    asked <= !reset && piece_valid && !piece_ready;
    was <= is;
  end
  always @* begin
    if (asked && !reset) assume (piece_valid && is == was);
    assume (piece_index < ROW_BYTES / PIECE);
  end

  reg [1:0] consumed;          // beats since the last piece was done
  reg [DMA_BITS-1:0] earlier;  // the one consumed last before that
  reg [DMA_BITS-1:0] first;    // the first of them
  wire taken = beat_valid && beat_ready;
  wire done = piece_valid && piece_ready;
  wire [2:0] used = consumed + taken;
  wire [2:0] needs = !piece_fetch ? 0 : (piece_share ? 0 : 1) + piece_crosses;
  wire [DMA_BITS-1:0] low = piece_share ? earlier : consumed == 0 ? beat_data : first;

  // the row as it should be: known bytes only, since those beyond the piece's last beat are nobody's business
  reg [DIM*32-1:0] row, known;
  integer i;
  always @(posedge clock) begin
    if (done && piece_fetch)
      for (i = 0; i < PIECE; i = i + 1) begin
        known[(piece_index * PIECE + i) * 8 +: 8] <= {8{piece_offset + i < BYTES || piece_crosses}};
        row[(piece_index * PIECE + i) * 8 +: 8] <=
            piece_offset + i < BYTES ? low[(piece_offset + i) * 8 +: 8] : beat_data[(piece_offset + i - BYTES) * 8 +: 8];
      end
    else if (done && piece_clear) begin
      known <= {DIM*32{1'b1}};
      row <= {DIM*32{1'b0}};
    end
    if (taken && consumed == 0) first <= beat_data;
    if (done) begin
      consumed <= 0;
      if (taken) earlier <= beat_data;
      else if (consumed != 0) earlier <= hold;
    end else consumed <= used;
    if (reset) begin
      consumed <= 0;
      known <= {DIM*32{1'b0}};
      earlier <= taken ? beat_data : hold;
    end
  end

  reg waits, completed, starts_anew;   // of the last cycle: a row was not taken; a row became complete; reset
  reg [DIM*32-1:0] stood;
  always @(posedge clock) begin
    starts_anew <= reset;
    waits <= row_valid && !row_ready;
    completed <= done && piece_completes;
    stood <= row_data;
    if (started && !reset && !starts_anew) begin
      assert (row_valid == (completed || waits));
      if (waits) assert (row_data == stood);
    end
    if (started && !reset) begin
      assert (consumed == (loaded ? 1 : 0));
      assert (hold == (loaded ? first : earlier));
      if (loaded) assert (asked && piece_fetch && piece_crosses && !piece_share);
      assert (((row_data ^ row) & known) == 0);
      if (done) assert (used == needs);
      if (!done) assert (used <= needs);
      if (piece_valid && !piece_ready)
        assert ((row_valid && !row_ready) || (needs != consumed && !beat_valid) || taken);
    end
  end
