// Walks load jobs row by row and block by block: says which bytes of the beat stream make up the next local row, where
// the row goes, and hands on complete rows in program order.
//
// A job is one command. It visits memory exactly as baco_dma_read does, so the two agree on the beats without talking
// to each other: the rows of a `merged` job lie in one run of beats, in which a row may start in the beat its predecessor ends in;
// otherwise every row starts with a beat of its own. A job that replicates (stride 0, or zeros) writes each block to all its
// rows before it goes on to the next block, so that one row is fetched and nothing has to be remembered.
`ifdef BACO_PACKED_WEIGHTS
// The highest bit of a job's tag says that elements in memory have 4 bits, two a byte: a block has half as many bytes, which lie in
// the low half of the row.
`endif
`ifdef BACO_BLOCK_WEIGHTS
// The three highest bits of a job's tag say that memory has elements of blocks, of 4 bits (1) or 8 bits (2 to 4), or their powers
// (5), which are written to no row; they lie in the low part of the row. Which of a command's blocks of columns a row is, is told.
`endif
// A job without rows (a configuration command) passes as one row that is not written, so that completion keeps its order.
module baco_load_rows #(
`ifdef BACO_BLOCK_WEIGHTS
    parameter BLOCK_BITS = 1,    // bits of the number of a block of columns
`endif
    parameter DIM = 16,          // elements of a local row
    parameter DMA_BITS = 128,    // bits of a beat
    parameter ROW_BITS = 14,     // bits of a local row index
    parameter COLS_BITS = 7,     // bits of a column count
    parameter TAG_BITS = 8       // bits that accompany a job
) (
    input  wire                          clock,
    input  wire                          reset,
    input  wire                          job_valid,        // a job is offered
    output wire                          job_ready,        // it is taken
    input  wire                          job_nothing,      // it has no rows
    input  wire                          job_zero,         // its elements are zero, nothing comes from memory
    input  wire                          job_replicate,    // one memory row (or none) for all local rows
    input  wire                          job_wide,         // elements in memory are 4 bytes instead of 1
    input  wire                          job_merged,       // all rows share one run of beats
    input  wire [$clog2(DMA_BITS/8)-1:0] job_offset,       // byte of the first beat the first row starts at
    input  wire [$clog2(DMA_BITS/8)-1:0] job_stride,       // bytes from row to row, modulo a beat
    input  wire [$clog2(DMA_BITS/8)-1:0] job_gap,          // bytes between rows of a merged job
    input  wire [15:0]                   job_rows,         // rows, 1 or more
    input  wire [COLS_BITS-1:0]          job_cols,         // elements of a memory row, 1 or more
    input  wire [ROW_BITS-1:0]           job_row,          // local row of the first element
    input  wire [ROW_BITS-1:0]           job_block_stride, // local rows from one block of DIM columns to the next
    input  wire [TAG_BITS-1:0]           job_tag,          // handed on with every row
    input  wire                          beat_valid,       // a beat of a response is there
    output wire                          beat_ready,       // it is consumed
    input  wire [DMA_BITS-1:0]           beat_data,        // its bytes
    output wire                          row_valid,        // a local row is there
    input  wire                          row_ready,        // it is taken
    output reg                           row_nothing,      // it is not to be written
    output reg                           row_first,        // it is the first of its job
    output reg                           row_last,         // it is the last of its job
    output reg                           row_wide,         // its elements are 4 bytes, else 1
    output reg  [ROW_BITS-1:0]           row_index,        // local row
    output reg  [DIM-1:0]                row_mask,         // elements to write
    output reg  [TAG_BITS-1:0]           row_tag,          // the job's tag
`ifdef BACO_BLOCK_WEIGHTS
    output reg  [BLOCK_BITS-1:0]         row_block,        // its block of columns, from 0 on
`endif
    output wire [DIM*32-1:0]             row_data,         // elements, packed from the low bits by their size
    output wire                          active            // a job is being walked
);
  localparam BEAT = DMA_BITS / 8;
  localparam BEAT_LOG = $clog2(BEAT);
  localparam BYTES_BITS = $clog2(DIM * 4 + 1);  // bytes of a block
  localparam UNIT_NARROW = `ROW_BYTES < BEAT ? `ROW_BYTES : BEAT;  // bytes of a whole piece
  localparam UNIT_WIDE = DIM * 4 < BEAT ? DIM * 4 : BEAT;
  localparam [31:0] UNIT_NARROW_WORD = UNIT_NARROW;
  localparam [31:0] UNIT_WIDE_WORD = UNIT_WIDE;
  localparam PIECES = DIM * 4 / UNIT_WIDE;
  localparam INDEX_BITS = PIECES > 1 ? $clog2(PIECES) : 1;
  localparam [31:0] DIM_WORD = DIM;
  localparam [COLS_BITS-1:0] BLOCK = DIM_WORD[COLS_BITS-1:0];

  reg walk_valid, walk_nothing, walk_zero, walk_replicate, walk_wide, walk_merged;
  reg [BEAT_LOG-1:0] walk_stride, walk_gap;
  reg [15:0] walk_rows;
  reg [COLS_BITS-1:0] walk_cols;
  reg [ROW_BITS-1:0] walk_block_stride;
  reg [TAG_BITS-1:0] walk_tag;

  reg begun;                     // a row of the job has been handed on
  reg replay;                    // the row is a copy of the one before
  reg share;                     // the next piece starts in the beat consumed last
  reg [BEAT_LOG-1:0] offset;     // byte of its beat the next piece starts at
  reg [BEAT_LOG-1:0] row_start;  // byte of its beat the memory row started at
  reg [INDEX_BITS-1:0] index;    // piece of the block
  reg [BYTES_BITS-1:0] left;     // bytes of the block that remain
  reg [COLS_BITS-1:0] cols_left; // elements of the memory row that remain, this block included
  reg [15:0] rows_left;          // rows that remain, this one included
  reg [ROW_BITS-1:0] group;      // local row of this row's first block; replicating, of this block's first row
  reg [ROW_BITS-1:0] here;       // local row being filled
`ifdef BACO_BLOCK_WEIGHTS
  reg [BLOCK_BITS-1:0] block;    // its block of columns
`endif

  // Bytes of a block when `cols` elements of the memory row remain.
  function [BYTES_BITS-1:0] block_bytes;
    input [COLS_BITS-1:0] cols;
    input wide;
`ifdef BACO_PACKED_WEIGHTS
    input paired;
`endif
`ifdef BACO_BLOCK_WEIGHTS
    input [2:0] kind;
`endif
    reg [BYTES_BITS-3:0] count;
    begin
      count = cols > BLOCK ? BLOCK[BYTES_BITS-3:0] : cols[BYTES_BITS-3:0];
`ifdef BACO_PACKED_WEIGHTS
      if (paired) count = {1'b0, count[BYTES_BITS-3:1]} + {{(BYTES_BITS - 3) {1'b0}}, count[0]};
`endif
`ifdef BACO_BLOCK_WEIGHTS
      if (kind == 3'd1) count = {1'b0, count[BYTES_BITS-3:1]} + {{(BYTES_BITS - 3) {1'b0}}, count[0]};
      block_bytes = wide ? {count, 2'b00} : kind != 3'd0 ? {2'b00, count} : `BYTES(count);
`else
      block_bytes = wide ? {count, 2'b00} : `BYTES(count);
`endif
    end
  endfunction

  wire [BYTES_BITS-1:0] unit = walk_wide ? UNIT_WIDE_WORD[BYTES_BITS-1:0] : UNIT_NARROW_WORD[BYTES_BITS-1:0];
  wire piece_fetch = !walk_nothing && !walk_zero && !replay;
  wire ends_block = !piece_fetch || left <= unit;
  wire [BYTES_BITS-1:0] taken = left <= unit ? left : unit;
  wire last_block = cols_left <= BLOCK;
  wire last_row = rows_left == 16'd1;
  wire ends_job = walk_nothing || (ends_block && last_block && last_row);

  // Where the piece ends, from the start of the beat it starts in: at most two beats on. The next piece shares
  // the last beat unless it starts on or after its end; the next row of a merged job likewise, after the gap.
  localparam END_BITS = BEAT_LOG + 2;
  wire [END_BITS-1:0] piece_end;
  wire [END_BITS-1:0] piece_last = piece_end - {{(END_BITS - 1) {1'b0}}, 1'b1};
  wire [END_BITS-1:0] row_next = piece_end + {2'b00, walk_gap};
  generate
    if (BYTES_BITS > END_BITS) begin : narrow_beat
      wire _unused_taken = &{1'b0, taken[BYTES_BITS-1:END_BITS]};
      assign piece_end = {2'b00, offset} + taken[END_BITS-1:0];
    end else if (BYTES_BITS == END_BITS) begin : equal_beat
      assign piece_end = {2'b00, offset} + taken;
    end else begin : wide_beat
      assign piece_end = {2'b00, offset} + {{(END_BITS - BYTES_BITS) {1'b0}}, taken};
    end
  endgenerate
  wire crosses = piece_last[END_BITS-1:BEAT_LOG] != 2'd0;
  wire _unused = &{1'b0, piece_last[BEAT_LOG-1:0], row_next[BEAT_LOG-1:0]};

  wire piece_ready;
  wire fire = walk_valid && piece_ready;
  assign job_ready = !walk_valid || (fire && ends_job);
  wire begin_job = job_ready && job_valid;

  wire [BEAT_LOG-1:0] next_start = row_start + walk_stride;
  wire [ROW_BITS-1:0] next_group = group + (walk_replicate ? walk_block_stride : {{(ROW_BITS - 1) {1'b0}}, 1'b1});
  wire [COLS_BITS-1:0] next_cols = cols_left - BLOCK;

  always @(posedge clock)
    if (reset) walk_valid <= 1'b0;
    else if (job_ready) walk_valid <= job_valid;

  always @(posedge clock)
    if (begin_job) begin
      walk_nothing <= job_nothing;
      walk_zero <= job_zero;
      walk_replicate <= job_replicate;
      walk_wide <= job_wide;
      walk_merged <= job_merged;
      walk_stride <= job_stride;
      walk_gap <= job_gap;
      walk_rows <= job_rows;
      walk_cols <= job_cols;
      walk_block_stride <= job_block_stride;
      walk_tag <= job_tag;
      begun <= 1'b0;
      replay <= 1'b0;
      share <= 1'b0;
      offset <= job_offset;
      row_start <= job_offset;
      index <= {INDEX_BITS{1'b0}};
`ifdef BACO_PACKED_WEIGHTS
      left <= block_bytes(job_cols, job_wide, job_tag[TAG_BITS-1]);
`else
`ifdef BACO_BLOCK_WEIGHTS
      left <= block_bytes(job_cols, job_wide, job_tag[TAG_BITS-1-:3]);
`else
      left <= block_bytes(job_cols, job_wide);
`endif
`endif
      cols_left <= job_cols;
      rows_left <= job_rows;
      group <= job_row;
      here <= job_row;
`ifdef BACO_BLOCK_WEIGHTS
      block <= {BLOCK_BITS{1'b0}};
`endif
    end else if (fire) begin
      if (piece_fetch) begin
        offset <= piece_end[BEAT_LOG-1:0];
        share <= piece_end[BEAT_LOG-1:0] != {BEAT_LOG{1'b0}};
      end
      if (!ends_block) begin
        index <= index + 1'b1;
        left <= left - unit;
      end else begin
        begun <= 1'b1;
        index <= {INDEX_BITS{1'b0}};
        if (walk_replicate && !last_row) begin
          replay <= 1'b1;
          rows_left <= rows_left - 16'd1;
          here <= here + 1'b1;
        end else if (!last_block) begin
          replay <= 1'b0;
          cols_left <= next_cols;
`ifdef BACO_BLOCK_WEIGHTS
          block <= block + 1'b1;
`endif
`ifdef BACO_PACKED_WEIGHTS
          left <= block_bytes(next_cols, walk_wide, walk_tag[TAG_BITS-1]);
`else
`ifdef BACO_BLOCK_WEIGHTS
          left <= block_bytes(next_cols, walk_wide, walk_tag[TAG_BITS-1-:3]);
`else
          left <= block_bytes(next_cols, walk_wide);
`endif
`endif
          if (walk_replicate) begin
            rows_left <= walk_rows;
            group <= next_group;
            here <= next_group;
          end else here <= here + walk_block_stride;
        end else begin
          rows_left <= rows_left - 16'd1;
          cols_left <= walk_cols;
`ifdef BACO_BLOCK_WEIGHTS
          block <= {BLOCK_BITS{1'b0}};
`endif
`ifdef BACO_PACKED_WEIGHTS
          left <= block_bytes(walk_cols, walk_wide, walk_tag[TAG_BITS-1]);
`else
`ifdef BACO_BLOCK_WEIGHTS
          left <= block_bytes(walk_cols, walk_wide, walk_tag[TAG_BITS-1-:3]);
`else
          left <= block_bytes(walk_cols, walk_wide);
`endif
`endif
          group <= next_group;
          here <= next_group;
          row_start <= next_start;
          offset <= next_start;
          share <= walk_merged && row_next[END_BITS-1:BEAT_LOG] == piece_last[END_BITS-1:BEAT_LOG];
        end
      end
    end

  // The row that the aligner completes at the end of this cycle.
  always @(posedge clock)
    if (fire && (ends_block || walk_nothing)) begin
`ifdef BACO_BLOCK_WEIGHTS
      row_nothing <= walk_nothing || walk_tag[TAG_BITS-1-:3] == 3'd5;
      row_block <= block;
`else
      row_nothing <= walk_nothing;
`endif
      row_first <= !begun;
      row_last <= ends_job;
      row_wide <= walk_wide;
      row_index <= here;
      row_mask <= last_block ? ~({DIM{1'b1}} << cols_left) : {DIM{1'b1}};
      row_tag <= walk_tag;
    end

  assign active = walk_valid || row_valid;

  baco_aligner #(.DIM(DIM), .DMA_BITS(DMA_BITS), .INDEX_BITS(INDEX_BITS)) aligner (
      .clock(clock), .reset(reset),
      .piece_valid(walk_valid), .piece_ready(piece_ready), .piece_fetch(piece_fetch), .piece_clear(walk_zero),
      .piece_share(share), .piece_crosses(crosses), .piece_offset(offset), .piece_index(index),
      .piece_completes(ends_block), .beat_valid(beat_valid), .beat_ready(beat_ready), .beat_data(beat_data),
      .row_valid(row_valid), .row_ready(row_ready), .row_data(row_data));
endmodule
