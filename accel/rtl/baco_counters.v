// Performance counters and COUNTER_OP.
//
// A counter either counts the cycles in which its event is high (64 bits) or shows an external value (32 bits): the
// occupancy of a class of the reservation station, or a sum that is kept here whether or not a counter shows it. In
// snapshot mode reads return the values at the time of the snapshot while counting goes on.
//
// Bits of op_rs1: 0 reset counters, snapshots and sums, and leave snapshot mode; 1 leave snapshot mode; 2 take a
// snapshot (not together with 1); 3 reconfigure the addressed counter, which becomes zero; [6:4] the counter ([9:4]
// in builds with more than eight); [17:12] event code; 31 the event is external. The value returned is the one
// before all of this.
// A snapshot takes what each counter shows, external or not (Gemmini takes all in the manner of the addressed one).
module baco_counters #(
    parameter COUNTERS = 8               // 1..64
) (
    input wire clock,
    input wire reset,
    input wire op_valid,                 // execute a COUNTER_OP
    input wire [63:0] op_rs1,
    output reg [63:0] value,             // of the last COUNTER_OP, from the cycle after it on; 0 where no counter is
    input wire [63:0] events,            // bit n: event code n is high in this cycle; 0 is no event
    input wire [6:0] occupancy_ld,       // reservation station entries in use: external 1
    input wire [6:0] occupancy_ex,       // external 3
    input wire [6:0] occupancy_st,       // external 2
    input wire [7:0] bytes_read,         // bytes of the read request accepted in this cycle: summed in external 4
    input wire [7:0] bytes_written,      // bytes of the beat accepted in this cycle: summed in external 5
    input wire [8:0] reads_in_flight,    // summed in external 6
    input wire [8:0] writes_in_flight    // summed in external 7
);
  localparam INDEX_BITS = COUNTERS > 8 ? 6 : 3;
  localparam [6:0] LAST = COUNTERS[6:0] - 7'd1;

  (* mem2reg *) reg [63:0] count [0:COUNTERS-1];
  (* mem2reg *) reg [63:0] snapshot [0:COUNTERS-1];
  (* mem2reg *) reg [5:0] code [0:COUNTERS-1];
  (* mem2reg *) reg external [0:COUNTERS-1];
  reg frozen;                            // snapshot mode
  reg [31:0] sum_bytes_read, sum_bytes_written, sum_reads_in_flight, sum_writes_in_flight;

  wire op_reset = op_valid && op_rs1[0];
  wire op_take = op_valid && op_rs1[2] && !op_rs1[1];
  wire op_configure = op_valid && op_rs1[3];
  wire [INDEX_BITS-1:0] index = op_rs1[4 +: INDEX_BITS];
  wire exists = {{(7-INDEX_BITS){1'b0}}, index} <= LAST;

  // verilator lint_off BLKSEQ
  // (`shown` is a name within this block)
  integer i;
  reg [31:0] shown;
  always @(posedge clock) begin
    for (i = 0; i < COUNTERS; i = i + 1) begin
      if (events[code[i]] && code[i] != 6'd0)
        count[i] <= count[i] + 64'd1;
      if (op_valid) begin
        case (code[i])
          6'd1: shown = {25'd0, occupancy_ld};
          6'd2: shown = {25'd0, occupancy_st};
          6'd3: shown = {25'd0, occupancy_ex};
          6'd4: shown = sum_bytes_read;
          6'd5: shown = sum_bytes_written;
          6'd6: shown = sum_reads_in_flight;
          6'd7: shown = sum_writes_in_flight;
          default: shown = 32'd0;
        endcase
        if (i[INDEX_BITS-1:0] == index)
          value <= frozen ? snapshot[i] : external[i] ? {32'd0, shown} : count[i];
        if (op_take)
          snapshot[i] <= external[i] ? {32'd0, shown} : count[i];
        if (op_configure && i[INDEX_BITS-1:0] == index) begin
          code[i] <= op_rs1[17:12];
          external[i] <= op_rs1[31];
          count[i] <= 64'd0;
        end
      end
      if (reset || op_reset) begin
        count[i] <= 64'd0;
        snapshot[i] <= 64'd0;
      end
      if (reset) begin
        code[i] <= 6'd0;
        external[i] <= 1'b0;
      end
    end
    if (op_valid && !exists)
      value <= 64'd0;
    if (op_valid)
      frozen <= !op_rs1[1] && !op_rs1[0] && (op_rs1[2] || frozen);
    sum_bytes_read <= sum_bytes_read + {24'd0, bytes_read};
    sum_bytes_written <= sum_bytes_written + {24'd0, bytes_written};
    sum_reads_in_flight <= sum_reads_in_flight + {23'd0, reads_in_flight};
    sum_writes_in_flight <= sum_writes_in_flight + {23'd0, writes_in_flight};
    if (reset || op_reset) begin
      sum_bytes_read <= 32'd0;
      sum_bytes_written <= 32'd0;
      sum_reads_in_flight <= 32'd0;
      sum_writes_in_flight <= 32'd0;
    end
    if (reset)
      frozen <= 1'b0;
  end
  // verilator lint_on BLKSEQ
  wire _unused = &{1'b0, op_rs1};
endmodule
