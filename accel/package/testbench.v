// Plays the commands of commands.hex on the accelerator and compares main memory afterwards with expected.hex.
//
// Read from the folder in which the simulation runs, all made by `baco rtl --package`:
//   memory.hex    main memory before, a byte a number, from address BASE on
//   commands.hex  one 144-bit number a step: 4 bits 0, 4 bits of KIND, 8 of the function code, 64 of rs1, 64 of rs2
//   expected.hex  main memory after, as the functional model of the accelerator left it
// Main memory answers reads in order, LATENCY cycles later or, now and then, after more; +seed=N draws other waits. On AXI4
// (BACO_TEST_BUS), a run in which main memory failed (axi4_bench.v) is begun anew after a reset by software.
// Ends with one line that begins with PASS or FAIL.
`include "baco_config.vh"
`include "test_config.vh"
module testbench (input wire clock);
  localparam STEPS = `BACO_TEST_STEPS, BYTES = `BACO_TEST_BYTES;
  localparam [63:0] BASE = `BACO_TEST_BASE;
  localparam LATENCY = 20;          // cycles from a read to its first beat
  localparam QUIET = 100;           // cycles without a sign of life after which the accelerator is done
  localparam STUCK = 100000;        // cycles that a step takes at most
  localparam BITS = `BACO_DMA_BITS, BEAT = BITS / 8;   // a beat: bits, bytes
  localparam QUEUE = 64;            // reads that wait for their beats, at most
  // what a step is: a command, a command whose answer is waited for, a fence
  localparam [3:0] KIND_RESULT = 1, KIND_FENCE = 2;
  // what the testbench waits for: reset, a command to be taken, its answer, the accelerator to be done with it all
  localparam [2:0] RESET = 0, OFFER = 1, ANSWER = 2, FENCE = 3, REST = 4, OVER = 5, RESTART = 6;
  // after an error of main memory: reset at once, or when all that was under way has ended
  localparam [3:0] BUS_ERROR = 15;

  reg [7:0] memory [0:BYTES-1];
  reg [7:0] expected [0:BYTES-1];
  reg [143:0] steps [0:STEPS-1];
  reg [31:0] chance = 1;            // xorshift (Marsaglia 2003): the same in every simulator
  integer seed = 0;
  initial begin
    if ($value$plusargs("seed=%d", seed)) chance = seed ^ 32'h5bd1e995;
    $readmemh("memory.hex", memory);
    $readmemh("expected.hex", expected);
    $readmemh("commands.hex", steps);
  end

  reg [2:0] state = RESET;
  integer step = 0, patience = 0, cycle = 0;            // patience: cycles in this state without what it waits for
  wire [143:0] now = steps[step < STEPS ? step : 0];
  wire [3:0] kind = now[139:136];

  wire cmd_ready, resp_valid, busy, error_valid;
  wire [4:0] resp_rd;
  wire [63:0] resp_data, error_rs1, error_rs2;
  wire [3:0] error_code;
  wire [6:0] error_funct;
  wire rd_req_valid, wr_req_valid, rd_resp_ready;
  wire [39:0] rd_req_addr, wr_req_addr;
  wire [2:0] rd_req_size;
  wire [BITS-1:0] wr_req_data;
  wire [BEAT-1:0] wr_req_mask;
  reg rd_req_ready = 0, wr_req_ready = 0, rd_resp_valid = 0, wr_ack_valid = 0;
  reg [BITS-1:0] rd_resp_data = 0;

`ifdef BACO_TEST_BUS
  wire restart = state == RESTART && (seed[0] || !busy);
  axi4_bench dut (
      .restart(restart),
`else
  baco_accelerator dut (
`endif
      .clock(clock), .reset(state == RESET),
      .cmd_valid(state == OFFER), .cmd_ready(cmd_ready), .cmd_funct(now[134:128]), .cmd_rd(5'd1),
      .cmd_xd(kind == KIND_RESULT), .cmd_rs1(now[127:64]), .cmd_rs2(now[63:0]),
      .resp_valid(resp_valid), .resp_ready(state == ANSWER || state == RESTART), .resp_rd(resp_rd), .resp_data(resp_data), .busy(busy),
      .error_valid(error_valid), .error_code(error_code), .error_funct(error_funct), .error_rs1(error_rs1),
      .error_rs2(error_rs2),
      .rd_req_valid(rd_req_valid), .rd_req_ready(rd_req_ready), .rd_req_addr(rd_req_addr), .rd_req_size(rd_req_size),
      .rd_resp_valid(rd_resp_valid), .rd_resp_ready(rd_resp_ready), .rd_resp_data(rd_resp_data),
      .wr_req_valid(wr_req_valid), .wr_req_ready(wr_req_ready), .wr_req_addr(wr_req_addr), .wr_req_data(wr_req_data),
      .wr_req_mask(wr_req_mask), .wr_ack_valid(wr_ack_valid));

  task finish_with(input [8*40-1:0] verdict);
    begin
      if (state != OVER) $display("%0s (step %0d of %0d, cycle %0d)", verdict, step, STEPS, cycle);
      state <= OVER;
      $finish;
    end
  endtask

  // ---------------------------------------------------------------- commands
  task go_on(input integer to);                         // to another step
    begin
      step <= to;
      patience <= 0;
      state <= to == STEPS ? REST : steps[to][139:136] == KIND_FENCE ? FENCE : OFFER;
    end
  endtask

  integer at, wrong;
  task compare;
    begin
      wrong = 0;
      for (at = 0; at < BYTES; at = at + 1)
        if (memory[at] !== expected[at]) begin
          if (wrong == 0) $display("first difference at %h: %h, expected %h", BASE + at, memory[at], expected[at]);
          wrong = wrong + 1;
        end
      if (wrong == 0) finish_with("PASS: main memory is as expected");
      else finish_with("FAIL: main memory differs");
    end
  endtask

  always @(posedge clock) begin
    cycle <= cycle + 1;
    patience <= patience + 1;
    case (state)
      RESET: if (patience == 4) go_on(0);
      OFFER: if (cmd_ready) begin
        if (kind == KIND_RESULT) begin
          state <= ANSWER;
          patience <= 0;
        end else go_on(step + 1);
      end
      ANSWER: if (resp_valid) go_on(step + 1);
      FENCE: if (!busy) go_on(step + 1);
      REST: if (busy || waiting > 0) patience <= 0;
            else if (patience == QUIET) compare;
      RESTART: if (!error_valid) begin
        $display("main memory failed: begun anew in cycle %0d", cycle);
        $readmemh("memory.hex", memory);
        go_on(0);
      end
      default: ;
    endcase
`ifdef BACO_TEST_BUS
    if (state != RESET && state != RESTART && error_valid && error_code == BUS_ERROR) begin
      state <= RESTART;
      patience <= 0;
    end else
`endif
    if (state != RESET && state != RESTART && error_valid) begin
      $display("command %0d, rs1 %h, rs2 %h: reason %0d", error_funct, error_rs1, error_rs2, error_code);
      finish_with("FAIL: a command was refused");
    end
    if (patience > STUCK) finish_with("FAIL: the accelerator hangs");
  end

  // ---------------------------------------------------------------- main memory
  reg [63:0] queue_address [0:QUEUE-1];                 // reads under way, in a ring: bytes from BASE
  integer queue_left [0:QUEUE-1], queue_from [0:QUEUE-1];  // bytes left, cycle of the first beat
  integer first = 0, waiting = 0, entry, lane, acks = 0;
  wire [63:0] read_at = {24'd0, rd_req_addr} - BASE, write_at = {24'd0, wr_req_addr} - BASE;

  always @(posedge clock) if (state != RESET) begin
    chance = chance ^ (chance << 13);
    chance = chance ^ (chance >> 17);
    chance = chance ^ (chance << 5);
    rd_req_ready <= waiting < QUEUE - 2 && chance[2:0] != 0;
    wr_req_ready <= chance[10:8] != 0;
    if (rd_req_valid && rd_req_ready) begin
      if (read_at + (64'd1 << rd_req_size) > BYTES) finish_with("FAIL: a read outside of main memory");
      entry = (first + waiting) % QUEUE;
      queue_address[entry] = read_at;
      queue_left[entry] = 1 << rd_req_size;
      queue_from[entry] = cycle + LATENCY;
      waiting = waiting + 1;
    end
    wr_ack_valid <= acks > 0;
    if (acks > 0) acks = acks - 1;
    if (wr_req_valid && wr_req_ready) begin
      for (lane = 0; lane < BEAT; lane = lane + 1)
        if (wr_req_mask[lane]) begin
          if (write_at + lane >= BYTES) finish_with("FAIL: a write outside of main memory");
          else memory[write_at + lane] = wr_req_data[8*lane +: 8];
        end
      acks = acks + 1;
    end
    if (!rd_resp_valid || rd_resp_ready) begin
      rd_resp_valid <= 0;
      if (waiting > 0 && cycle >= queue_from[first] && chance[18:16] != 0) begin
        for (lane = 0; lane < BEAT; lane = lane + 1)
          rd_resp_data[8*lane +: 8] <= memory[queue_address[first] + lane];
        rd_resp_valid <= 1;
        queue_address[first] = queue_address[first] + BEAT;
        queue_left[first] = queue_left[first] - BEAT;
        if (queue_left[first] <= 0) begin
          first = (first + 1) % QUEUE;
          waiting = waiting - 1;
        end
      end
    end
  end
endmodule
