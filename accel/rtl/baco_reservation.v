// The reservation station: holds commands until what they depend on is done, then issues them, up to one a class and
// cycle. Loads, execution and stores each issue in program order; between classes a command waits for every older one
// whose local-memory rows overlap its own when at least one of the two writes them. Inside execution and inside stores
// only reading what an older command writes to the scratchpad waits, all else keeps its order in the pipelines.
//
// Entries are rings: one class after the other in one index space, loads first. An entry is freed when its command is
// done; `wait_for` has a bit for every entry that must be done before.
//
// Illegal commands are dropped here. A PRELOAD stays until its COMPUTE has run, which comes behind it: so a command
// between the two that would have to wait for the PRELOAD is illegal. The COMPUTE itself reads its operands before its
// result is written, over them too, and does not wait; where it cannot it is illegal as well.
module baco_reservation #(
    parameter DIM = 16,
    parameter SP_ROWS = 16384,
    parameter ACC_ROWS = 1024,
    parameter AW = 14,
    parameter DMA_MAX_BYTES = 64,
    parameter LOAD_ENTRIES = 8,
    parameter EX_ENTRIES = 16,
    parameter STORE_ENTRIES = 4,
    parameter ID_BITS = 6
) (
    input wire clock,
    input wire reset,
    input wire cmd_valid,
    output wire cmd_ready,
    input wire [6:0] cmd_funct,
    input wire cmd_xd,
    input wire [63:0] cmd_rs1,
    input wire [63:0] cmd_rs2,
    input wire [3:0] cmd_error,                   // error that an unroller found
    input wire [3:0] cmd_tag,                     // goes with the command
    output wire [2:0] issue_valid,                // by class
    input wire [2:0] issue_ready,
    output wire [3*ID_BITS-1:0] issue_id,         // entry within the class
    output wire [3*7-1:0] issue_funct,
    output wire [3*64-1:0] issue_rs1,
    output wire [3*64-1:0] issue_rs2,
    input wire [4:0] done_valid,                  // 0 load, 1..3 execution, 4 store
    input wire [5*ID_BITS-1:0] done_id,
    // the command that is entered or rejected
    output wire alloc,                            // it is entered in this cycle
    output wire [1:0] alloc_class,
    output wire [ID_BITS-1:0] alloc_id,
    output wire reject,                           // it is rejected in this cycle (and dropped)
    output wire [3:0] reject_code,
    output wire [6:0] door_funct,
    output wire [63:0] door_rs1,
    output wire [63:0] door_rs2,
    output wire [3:0] door_tag,
    output wire busy,                             // anything but a lone PRELOAD is here
    output wire [20:0] occupancy                  // entries in use, 7 bits a class
);
  localparam N = LOAD_ENTRIES + EX_ENTRIES + STORE_ENTRIES;
  localparam EX0 = LOAD_ENTRIES;
  localparam ST0 = LOAD_ENTRIES + EX_ENTRIES;
  localparam NB = $clog2(N);

  localparam [31:0] EX_FIRST_VALUE = EX0;
  localparam [31:0] ST_FIRST_VALUE = ST0;
  localparam [31:0] LD_LAST_VALUE = EX0 - 1;
  localparam [31:0] EX_LAST_VALUE = ST0 - 1;
  localparam [31:0] ST_LAST_VALUE = N - 1;
  localparam [NB-1:0] EX_FIRST = EX_FIRST_VALUE[NB-1:0];
  localparam [NB-1:0] ST_FIRST = ST_FIRST_VALUE[NB-1:0];
  localparam [NB-1:0] LD_LAST = LD_LAST_VALUE[NB-1:0];
  localparam [NB-1:0] EX_LAST = EX_LAST_VALUE[NB-1:0];
  localparam [NB-1:0] ST_LAST = ST_LAST_VALUE[NB-1:0];
  // one width that holds both an entry of all and an entry of a class
  localparam WB = NB > ID_BITS ? NB : ID_BITS;

  wire [1:0] kind;
  wire [3:0] error;
  wire [1:0] op_valid, op_acc, op_write;
  wire [53:0] op_start, op_past;
  wire door_valid, door_ready;
  // rows of what enters lie inside a memory, so that a row and the end of the memory are all that is kept and compared
  localparam RB = AW + 1;
  wire [2*RB-1:0] first_row = {op_start[27 +: RB], op_start[0 +: RB]};
  wire [2*RB-1:0] past_row = {op_past[27 +: RB], op_past[0 +: RB]};
  wire settled, overwritten, preloaded, decoding;
  baco_operands #(.DIM(DIM), .SP_ROWS(SP_ROWS), .ACC_ROWS(ACC_ROWS), .AW(AW), .DMA_MAX_BYTES(DMA_MAX_BYTES)) operands (
      .clock(clock), .reset(reset), .in_valid(cmd_valid), .in_ready(cmd_ready), .in_funct(cmd_funct), .in_xd(cmd_xd),
      .in_rs1(cmd_rs1), .in_rs2(cmd_rs2), .in_error(cmd_error), .in_tag(cmd_tag),
      .out_valid(door_valid), .out_ready(door_ready), .out_funct(door_funct), .out_rs1(door_rs1), .out_rs2(door_rs2),
      .out_tag(door_tag), .accepted(alloc), .out_kind(kind), .out_error(error), .out_uses(op_valid), .out_acc(op_acc),
      .out_write(op_write), .start(op_start), .past(op_past), .pending(preloaded), .settled(settled),
      .overwritten(overwritten), .busy(decoding));

  reg [N-1:0] used;
  reg [N-1:0] wait_for [0:N-1];
  reg [6:0] funct [0:N-1];
  reg [63:0] rs1 [0:N-1];
  reg [63:0] rs2 [0:N-1];
  reg [1:0] e_valid [0:N-1];
  reg [1:0] e_acc [0:N-1];
  reg [1:0] e_write [0:N-1];
  reg [2*RB-1:0] e_start [0:N-1];
  reg [2*RB-1:0] e_past [0:N-1];

  reg [NB-1:0] enter [0:2];                       // next entry to fill
  (* mem2reg *) reg [NB-1:0] head [0:2];                        // next entry to issue
  reg [2:0] waiting;                              // that entry is filled (head has not caught up with enter)
  wire [NB-1:0] slot = enter[kind];
  wire [2:0] space = {!used[enter[2]], !used[enter[1]], !used[enter[0]]};
  wire faulty = error != `BACO_ERROR_NONE;
  wire entering = door_valid && !faulty && space[kind] && settled;
  wire touches_pending;                           // it touches what the PRELOAD without COMPUTE names
  wire in_use_still = touches_pending || overwritten;
  assign reject = (door_valid && faulty) || (entering && in_use_still);
  assign reject_code = faulty ? error : `BACO_ERROR_ROWS_IN_USE;
  assign door_ready = faulty || (space[kind] && settled);
  assign alloc = entering && !in_use_still;
  assign alloc_class = kind;
  wire [NB-1:0] slot_in_class = slot - (kind == 2'd1 ? EX_FIRST : kind == 2'd2 ? ST_FIRST : {NB{1'b0}});
  wire [WB+1:0] alloc_wide = {{(WB+2-NB){1'b0}}, slot_in_class};
  assign alloc_id = alloc_wide[ID_BITS-1:0];

  genvar c;
  generate
    for (c = 0; c < 3; c = c + 1) begin : port
      wire [NB-1:0] h = head[c];
      wire [NB-1:0] id = h - (c == 1 ? EX_FIRST : c == 2 ? ST_FIRST : {NB{1'b0}});
      assign issue_valid[c] = waiting[c] && wait_for[h] == {N{1'b0}};
      wire [WB+1:0] wide = {{(WB+2-NB){1'b0}}, id};
      assign issue_id[c*ID_BITS +: ID_BITS] = wide[ID_BITS-1:0];
      wire _unused = &{1'b0, wide};
      assign issue_funct[c*7 +: 7] = funct[h];
      assign issue_rs1[c*64 +: 64] = rs1[h];
      assign issue_rs2[c*64 +: 64] = rs2[h];
    end
  endgenerate

  // done commands as a mask of entries
  reg [N-1:0] done;
  reg [WB+1:0] done_entry;
  integer d;
  always @* begin
    done = {N{1'b0}};
    done_entry = {(WB+2){1'b0}};
    for (d = 0; d < 5; d = d + 1)
      if (done_valid[d]) begin
        done_entry = {{(WB+2-ID_BITS){1'b0}}, done_id[d*ID_BITS +: ID_BITS]}
            + {{(WB+2-NB){1'b0}}, d == 0 ? {NB{1'b0}} : d == 4 ? ST_FIRST : EX_FIRST};
        done[done_entry[NB-1:0]] = 1'b1;
      end
  end

  // Older commands that the one at the door must wait for; simulators do not look for them before it can enter.
`ifdef SYNTHESIS
  wire wanted = 1'b1;
`else
  wire wanted = entering;
`endif
  reg [N-1:0] conflicts;
  reg [NB-1:0] last_execute;                      // the entry filled last in execution; of the PRELOAD without COMPUTE
  integer e, i, j;
  always @* begin
    conflicts = {N{1'b0}};
    e = 0;
    i = 0;
    j = 0;
    if (op_valid != 2'b00 && wanted)
      for (e = 0; e < N; e = e + 1)
        if (used[e])
          for (i = 0; i < 2; i = i + 1)
            for (j = 0; j < 2; j = j + 1)
              if (op_valid[i] && e_valid[e][j] && op_acc[i] == e_acc[e][j]
                  && first_row[i*RB +: RB] < e_past[e][j*RB +: RB] && e_start[e][j*RB +: RB] < past_row[i*RB +: RB]
                  && ((e < EX0 ? 2'd0 : e < ST0 ? 2'd1 : 2'd2) != kind
                      ? op_write[i] || e_write[e][j]
                      // same class: only what reads the scratchpad after a write
                      : e_write[e][j] && !op_write[i] && !op_acc[i] && kind != 2'd0))
                conflicts[e] = 1'b1;
    // a COMPUTE does not wait for its own PRELOAD
    if (kind == 2'd1 && preloaded) conflicts[last_execute] = 1'b0;
  end
  assign touches_pending = preloaded && conflicts[last_execute];

  wire [2:0] issued = issue_valid & issue_ready;
  (* mem2reg *) reg [NB-1:0] next_head [0:2];
  reg [NB-1:0] next_enter;
  always @* begin
    next_head[0] = head[0] == LD_LAST ? {NB{1'b0}} : head[0] + 1'b1;
    next_head[1] = head[1] == EX_LAST ? EX_FIRST : head[1] + 1'b1;
    next_head[2] = head[2] == ST_LAST ? ST_FIRST : head[2] + 1'b1;
    next_enter = slot == LD_LAST ? {NB{1'b0}} : slot == EX_LAST ? EX_FIRST : slot == ST_LAST ? ST_FIRST : slot + 1'b1;
  end

  integer n;
  always @(posedge clock) begin
    if (done != {N{1'b0}}) begin
      used <= used & ~done;
      for (n = 0; n < N; n = n + 1) wait_for[n] <= wait_for[n] & ~done;
    end
    for (n = 0; n < 3; n = n + 1)
      if (issued[n]) begin
        head[n] <= next_head[n];
        waiting[n] <= next_head[n] != enter[n] || (alloc && kind == n[1:0]);
      end
    if (alloc) begin
      used[slot] <= 1'b1;
      wait_for[slot] <= conflicts & ~done;
      funct[slot] <= door_funct;
      rs1[slot] <= door_rs1;
      rs2[slot] <= door_rs2;
      e_valid[slot] <= op_valid;
      e_acc[slot] <= op_acc;
      e_write[slot] <= op_write;
      e_start[slot] <= first_row;
      e_past[slot] <= past_row;
      enter[kind] <= next_enter;
      if (kind == 2'd1) last_execute <= slot;
      waiting[kind] <= 1'b1;
    end
    if (reset) begin
      used <= {N{1'b0}};
      waiting <= 3'd0;
      head[0] <= {NB{1'b0}};
      head[1] <= EX_FIRST;
      head[2] <= ST_FIRST;
      enter[0] <= {NB{1'b0}};
      enter[1] <= EX_FIRST;
      enter[2] <= ST_FIRST;
      last_execute <= EX_FIRST;
    end
  end

  // occupancy, by counting
  (* mem2reg *) reg [6:0] in_use [0:2];
  integer u;
  always @(posedge clock) begin
    if (alloc || done != {N{1'b0}}) begin
      in_use[0] <= in_use[0] + {6'd0, alloc && kind == 2'd0} - {6'd0, done_valid[0]};
      in_use[1] <= in_use[1] + {6'd0, alloc && kind == 2'd1} - {6'd0, done_valid[1]} - {6'd0, done_valid[2]}
          - {6'd0, done_valid[3]};
      in_use[2] <= in_use[2] + {6'd0, alloc && kind == 2'd2} - {6'd0, done_valid[4]};
    end
    if (reset) for (u = 0; u < 3; u = u + 1) in_use[u] <= 7'd0;
  end
  assign occupancy = {in_use[2], in_use[1], in_use[0]};
  wire lone_preload = in_use[0] == 7'd0 && in_use[1] == 7'd1 && in_use[2] == 7'd0 && funct[last_execute] == 7'd6
      && used[last_execute];
  assign busy = decoding || (used != {N{1'b0}} && !lone_preload);
  wire _unused = &{1'b0, alloc_wide, done_entry, op_start, op_past};
endmodule
