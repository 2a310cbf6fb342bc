// From a core's AXI4 port of 64 bits to a memory port of the accelerator's kind: reads are aligned chunks that are answered in
// the order of requests, writes are beats with byte masks.
//
// The core writes single words only, and reads single words or aligned lines, whole words. Reads outside of main memory see the boot ROM at
// ROM_BASE, which jumps to `boot_address`; anything else there reads 0, and is not written. Atomic operations (AXI5's ATOP
// with a result) and exclusive accesses are done here, for one core: an atomic operation waits until nothing else of the core is under
// way. It is not one to the accelerator, which knows nothing of them.
module baco_core_port #(
    parameter ADDR_BITS = 40,
    parameter DMA_BITS = 128,            // of the memory port, 64 or more
    parameter ID_BITS = 4,
    parameter READS = 8,                 // under way
    parameter WRITES = 16,
    parameter [63:0] MEMORY_BASE = 64'h8000_0000,
    parameter [63:0] ROM_BASE = 64'h1_0000
) (
    input wire clock,
    input wire reset,
    input wire [63:0] boot_address,
    // AXI4 of the core
    input wire awvalid,
    output wire awready,
    input wire [ID_BITS-1:0] awid,
    input wire [63:0] awaddr,
    input wire [2:0] awsize,
    input wire awlock,
    input wire [5:0] awatop,
    input wire wvalid,
    output wire wready,
    input wire [63:0] wdata,
    input wire [7:0] wstrb,
    output wire bvalid,
    input wire bready,
    output wire [ID_BITS-1:0] bid,
    output wire [1:0] bresp,
    input wire arvalid,
    output wire arready,
    input wire [ID_BITS-1:0] arid,
    input wire [63:0] araddr,
    input wire [7:0] arlen,
    input wire arlock,
    output wire rvalid,
    input wire rready,
    output wire [ID_BITS-1:0] rid,
    output wire [63:0] rdata,
    output wire [1:0] rresp,
    output wire rlast,
    // memory
    output wire rd_req_valid,
    input wire rd_req_ready,
    output wire [ADDR_BITS-1:0] rd_req_addr,
    output wire [2:0] rd_req_size,
    input wire rd_resp_valid,
    output wire rd_resp_ready,
    input wire [DMA_BITS-1:0] rd_resp_data,
    output wire wr_req_valid,
    input wire wr_req_ready,
    output wire [ADDR_BITS-1:0] wr_req_addr,
    output wire [DMA_BITS-1:0] wr_req_data,
    output wire [DMA_BITS/8-1:0] wr_req_mask,
    input wire wr_ack_valid
);
  localparam BEAT_LOG = $clog2(DMA_BITS / 8);
  localparam [31:0] BEAT_SIZE = BEAT_LOG;
  localparam LANE_BITS = BEAT_LOG > 3 ? BEAT_LOG - 3 : 1;  // which word of a beat
  localparam [LANE_BITS-1:0] LAST_LANE = BEAT_LOG > 3 ? {LANE_BITS{1'b1}} : {LANE_BITS{1'b0}};
  localparam [1:0] OKAY = 2'b00, EXOKAY = 2'b01;

  function [LANE_BITS-1:0] lane_of(input [63:0] address);
    // verilator lint_off UNUSEDSIGNAL
    reg [63:0] moved;
    // verilator lint_on UNUSEDSIGNAL
    begin
      moved = BEAT_LOG > 3 ? address >> 3 : 64'd0;
      lane_of = moved[LANE_BITS-1:0] & LAST_LANE;
    end
  endfunction

  // ---------------------------------------------------------------- an atomic operation: its read, its write, both answers
  localparam [2:0] NONE = 3'd0, ASKS = 3'd1, READS_IT = 3'd2, WRITES_IT = 3'd3, TELLS = 3'd4;
  reg [2:0] atomic;
  reg [ID_BITS-1:0] atomic_id;
  reg [63:0] atomic_addr, atomic_operand, atomic_old;
  reg [5:0] atomic_op;
  reg [7:0] atomic_strb;
  reg atomic_told;                       // the core has what was in memory
  wire both = awvalid && wvalid;
  wire is_atomic = awatop[5];            // with a result: those that a core of this kind asks for
  wire reads_idle, writes_idle;
  wire quiet = reads_idle && writes_idle && atomic == NONE;

  // ---------------------------------------------------------------- reads
  // words of a line are a power of two; what is smaller than a beat reads all of it
  reg [2:0] bytes_log;
  always @*
    case (arlen)
      8'd1: bytes_log = 3'd4;
      8'd3: bytes_log = 3'd5;
      8'd7: bytes_log = 3'd6;
      8'd15: bytes_log = 3'd7;
      default: bytes_log = 3'd3;
    endcase
  wire [2:0] read_size = bytes_log < BEAT_SIZE[2:0] ? BEAT_SIZE[2:0] : bytes_log;
  wire in_memory = araddr >= MEMORY_BASE;
  wire read_space;
  wire atomic_asks = atomic == ASKS;
  // reads wait behind an atomic operation, also behind one that waits for them
  wire takes_read = arvalid && atomic == NONE && read_space && !(both && is_atomic);
  wire [63:0] read_address = atomic_asks ? atomic_addr : araddr;
  wire asks = (takes_read && in_memory) || atomic_asks;
  assign rd_req_valid = asks;
  assign rd_req_size = atomic_asks ? BEAT_SIZE[2:0] : read_size;
  assign rd_req_addr = {read_address[ADDR_BITS-1:BEAT_LOG], {BEAT_LOG{1'b0}}};
  assign arready = takes_read && (!in_memory || rd_req_ready);

  // who asked: ID, words less one, word of the first beat, whether from memory, bits of the ROM's address, exclusive
  wire due, from_memory, exclusive;
  wire [ID_BITS-1:0] due_id;
  wire [7:0] due_len;
  wire [LANE_BITS-1:0] due_lane;
  wire [1:0] due_rom;
  wire due_in_rom;
  wire read_ends;
  baco_fifo #(.WIDTH(ID_BITS + LANE_BITS + 13), .DEPTH(READS)) asked (
      .clock(clock), .reset(reset), .in_valid(arvalid && arready), .in_ready(read_space),
      .in_data({arid, arlen, lane_of(araddr), in_memory, arlock, araddr[4:3],
                araddr[63:5] == ROM_BASE[63:5]}),
      .out_valid(due), .out_ready(read_ends),
      .out_data({due_id, due_len, due_lane, from_memory, exclusive, due_rom, due_in_rom}));
  assign reads_idle = !due;

  reg [7:0] words;                       // of the answer that are out
  wire [LANE_BITS-1:0] lane = (due_lane + words[LANE_BITS-1:0]) & LAST_LANE;
  wire [DMA_BITS-1:0] words_from = rd_resp_data >> {atomic == READS_IT ? lane_of(atomic_addr) : lane, 6'd0};
  wire [63:0] word = words_from[63:0];
  reg [63:0] rom;
  always @*
    case (due_rom)
      2'd0: rom = 64'h0000_0297_f140_2573;   // csrr a0, mhartid; auipc t0, 0
      2'd1: rom = 64'h0002_8067_00c2_b283;   // ld t0, 12(t0); jr t0
      2'd2: rom = boot_address;
      default: rom = 64'd0;
    endcase
  wire atomic_result = atomic == TELLS && !atomic_told;
  assign rvalid = atomic_result || (due && (rd_resp_valid || !from_memory));
  assign rid = atomic_result ? atomic_id : due_id;
  assign rdata = atomic_result ? atomic_old : from_memory ? word : due_in_rom ? rom : 64'd0;
  assign rresp = !atomic_result && exclusive ? EXOKAY : OKAY;
  assign rlast = atomic_result || words == due_len;
  wire word_goes = due && rvalid && rready && !atomic_result;
  assign read_ends = word_goes && words == due_len;
  // a beat is done with its last word, or with the answer's
  assign rd_resp_ready = atomic == READS_IT || (word_goes && from_memory && (lane == LAST_LANE || words == due_len));
  always @(posedge clock)
    if (reset) words <= 8'd0;
    else if (word_goes) words <= words == due_len ? 8'd0 : words + 8'd1;

  // ---------------------------------------------------------------- writes
  wire write_space, written, written_exclusive, written_memory;
  wire write_in_memory = awaddr >= MEMORY_BASE;
  reg reserved;
  reg [60:0] reservation;                // words that a load reserved
  wire fails = awlock && !(reserved && reservation == awaddr[63:3]);
  wire plain = both && !is_atomic && atomic == NONE && write_space;
  wire leaves = plain && write_in_memory && !fails;   // towards memory
  wire atomic_writes = atomic == WRITES_IT;
  wire takes_write = plain && (!leaves || wr_req_ready);
  wire takes_atomic = both && is_atomic && quiet;
  assign awready = takes_write || takes_atomic;
  assign wready = awready;
  wire [63:0] write_address = atomic_writes ? atomic_addr : awaddr;
  assign wr_req_valid = leaves || atomic_writes;
  assign wr_req_addr = {write_address[ADDR_BITS-1:BEAT_LOG], {BEAT_LOG{1'b0}}};
  wire [7:0] strobes = atomic_writes ? atomic_strb : wstrb;
  wire [63:0] new_value;
  assign wr_req_data = {DMA_BITS / 64{atomic_writes ? new_value : wdata}};
  wire [DMA_BITS/8-1:0] every_word = {DMA_BITS / 64{strobes}};
  wire [DMA_BITS/8-1:0] not_words = {DMA_BITS / 8{1'b1}} << 8;
  wire [DMA_BITS/8-1:0] first_word = ~not_words;
  assign wr_req_mask = every_word & (first_word << {lane_of(write_address), 3'd0});

  // answers: of memory's in its order, others when they are the oldest
  wire [ID_BITS-1:0] written_id;
  wire answer_there;
  reg [5:0] acknowledged;                // that no answer has taken yet
  wire write_ends = bvalid && bready && !(atomic == TELLS);
  wire ack_used = write_ends && written_memory;
  baco_fifo #(.WIDTH(ID_BITS + 2), .DEPTH(WRITES)) wrote (
      .clock(clock), .reset(reset), .in_valid(takes_write), .in_ready(write_space), .in_data({awid, leaves, awlock && !fails}),
      .out_valid(written), .out_ready(write_ends), .out_data({written_id, written_memory, written_exclusive}));
  assign writes_idle = !written;
  assign answer_there = written && (!written_memory || acknowledged != 6'd0);
  wire atomic_answers = atomic == TELLS && atomic_told && acknowledged != 6'd0;
  assign bvalid = answer_there || atomic_answers;
  assign bid = atomic_answers ? atomic_id : written_id;
  assign bresp = !atomic_answers && written_exclusive ? EXOKAY : OKAY;
  wire atomic_ends = atomic_answers && bready;
  always @(posedge clock) begin
    if (reset) acknowledged <= 6'd0;
    else acknowledged <= acknowledged + {5'd0, wr_ack_valid} - {5'd0, ack_used || atomic_ends};
    if (reset || (takes_write && awlock)) reserved <= 1'b0;
    else if (arvalid && arready && arlock) reserved <= 1'b1;
    if (arvalid && arready && arlock) reservation <= araddr[63:3];
  end

  // ---------------------------------------------------------------- what an atomic operation makes of the old value
  wire narrow = atomic_strb != 8'hff;    // of 4 bytes
  wire upper = narrow && atomic_strb[4];
  wire [31:0] old_half = upper ? atomic_old[63:32] : atomic_old[31:0];
  wire [31:0] operand_half = upper ? atomic_operand[63:32] : atomic_operand[31:0];
  wire is_signed = !atomic_op[1];        // of maximum and minimum
  wire [63:0] a = !narrow ? atomic_old : {{32{old_half[31] && is_signed}}, old_half};
  wire [63:0] b = !narrow ? atomic_operand : {{32{operand_half[31] && is_signed}}, operand_half};
  wire less = is_signed ? $signed(a) < $signed(b) : a < b;
  reg [63:0] value;
  always @*
    if (atomic_op[4]) value = b;         // swap
    else
      case (atomic_op[2:0])
        3'd0: value = a + b;
        3'd1: value = a & ~b;            // clear
        3'd2: value = a ^ b;
        3'd3: value = a | b;             // set
        3'd4, 3'd6: value = less ? b : a;
        default: value = less ? a : b;
      endcase
  assign new_value = narrow ? {2{value[31:0]}} : value;

  always @(posedge clock) begin
    if (reset) atomic <= NONE;
    else
      case (atomic)
        NONE: if (takes_atomic) atomic <= ASKS;
        ASKS: if (rd_req_ready) atomic <= READS_IT;
        READS_IT: if (rd_resp_valid) atomic <= WRITES_IT;
        WRITES_IT: if (wr_req_ready) atomic <= TELLS;
        default: if (atomic_ends) atomic <= NONE;
      endcase
    if (takes_atomic) begin
      atomic_id <= awid;
      atomic_addr <= awaddr;
      atomic_operand <= wdata;
      atomic_op <= awatop;
      atomic_strb <= wstrb;
    end
    if (atomic == READS_IT) atomic_old <= word;
    if (atomic != TELLS) atomic_told <= 1'b0;
    else if (rvalid && rready) atomic_told <= 1'b1;
  end
  wire _unused = &{1'b0, awsize, words_from, read_address, write_address, atomic_op[3], atomic_op[5]};
endmodule
