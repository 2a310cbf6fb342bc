// Collects slices of bytes into beats of the memory bus. Bytes that fall into the same beat, one slice after the
// other, share it, so that rows narrower than the bus leave in full beats where they are contiguous in memory. A beat
// that is not full leaves when the next slice lies elsewhere or nothing follows. One beat a cycle; a slice that
// crosses into the next beat leaves its rest in the buffer, where the next contiguous slice finds it.
//
// The number of beats written and not yet acknowledged is bounded.
module baco_store_packer #(
    parameter SLICE = 16,          // bytes in a slice, at most those of a beat
    parameter DMA_BITS = 128,      // a beat
    parameter DMA_MAX_BYTES = 64,  // with DMA_REQUESTS: bound on the bytes in flight
    parameter DMA_REQUESTS = 16,
    parameter ADDR_BITS = 40       // memory address
) (
    input wire clock,
    input wire reset,
    input wire slice_valid,                       // bytes to write
    output wire slice_ready,                      // they are taken in this cycle
    input wire [ADDR_BITS-1:0] slice_addr,        // address of the first, any alignment
    input wire [6:0] slice_bytes,                 // how many, 1..SLICE
    input wire [SLICE*8-1:0] slice_data,          // the first is lowest
    input wire more,                              // other slices will follow soon: keep an incomplete beat
    output wire wr_req_valid,                     // write one beat
    input wire wr_req_ready,                      // it is accepted in this cycle
    output reg [ADDR_BITS-1:0] wr_req_addr,       // aligned to beats
    output reg [DMA_BITS-1:0] wr_req_data,
    output reg [DMA_BITS/8-1:0] wr_req_mask,      // bytes that are written
    input wire wr_ack_valid,                      // the oldest beat in flight is in memory
    output wire [7:0] bytes_sent,                 // bytes written by the beat accepted in this cycle, else 0
    output reg [8:0] requests_in_flight,          // beats accepted and not acknowledged
    output wire stalled,                          // a beat waits
    output wire busy                              // bytes or beats are in here, or writes in flight
);
  localparam BUS = DMA_BITS / 8;
  localparam OFFSET_BITS = $clog2(BUS);
  localparam BEATS = DMA_REQUESTS * (DMA_MAX_BYTES > BUS ? DMA_MAX_BYTES / BUS : 1);
  localparam [8:0] LIMIT = BEATS > 511 ? 9'd511 : BEATS[8:0];
  localparam [7:0] BUS_8 = BUS[7:0];

  reg held;                                       // bytes wait in the buffer
  reg held_to_end;                                // up to the end of their beat: nothing can be added
  reg [ADDR_BITS-OFFSET_BITS-1:0] held_beat;
  reg [DMA_BITS-1:0] held_data;
  reg [BUS-1:0] held_mask;
  reg request;                                    // a beat is in wr_req_*

  wire [ADDR_BITS-OFFSET_BITS-1:0] beat = slice_addr[ADDR_BITS-1:OFFSET_BITS];
  wire [OFFSET_BITS-1:0] offset = slice_addr[OFFSET_BITS-1:0];
  wire [7:0] reach = {{(8-OFFSET_BITS){1'b0}}, offset} + {1'b0, slice_bytes};
  wire to_end = reach >= BUS_8;
  wire crosses = reach > BUS_8;
  wire same = held && held_beat == beat;
  wire elsewhere = held && !same;

  assign wr_req_valid = request && requests_in_flight != LIMIT;
  wire accepted = wr_req_valid && wr_req_ready;
  wire free = !request || accepted;
  // a beat leaves: the held one, if the slice lies elsewhere or there is none; else the one that the slice completes
  wire send_held = free && held && (slice_valid ? !same : held_to_end || !more);
  wire send_slice = free && slice_valid && !elsewhere && to_end;
  assign slice_ready = elsewhere ? free && !crosses : !to_end || free;
  wire take = slice_valid && slice_ready;

  // verilator lint_off BLKSEQ
  // (names within this block)
  reg [2*DMA_BITS-1:0] data;
  reg [2*BUS-1:0] mask;
  integer i;
  always @(posedge clock) begin
    if (send_held) begin
      wr_req_addr <= {held_beat, {OFFSET_BITS{1'b0}}};
      wr_req_data <= held_data;
      wr_req_mask <= held_mask;
    end
    if (take) begin
      data = {{(2*DMA_BITS-SLICE*8){1'b0}}, slice_data};
      if (offset != {OFFSET_BITS{1'b0}})
        data = data << {offset, 3'd0};
      mask = ~({(2*BUS){1'b1}} << slice_bytes) << offset;
      if (same)
        for (i = 0; i < BUS; i = i + 1)
          if (held_mask[i] && !mask[i]) begin
            mask[i] = 1'b1;
            data[i*8 +: 8] = held_data[i*8 +: 8];
          end
      if (send_slice) begin
        wr_req_addr <= {beat, {OFFSET_BITS{1'b0}}};
        wr_req_data <= data[DMA_BITS-1:0];
        wr_req_mask <= mask[BUS-1:0];
        held_beat <= beat + {{(ADDR_BITS-OFFSET_BITS-1){1'b0}}, 1'b1};
        held_data <= data[2*DMA_BITS-1:DMA_BITS];
        held_mask <= mask[2*BUS-1:BUS];
      end
      else begin
        held_beat <= beat;
        held_data <= data[DMA_BITS-1:0];
        held_mask <= mask[BUS-1:0];
      end
    end
    if (take) begin
      held <= send_slice ? crosses : 1'b1;
      held_to_end <= !send_slice && to_end;
    end
    else if (send_held)
      held <= 1'b0;
    if (free)
      request <= send_held || send_slice;
    if (accepted && !wr_ack_valid)
      requests_in_flight <= requests_in_flight + 9'd1;
    if (wr_ack_valid && !accepted)
      requests_in_flight <= requests_in_flight - 9'd1;
    if (reset) begin
      held <= 1'b0;
      request <= 1'b0;
      requests_in_flight <= 9'd0;
    end
  end

`ifdef BACO_COUNTERS
  reg [7:0] enabled;
  integer j;
  always @* begin
    j = 0;
    enabled = 8'd0;
    if (accepted)
      for (j = 0; j < BUS; j = j + 1)
        enabled = enabled + {7'd0, wr_req_mask[j]};
  end
  assign bytes_sent = enabled;
`else
  assign bytes_sent = 8'd0;
`endif
  // verilator lint_on BLKSEQ
  assign stalled = request && !accepted;
  assign busy = held || request || requests_in_flight != 9'd0;
endmodule
