// An AXI4 manager's bursts as requests of an accelerator's memory port, for testbenches: see axi4_bench.v.
module axi4_port #(
    parameter BITS = 128
) (
    input wire clock,
    input wire reset,
    input wire [31:0] chance,                        // of this cycle
    input wire [7:3] go,
    input wire [31:0] errors,                        // one burst of about so many fails, 0: none
    input wire m_awvalid,
    output wire m_awready,
    input wire [39:0] m_awaddr,
    input wire [7:0] m_awlen,
    input wire m_wvalid,
    output wire m_wready,
    input wire [BITS-1:0] m_wdata,
    input wire [BITS/8-1:0] m_wstrb,
    input wire m_wlast,
    output reg m_bvalid,
    input wire m_bready,
    output reg [1:0] m_bresp,
    input wire m_arvalid,
    output wire m_arready,
    input wire [39:0] m_araddr,
    input wire [7:0] m_arlen,
    output reg m_rvalid,
    input wire m_rready,
    output reg [BITS-1:0] m_rdata,
    output reg [1:0] m_rresp,
    output reg m_rlast,
    output wire rd_req_valid,
    input wire rd_req_ready,
    output wire [39:0] rd_req_addr,
    output wire [2:0] rd_req_size,
    input wire rd_resp_valid,
    output wire rd_resp_ready,
    input wire [BITS-1:0] rd_resp_data,
    output wire wr_req_valid,
    input wire wr_req_ready,
    output wire [39:0] wr_req_addr,
    output wire [BITS-1:0] wr_req_data,
    output wire [BITS/8-1:0] wr_req_mask,
    input wire wr_ack_valid
);
  localparam BEAT = BITS / 8, QUEUE = 1024;
  initial begin
    m_bvalid = 0;
    m_rvalid = 0;
    m_rlast = 0;
    m_bresp = 0;
    m_rresp = 0;
    m_rdata = 0;
  end

  // ---------------------------------------------------------------- main memory: reads
  reg [8:0] read_beats [0:QUEUE-1];                  // beats of bursts in flight, in a ring
  reg read_fails [0:QUEUE-1];
  integer reads = 0, reads_done = 0, read_at = 0;
  wire [8:0] beats_asked = {1'b0, m_arlen} + 9'd1;
  assign m_arready = rd_req_ready && go[4];
  assign rd_req_valid = m_arvalid && go[4];
  assign rd_req_addr = m_araddr;
  assign rd_req_size = $clog2(BEAT) + (beats_asked > 8 ? 4 : beats_asked > 4 ? 3 : beats_asked > 2 ? 2 : beats_asked > 1 ? 1 : 0);
  assign rd_resp_ready = (!m_rvalid || m_rready) && go[5];
  always @(posedge clock) begin
    if (m_arvalid && m_arready) begin
      read_beats[reads % QUEUE] = beats_asked;
      read_fails[reads % QUEUE] = errors != 0 && chance % errors == 0;
      reads = reads + 1;
    end
    if (m_rvalid && m_rready) m_rvalid <= 0;
    if (rd_resp_valid && rd_resp_ready) begin
      m_rvalid <= 1;
      m_rdata <= read_fails[reads_done % QUEUE] ? {(BITS / 32) {chance}} : rd_resp_data;
      m_rresp <= read_fails[reads_done % QUEUE] ? 2'd2 : 2'd0;
      read_at = read_at + 1;
      m_rlast <= read_at == read_beats[reads_done % QUEUE];
      if (read_at == read_beats[reads_done % QUEUE]) begin
        reads_done = reads_done + 1;
        read_at = 0;
      end
    end
    if (reset) m_rvalid <= 0;
  end

  // ---------------------------------------------------------------- main memory: writes
  reg [39:0] write_address [0:QUEUE-1];              // bursts in flight, in a ring
  reg [8:0] write_beats [0:QUEUE-1];
  reg write_fails [0:QUEUE-1];
  integer writes = 0, writes_given = 0, writes_done = 0, write_at = 0, acknowledged = 0;
  assign m_awready = go[6];
  wire there = writes_given != writes;
  assign m_wready = there && wr_req_ready && go[7];
  assign wr_req_valid = there && m_wvalid && go[7];
  assign wr_req_addr = write_address[writes_given % QUEUE] + write_at * BEAT;
  assign wr_req_data = m_wdata;
  assign wr_req_mask = write_fails[writes_given % QUEUE] ? 0 : m_wstrb;
  always @(posedge clock) begin
    if (m_awvalid && m_awready) begin
      write_address[writes % QUEUE] = m_awaddr;
      write_beats[writes % QUEUE] = {1'b0, m_awlen} + 9'd1;
      write_fails[writes % QUEUE] = errors != 0 && chance % errors == 0;
      writes <= writes + 1;
    end
    if (m_wvalid && m_wready) begin
      write_at <= m_wlast ? 0 : write_at + 1;
      if (m_wlast) writes_given <= writes_given + 1;
    end
    if (wr_ack_valid) acknowledged = acknowledged + 1;
    if (m_bvalid && m_bready) m_bvalid <= 0;
    if ((!m_bvalid || m_bready) && writes_done < writes_given && acknowledged >= write_beats[writes_done % QUEUE] && go[3]) begin
      acknowledged = acknowledged - write_beats[writes_done % QUEUE];
      m_bvalid <= 1;
      m_bresp <= write_fails[writes_done % QUEUE] ? 2'd2 : 2'd0;
      writes_done <= writes_done + 1;
    end
    if (reset) m_bvalid <= 0;
  end
endmodule
