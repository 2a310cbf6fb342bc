// Between a core's extension port (CV-X-IF) and the accelerator's RoCC port: instructions of the opcode custom-3 are commands.
//
// The core issues instructions before it is certain that they are executed. A command waits here until its instruction is the
// oldest of the core, when nothing can take it back; a flush drops all that still wait. The core gets the result of a command
// without one at once, of one with a result (xd) when the accelerator has answered: until then it stays the oldest, so that
// one is under way at most. Instructions of any other opcode come back as illegal.
//
// A `fence` waits until the accelerator has done what it was given, all its writes acknowledged; then, if it has written
// since the last time, the core's data cache is emptied (it is write-through: nothing is lost). Only then the fence is executed, and takes
// back what was read ahead of it.
module baco_cvxif #(
    parameter ID_BITS = 3,
    parameter DEPTH = 16                 // commands that wait, more than instructions of the core, a power of two
) (
    input wire clock,
    input wire reset,
    // issue: an instruction comes in the cycle after it was looked whether there is room
    input wire issue_valid,
    output wire issue_ready,
    input wire [31:0] issue_instr,
    input wire [ID_BITS-1:0] issue_id,
    input wire [63:0] issue_rs1,
    input wire [63:0] issue_rs2,
    // commit
    input wire [ID_BITS-1:0] oldest_id,  // of the core's oldest instruction
    input wire stores_done,              // all stores before it are in memory
    input wire flush,                    // all instructions behind it are dropped
    // results
    output wire result_valid,
    output wire [ID_BITS-1:0] result_id,
    output wire [63:0] result_data,
    output wire result_we,
    output wire result_exc,              // illegal instruction
    // fences of the core
    input wire fence_waiting,            // one is the oldest instruction, and all stores are in memory
    output wire fence_go,                // it is executed in this cycle
    output wire flush_cache,             // high until acknowledged
    input wire flush_cache_ack,
    // accelerator
    output wire cmd_valid,
    input wire cmd_ready,
    output wire [6:0] cmd_funct,
    output wire [4:0] cmd_rd,
    output wire cmd_xd,
    output wire [63:0] cmd_rs1,
    output wire [63:0] cmd_rs2,
    input wire resp_valid,
    output wire resp_ready,
    input wire [63:0] resp_data,
    input wire accelerator_busy,
    input wire accelerator_writes        // it writes a beat to memory in this cycle
);
  localparam INDEX_BITS = $clog2(DEPTH);
  localparam [31:0] ITEMS = DEPTH;
  localparam [INDEX_BITS:0] ROOM = ITEMS[INDEX_BITS:0] - 1'b1;
  localparam WIDTH = 141;
  localparam [6:0] CUSTOM_3 = 7'h7b;

  reg [WIDTH-1:0] items[0:DEPTH-1];
  // positions, with one bit more than an index: next to send, next to commit, next free
  reg [INDEX_BITS:0] head, commit, tail;

  // ---------------------------------------------------------------- issue
  wire is_command = issue_instr[6:0] == CUSTOM_3;
  wire push = issue_valid && is_command && !flush;
  // room for the one that comes now, and for one behind it
  wire [INDEX_BITS:0] waiting = tail - head;
  assign issue_ready = waiting < ROOM;

  // ---------------------------------------------------------------- commit
  reg [ID_BITS-1:0] ids[0:DEPTH-1];
  wire commits = commit != tail && ids[commit[INDEX_BITS-1:0]] == oldest_id && stores_done && !flush;

  always @(posedge clock) begin
    if (push) ids[tail[INDEX_BITS-1:0]] <= issue_id;
    if (push) items[tail[INDEX_BITS-1:0]] <=
        {issue_instr[31:25], issue_instr[11:7], issue_instr[14], issue_rs1, issue_rs2};
    if (reset) begin
      head <= {INDEX_BITS + 1{1'b0}};
      commit <= {INDEX_BITS + 1{1'b0}};
      tail <= {INDEX_BITS + 1{1'b0}};
    end else begin
      if (flush) tail <= commit;
      else if (push) tail <= tail + 1'b1;
      if (commits) commit <= commit + 1'b1;
      if (cmd_valid && cmd_ready) head <= head + 1'b1;
    end
  end

  // ---------------------------------------------------------------- to the accelerator
  reg [ID_BITS-1:0] answer_id;           // of the command whose result comes
  assign cmd_valid = head != commit;
  assign {cmd_funct, cmd_rd, cmd_xd, cmd_rs1, cmd_rs2} = items[head[INDEX_BITS-1:0]];
  always @(posedge clock) if (cmd_valid && cmd_ready && cmd_xd) answer_id <= ids[head[INDEX_BITS-1:0]];

  // ---------------------------------------------------------------- results: those at once go first
  wire at_once = issue_valid && !(is_command && issue_instr[14]);
  assign resp_ready = !at_once;
  assign result_valid = at_once || resp_valid;
  assign result_id = at_once ? issue_id : answer_id;
  assign result_data = at_once ? 64'd0 : resp_data;
  assign result_we = !at_once;
  assign result_exc = at_once && !is_command;

  // ---------------------------------------------------------------- fences
  reg written;                           // memory is not what the data cache may hold
  wire rests = head == commit && !accelerator_busy;
  assign flush_cache = fence_waiting && rests && written;
  assign fence_go = fence_waiting && rests && !written;
  always @(posedge clock)
    if (reset) written <= 1'b0;
    else if (accelerator_writes) written <= 1'b1;
    else if (flush_cache && flush_cache_ack) written <= 1'b0;
  wire _unused = &{1'b0, issue_instr};
endmodule
