// Holds both ports of baco_axi4 to the rules of AXI4 and AXI4-Lite (Arm IHI 0022): what is offered stays until it is taken,
// nothing is offered in reset, bursts are whole beats that stay within 4 KiB, data and answers have the numbers and the order
// that their bursts ask for, nothing is unknown. Says what is broken, in which cycle, and then `broken` is 1.
module axi4_checks #(
    parameter ADDR_BITS = 40,
    parameter DMA_BITS = 128,
    parameter S_BITS = 12                  // of addresses of registers
) (
    input wire aclk,
    input wire aresetn,
    output reg broken,
    input wire s_awvalid, input wire s_awready, input wire [S_BITS-1:0] s_awaddr,
    input wire s_wvalid, input wire s_wready, input wire [31:0] s_wdata, input wire [3:0] s_wstrb,
    input wire s_bvalid, input wire s_bready, input wire [1:0] s_bresp,
    input wire s_arvalid, input wire s_arready, input wire [S_BITS-1:0] s_araddr,
    input wire s_rvalid, input wire s_rready, input wire [31:0] s_rdata, input wire [1:0] s_rresp,
    input wire m_awvalid, input wire m_awready, input wire [ADDR_BITS-1:0] m_awaddr, input wire [7:0] m_awlen,
    input wire [2:0] m_awsize, input wire [1:0] m_awburst,
    input wire m_wvalid, input wire m_wready, input wire [DMA_BITS-1:0] m_wdata, input wire [DMA_BITS/8-1:0] m_wstrb,
    input wire m_wlast,
    input wire m_bvalid, input wire m_bready, input wire [1:0] m_bresp,
    input wire m_arvalid, input wire m_arready, input wire [ADDR_BITS-1:0] m_araddr, input wire [7:0] m_arlen,
    input wire [2:0] m_arsize, input wire [1:0] m_arburst,
    input wire m_rvalid, input wire m_rready, input wire [DMA_BITS-1:0] m_rdata, input wire [1:0] m_rresp,
    input wire m_rlast
);
  localparam BEAT = DMA_BITS / 8;
  localparam QUEUE = 1024;               // bursts in flight that can be followed

  integer cycle = 0;
  task wrong(input [8*60-1:0] what);
    begin
      $display("FAIL: AXI4: %0s (cycle %0d)", what, cycle);
      broken <= 1;
    end
  endtask

  // What was offered in the last cycle and not taken.
  reg after_reset = 0;
  reg [9:0] kept = 0;
  reg [ADDR_BITS+12:0] was_aw, was_ar;
  reg [DMA_BITS+BEAT:0] was_w;
  reg [1:0] was_b;
  reg [DMA_BITS+2:0] was_r;
  reg [S_BITS-1:0] was_s_aw, was_s_ar;
  reg [35:0] was_s_w;
  reg [1:0] was_s_b;
  reg [33:0] was_s_r;
  wire [ADDR_BITS+12:0] now_aw = {m_awaddr, m_awlen, m_awsize, m_awburst};
  wire [ADDR_BITS+12:0] now_ar = {m_araddr, m_arlen, m_arsize, m_arburst};
  wire [DMA_BITS+BEAT:0] now_w = {m_wdata, m_wstrb, m_wlast};
  wire [DMA_BITS+2:0] now_r = {m_rdata, m_rresp, m_rlast};
  wire [9:0] valids = {s_rvalid, s_arvalid, s_bvalid, s_wvalid, s_awvalid, m_rvalid, m_arvalid, m_bvalid, m_wvalid, m_awvalid};
  wire [9:0] readies = {s_rready, s_arready, s_bready, s_wready, s_awready, m_rready, m_arready, m_bready, m_wready, m_awready};

  // Bursts in flight, in rings: lengths asked for, lengths of data that came.
  reg [7:0] asked [0:QUEUE-1], given [0:QUEUE-1], read [0:QUEUE-1];
  integer asks = 0, gifts = 0, answers = 0, judged = 0, reads = 0, reads_done = 0;
  integer given_beats = 0, read_beats = 0;
  integer s_addresses = 0, s_data = 0, s_answers = 0, s_reads = 0, s_reads_done = 0;

  initial broken = 0;
  always @(posedge aclk) begin
    cycle = cycle + 1;
    after_reset <= aresetn;
    if (!aresetn) begin
      kept <= 0;
      if (valids[1:0] != 0 && after_reset === 1'b1) wrong("something is offered in reset");
    end else begin
      if (!after_reset && ({s_rvalid, s_bvalid, m_arvalid, m_wvalid, m_awvalid} !== 5'd0))
        wrong("something is offered as reset ends");
      if (^valids === 1'bx || ^readies === 1'bx) wrong("a valid or ready is unknown");
      if (kept[0] && (!m_awvalid || now_aw !== was_aw)) wrong("AW did not stay");
      if (kept[1] && (!m_wvalid || now_w !== was_w)) wrong("W did not stay");
      if (kept[2] && (!m_bvalid || m_bresp !== was_b)) wrong("B did not stay");
      if (kept[3] && (!m_arvalid || now_ar !== was_ar)) wrong("AR did not stay");
      if (kept[4] && (!m_rvalid || now_r !== was_r)) wrong("R did not stay");
      if (kept[5] && (!s_awvalid || s_awaddr !== was_s_aw)) wrong("AW of registers did not stay");
      if (kept[6] && (!s_wvalid || {s_wdata, s_wstrb} !== was_s_w)) wrong("W of registers did not stay");
      if (kept[7] && (!s_bvalid || s_bresp !== was_s_b)) wrong("B of registers did not stay");
      if (kept[8] && (!s_arvalid || s_araddr !== was_s_ar)) wrong("AR of registers did not stay");
      if (kept[9] && (!s_rvalid || {s_rdata, s_rresp} !== was_s_r)) wrong("R of registers did not stay");
      kept <= valids & ~readies;
      was_aw <= now_aw;
      was_w <= now_w;
      was_b <= m_bresp;
      was_ar <= now_ar;
      was_r <= now_r;
      was_s_aw <= s_awaddr;
      was_s_w <= {s_wdata, s_wstrb};
      was_s_b <= s_bresp;
      was_s_ar <= s_araddr;
      was_s_r <= {s_rdata, s_rresp};

      // ------------------------------------------------------------ the manager: writes
      if (m_awvalid && m_awready) begin
        if (^now_aw === 1'bx) wrong("AW is unknown");
        if (m_awburst != 2'b01 || (1 << m_awsize) != BEAT) wrong("a write of parts of beats, or none that increments");
        if (m_awaddr % BEAT != 0) wrong("a write that is not aligned");
        if (m_awaddr[11:0] + BEAT * (m_awlen + 1) > 4096) wrong("a write crosses 4 KiB");
        asked[asks % QUEUE] = m_awlen;
        asks = asks + 1;
      end
      if (m_wvalid && m_wready) begin
        if (^{m_wstrb, m_wlast} === 1'bx) wrong("W is unknown");
        given_beats = given_beats + 1;
        if (m_wlast) begin
          given[gifts % QUEUE] = given_beats - 1;
          gifts = gifts + 1;
          given_beats = 0;
        end else if (given_beats > 255) wrong("a burst of data without an end");
      end
      while (judged < asks && judged < gifts) begin
        if (asked[judged % QUEUE] != given[judged % QUEUE]) wrong("WLAST is not at the burst's last beat");
        judged = judged + 1;
      end
      if (m_bvalid && m_bready) begin
        answers = answers + 1;
        if (answers > asks || answers > gifts) wrong("an answer to a write that is not over");
      end

      // ------------------------------------------------------------ the manager: reads
      if (m_rvalid && m_rready) begin
        read_beats = read_beats + 1;
        if (reads_done >= reads) wrong("a beat that nobody asked for");
        else if (m_rlast != (read_beats - 1 == read[reads_done % QUEUE])) wrong("RLAST is not at the burst's last beat");
        if (m_rlast) begin
          reads_done = reads_done + 1;
          read_beats = 0;
        end
      end
      if (m_arvalid && m_arready) begin
        if (^now_ar === 1'bx) wrong("AR is unknown");
        if (m_arburst != 2'b01 || (1 << m_arsize) != BEAT) wrong("a read of parts of beats, or none that increments");
        if (m_araddr % BEAT != 0) wrong("a read that is not aligned");
        if (m_araddr[11:0] + BEAT * (m_arlen + 1) > 4096) wrong("a read crosses 4 KiB");
        read[reads % QUEUE] = m_arlen;
        reads = reads + 1;
      end

      // ------------------------------------------------------------ registers
      if (s_bvalid && s_bready) begin
        s_answers = s_answers + 1;
        if (s_answers > s_addresses || s_answers > s_data) wrong("registers answered a write that was not there");
      end
      if (s_rvalid && s_rready) begin
        s_reads_done = s_reads_done + 1;
        if (s_reads_done > s_reads) wrong("registers answered a read that was not there");
      end
      if (s_awvalid && s_awready) s_addresses = s_addresses + 1;
      if (s_wvalid && s_wready) s_data = s_data + 1;
      if (s_arvalid && s_arready) s_reads = s_reads + 1;
    end
  end
endmodule
