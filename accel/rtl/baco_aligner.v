// Cuts a stream of memory beats into pieces of at most one beat at any byte offset and assembles them into rows.
//
// The last beat consumed is always kept (`hold`). A piece lies in one beat or crosses into the next one; it may start in
// the kept beat (`piece_share`) or in a beat not yet consumed. So every beat is consumed exactly once, whether it holds
// half a row or several narrow ones, and a run of crossing pieces takes a beat and gives a piece in every cycle: only the
// first crossing piece of a run costs an extra cycle, because it needs two beats.
module baco_aligner #(
    parameter DIM = 16,        // elements of a row
    parameter DMA_BITS = 128,  // bits of a beat
    parameter INDEX_BITS = 2   // bits of piece_index
) (
    input  wire                          clock,
    input  wire                          reset,
    input  wire                          piece_valid,     // a piece is wanted
    output wire                          piece_ready,     // it is put in the row at the end of this cycle
    input  wire                          piece_fetch,     // it comes from memory; otherwise the row is left as it is
    input  wire                          piece_clear,     // the row becomes zero (piece_fetch is low)
    input  wire                          piece_share,     // it starts in the beat consumed last
    input  wire                          piece_crosses,   // it ends in the beat after the one it starts in
    input  wire [$clog2(DMA_BITS/8)-1:0] piece_offset,    // byte of the beat it starts at
    input  wire [INDEX_BITS-1:0]         piece_index,     // its place in the row, in beats
    input  wire                          piece_completes, // the row is complete with it
    input  wire                          beat_valid,      // a beat of a response is there
    output wire                          beat_ready,      // it is consumed
    input  wire [DMA_BITS-1:0]           beat_data,       // its bytes, the lowest address in the low bits
    output reg                           row_valid,       // a complete row is there
    input  wire                          row_ready,       // it is taken
    output reg  [DIM*32-1:0]             row_data         // the row, the first element in the low bits
);
  // A row narrower than a beat is one piece, of which only the low bits are kept.
  localparam PIECE_BITS = DIM * 32 < DMA_BITS ? DIM * 32 : DMA_BITS;
  localparam PIECES = DIM * 32 / PIECE_BITS;
  localparam OFFSET_BITS = $clog2(DMA_BITS / 8);

  function [PIECE_BITS-1:0] cut;
    input [DMA_BITS*2-1:0] window;
    input [OFFSET_BITS-1:0] offset;
    /* verilator lint_off UNUSEDSIGNAL */  // the bits above the piece are shifted out of it on purpose
    reg [DMA_BITS*2-1:0] shifted;
    /* verilator lint_on UNUSEDSIGNAL */
    begin
      shifted = window >> {offset, 3'b000};
      cut = shifted[PIECE_BITS-1:0];
    end
  endfunction

  reg [DMA_BITS-1:0] hold;
  reg loaded;  // hold was filled ahead for a crossing piece that shares nothing with the one before

  wire room = !row_valid || row_ready;
  wire in_hold = piece_share || loaded;
  wire preload = !in_hold && piece_crosses;  // consume the first of two beats, give nothing yet
  wire needs_beat = piece_fetch && (!in_hold || piece_crosses);
  assign piece_ready = room && (!needs_beat || (beat_valid && !preload));
  assign beat_ready = piece_valid && needs_beat && (preload || room);

  wire fire = piece_valid && piece_ready;
  wire beat_taken = beat_ready && beat_valid;

  always @(posedge clock) begin
    if (reset) begin
      row_valid <= 1'b0;
      loaded <= 1'b0;
    end else begin
      if (fire) row_valid <= piece_completes;
      else if (row_ready) row_valid <= 1'b0;
      if (fire) loaded <= 1'b0;
      else if (beat_taken) loaded <= 1'b1;
    end
    if (beat_taken) hold <= beat_data;
  end

  integer p;
  always @(posedge clock)
    if (fire) begin
      if (piece_fetch) begin
        for (p = 0; p < PIECES; p = p + 1)
          if (piece_index == p[INDEX_BITS-1:0])
            row_data[p*PIECE_BITS+:PIECE_BITS] <=
                cut(in_hold ? {beat_data, hold} : {{DMA_BITS{1'b0}}, beat_data}, piece_offset);
      end else if (piece_clear) row_data <= {DIM * 32{1'b0}};
    end
endmodule
