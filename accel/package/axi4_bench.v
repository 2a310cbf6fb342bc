// baco_axi4 as a simulator that knows the accelerator's own ports sees it: commands go through the registers, bursts become
// the requests of the memory port. Every channel waits at random; what the caller's memory does stirs the chances, and so does
// +bus_seed=N. With +bus_errors=N one burst of about N ends with an error, and reads nonsense. That is told as error code 15,
// and `restart` then resets the accelerator through its registers, after which there are no more errors.
//
// There is no polling: it reads STATUS when the interrupt rises, so that one that never does is seen as a program that hangs.
`include "baco_config.vh"
`include "test_config.vh"
module axi4_bench (
    input wire clock,
    input wire reset,
    input wire restart,                              // asked for in a cycle in which nothing is under way: reset by software
    input wire cmd_valid,
    output reg cmd_ready,
    input wire [6:0] cmd_funct,
    input wire [4:0] cmd_rd,
    input wire cmd_xd,
    input wire [63:0] cmd_rs1,
    input wire [63:0] cmd_rs2,
    output reg resp_valid,
    input wire resp_ready,
    output reg [4:0] resp_rd,
    output reg [63:0] resp_data,
    output wire busy,
    output reg error_valid,
    output reg [3:0] error_code,
    output reg [6:0] error_funct,
    output reg [63:0] error_rs1,
    output reg [63:0] error_rs2,
    output wire rd_req_valid,
    input wire rd_req_ready,
    output wire [39:0] rd_req_addr,
    output wire [2:0] rd_req_size,
    input wire rd_resp_valid,
    output wire rd_resp_ready,
    input wire [`BACO_DMA_BITS-1:0] rd_resp_data,
    output wire wr_req_valid,
    input wire wr_req_ready,
    output wire [39:0] wr_req_addr,
    output wire [`BACO_DMA_BITS-1:0] wr_req_data,
    output wire [`BACO_DMA_BITS/8-1:0] wr_req_mask,
    input wire wr_ack_valid,
    output wire event_alloc,
    output wire [1:0] event_alloc_class,
    output wire [`BACO_ID_BITS-1:0] event_alloc_id,
    output wire [6:0] event_alloc_funct,
    output wire [63:0] event_alloc_rs1,
    output wire [63:0] event_alloc_rs2,
    output wire [2:0] event_alloc_loop,
    output wire event_ld_issue,
    output wire [`BACO_ID_BITS-1:0] event_ld_issue_id,
    output wire event_ld_done,
    output wire [`BACO_ID_BITS-1:0] event_ld_done_id,
    output wire event_ex_issue,
    output wire [`BACO_ID_BITS-1:0] event_ex_issue_id,
    output wire [2:0] event_ex_done,
    output wire [`BACO_ID_BITS-1:0] event_ex_done_id0,
    output wire [`BACO_ID_BITS-1:0] event_ex_done_id1,
    output wire [`BACO_ID_BITS-1:0] event_ex_done_id2,
    output wire event_st_issue,
    output wire [`BACO_ID_BITS-1:0] event_st_issue_id,
    output wire event_st_done,
    output wire [`BACO_ID_BITS-1:0] event_st_done_id,
    output wire [3:0] event_loops,
    output wire [7:0] event_units
);
  localparam BITS = `BACO_DMA_BITS, BEAT = BITS / 8, QUEUE = 1024;
  localparam [3:0] BUS_ERROR = 4'd15;

  reg [31:0] chance = 32'h2545f491;                 // xorshift (Marsaglia 2003)
  reg [31:0] errors = 0;                            // one burst of so many fails, 0: none
`ifdef BACO_TEST_BUS
  integer seed, given;
  initial begin
    if ($value$plusargs("bus_seed=%d", seed)) chance = seed ^ 32'h9e3779b9;
    if ($value$plusargs("bus_errors=%d", given)) errors = given;
  end
`endif
  always @(posedge clock) begin
    chance = chance ^ {28'd0, rd_req_ready === 1'b1, wr_req_ready === 1'b1, rd_resp_valid === 1'b1, wr_ack_valid === 1'b1};
    if (chance == 0) chance = 1;
    chance = chance ^ (chance << 13);
    chance = chance ^ (chance >> 17);
    chance = chance ^ (chance << 5);
  end
  // Of this cycle, whether a channel goes on; in some stretches of time hardly ever.
  reg [7:0] go = 0;
  reg [9:0] stretch = 0;
  reg slow = 0;
  always @(posedge clock) begin
    stretch <= stretch + 1;
    if (stretch == 0) slow <= chance[30:28] == 0;
    go <= slow ? chance[7:0] & chance[15:8] & chance[23:16] : chance[7:0] | chance[15:8];
  end

  wire irq;
  reg awvalid = 0, wvalid = 0, arvalid = 0;
  wire awready, wready, bvalid, s_arready, s_rvalid;
  reg [11:0] address;
  reg [31:0] data;
  wire [1:0] bresp, s_rresp;
  wire [31:0] s_rdata;
  wire bready = go[0], s_rready = go[1];

  wire m_awvalid, m_wvalid, m_bready, m_arvalid, m_rready, m_wlast;
  wire m_awready, m_wready, m_arready;
  reg m_bvalid = 0, m_rvalid = 0, m_rlast = 0;
  reg [1:0] m_bresp = 0, m_rresp = 0;
  reg [BITS-1:0] m_rdata = 0;
  wire [39:0] m_awaddr, m_araddr;
  wire [7:0] m_awlen, m_arlen;
  wire [2:0] m_awsize, m_arsize;
  wire [1:0] m_awburst, m_arburst;
  wire [BITS-1:0] m_wdata;
  wire [BEAT-1:0] m_wstrb;
  baco_axi4 bus (
      .aclk(clock), .aresetn(!reset), .irq(irq),
      .s_axi_awvalid(awvalid), .s_axi_awready(awready), .s_axi_awaddr(address), .s_axi_awprot(3'd0),
      .s_axi_wvalid(wvalid), .s_axi_wready(wready), .s_axi_wdata(data), .s_axi_wstrb(4'hf),
      .s_axi_bvalid(bvalid), .s_axi_bready(bready), .s_axi_bresp(bresp),
      .s_axi_arvalid(arvalid), .s_axi_arready(s_arready), .s_axi_araddr(address), .s_axi_arprot(3'd0),
      .s_axi_rvalid(s_rvalid), .s_axi_rready(s_rready), .s_axi_rdata(s_rdata), .s_axi_rresp(s_rresp),
      .m_axi_awvalid(m_awvalid), .m_axi_awready(m_awready), .m_axi_awid(), .m_axi_awaddr(m_awaddr), .m_axi_awlen(m_awlen),
      .m_axi_awsize(m_awsize), .m_axi_awburst(m_awburst), .m_axi_awlock(), .m_axi_awcache(), .m_axi_awprot(), .m_axi_awqos(),
      .m_axi_wvalid(m_wvalid), .m_axi_wready(m_wready), .m_axi_wdata(m_wdata), .m_axi_wstrb(m_wstrb), .m_axi_wlast(m_wlast),
      .m_axi_bvalid(m_bvalid), .m_axi_bready(m_bready), .m_axi_bid(1'b0), .m_axi_bresp(m_bresp),
      .m_axi_arvalid(m_arvalid), .m_axi_arready(m_arready), .m_axi_arid(), .m_axi_araddr(m_araddr), .m_axi_arlen(m_arlen),
      .m_axi_arsize(m_arsize), .m_axi_arburst(m_arburst), .m_axi_arlock(), .m_axi_arcache(), .m_axi_arprot(), .m_axi_arqos(),
      .m_axi_rvalid(m_rvalid), .m_axi_rready(m_rready), .m_axi_rid(1'b0), .m_axi_rdata(m_rdata), .m_axi_rresp(m_rresp),
      .m_axi_rlast(m_rlast));
  wire broken;
  axi4_checks #(.ADDR_BITS(40), .DMA_BITS(BITS)) checks (
      .aclk(clock), .aresetn(!reset), .broken(broken),
      .s_awvalid(awvalid), .s_awready(awready), .s_awaddr(address), .s_wvalid(wvalid), .s_wready(wready), .s_wdata(data),
      .s_wstrb(4'hf), .s_bvalid(bvalid), .s_bready(bready), .s_bresp(bresp), .s_arvalid(arvalid), .s_arready(s_arready),
      .s_araddr(address), .s_rvalid(s_rvalid), .s_rready(s_rready), .s_rdata(s_rdata), .s_rresp(s_rresp),
      .m_awvalid(m_awvalid), .m_awready(m_awready), .m_awaddr(m_awaddr), .m_awlen(m_awlen), .m_awsize(m_awsize),
      .m_awburst(m_awburst), .m_wvalid(m_wvalid), .m_wready(m_wready), .m_wdata(m_wdata), .m_wstrb(m_wstrb),
      .m_wlast(m_wlast), .m_bvalid(m_bvalid), .m_bready(m_bready), .m_bresp(m_bresp), .m_arvalid(m_arvalid),
      .m_arready(m_arready), .m_araddr(m_araddr), .m_arlen(m_arlen), .m_arsize(m_arsize), .m_arburst(m_arburst),
      .m_rvalid(m_rvalid), .m_rready(m_rready), .m_rdata(m_rdata), .m_rresp(m_rresp), .m_rlast(m_rlast));

  // ---------------------------------------------------------------- commands through registers
  // what is being done: nothing; a write, its answer; a read, its answer; a result waits for who asked for it
  localparam [2:0] REST = 0, WRITE = 1, WRITTEN = 2, READ = 3, SEEN = 4, RESULT = 5;
  // why: what is written or read, in the order of its steps
  localparam [3:0] BOOT = 0, SEND = 1, LOOK = 2, TAKE = 3, ILLEGAL = 4, FAILED = 5, RESTART = 6, AWAIT_RESET = 7, FORGET = 8;
  reg [2:0] state = REST;
  reg [3:0] why = BOOT;
  reg [2:0] step = 0;
  reg started = 0, working = 0, awaited = 0;
  assign busy = working || state != REST || !started;

  task write_register(input [3:0] because, input [2:0] number, input [11:0] at, input [31:0] value);
    begin
      why <= because;
      step <= number;
      address <= at;
      data <= value;
      awvalid <= chance[24];
      wvalid <= !chance[24] || chance[25];
      state <= WRITE;
    end
  endtask
  task read_register(input [3:0] because, input [2:0] number, input [11:0] at);
    begin
      why <= because;
      step <= number;
      address <= at;
      arvalid <= 1;
      state <= READ;
    end
  endtask
  task fail(input [8*40-1:0] what);
    begin
      $display("FAIL: %0s", what);
      $finish;
    end
  endtask

  reg aw_done = 0, w_done = 0;
  always @(posedge clock) begin
    cmd_ready <= 0;
    if (reset) begin
      state <= REST;
      started <= 0;
      working <= 0;
      awaited <= 0;
      awvalid <= 0;
      wvalid <= 0;
      arvalid <= 0;
      resp_valid <= 0;
      error_valid <= 0;
      aw_done <= 0;
      w_done <= 0;
    end else begin
      if (broken) $finish;
      case (state)
        REST: begin
          if (!started) read_register(BOOT, 0, `BACO_AXI_ID);
          else if (restart && error_valid) write_register(RESTART, 0, `BACO_AXI_CONTROL, 1 << `BACO_AXI_CONTROL_RESET);
          else if (working && irq) read_register(LOOK, 0, `BACO_AXI_STATUS);
          else if (cmd_valid && !cmd_ready && !awaited && !error_valid) begin
            working <= 1;
            write_register(SEND, 0, `BACO_AXI_RS1_LOW, cmd_rs1[31:0]);
          end
        end
        WRITE: begin                                 // address and data come at different times
          if (awvalid && awready) begin awvalid <= 0; aw_done <= 1; end
          if (wvalid && wready) begin wvalid <= 0; w_done <= 1; end
          if (!awvalid && !aw_done && go[2]) awvalid <= 1;
          if (!wvalid && !w_done && go[3]) wvalid <= 1;
          if ((aw_done || (awvalid && awready)) && (w_done || (wvalid && wready))) begin
            aw_done <= 0;
            w_done <= 0;
            awvalid <= 0;
            wvalid <= 0;
            state <= WRITTEN;
          end
        end
        WRITTEN: if (bvalid && bready) begin
          if (bresp != 0) fail("a register refused a write");
          state <= REST;
          case (why)
            BOOT: started <= 1;
            SEND: case (step)
              0: write_register(SEND, 1, `BACO_AXI_RS1_HIGH, cmd_rs1[63:32]);
              1: write_register(SEND, 2, `BACO_AXI_RS2_LOW, cmd_rs2[31:0]);
              2: write_register(SEND, 3, `BACO_AXI_RS2_HIGH, cmd_rs2[63:32]);
              3: write_register(SEND, 4, `BACO_AXI_COMMAND, {15'd0, cmd_xd, 3'd0, cmd_rd, 1'b0, cmd_funct});
              default: begin
                cmd_ready <= 1;
                awaited <= cmd_xd;
              end
            endcase
            RESTART: read_register(AWAIT_RESET, 0, `BACO_AXI_STATUS);
            FORGET: begin
              errors <= 0;
              error_valid <= 0;
              awaited <= 0;
              working <= 0;
            end
            default: ;                               // TAKE: the result is gone
          endcase
        end
        READ: if (s_arready) begin
          arvalid <= 0;
          state <= SEEN;
        end
        SEEN: if (s_rvalid && s_rready) begin
          if (s_rresp != 0) fail("a register refused a read");
          state <= REST;
          case (why)
            BOOT: case (step)
              0: begin
                if (s_rdata != `BACO_AXI_IDENTIFIER) fail("the registers are not an accelerator's");
                read_register(BOOT, 1, `BACO_AXI_HASH_LOW);
              end
              1: begin
                if (s_rdata != HASH[31:0]) fail("the registers are another accelerator's");
                read_register(BOOT, 2, `BACO_AXI_STATUS);
              end
              default: begin
                if (s_rdata != 32'h00001000) fail("the accelerator does not rest after reset");
                write_register(BOOT, 3, `BACO_AXI_INTERRUPT, 15);
              end
            endcase
            LOOK: if (s_rdata[`BACO_AXI_STATUS_BUS_FAILED] && !error_valid) read_register(FAILED, 0, `BACO_AXI_BUS_ERROR);
              else if (s_rdata[`BACO_AXI_STATUS_ILLEGAL] && !error_valid) read_register(ILLEGAL, 0, `BACO_AXI_ERROR);
              else if (s_rdata[`BACO_AXI_STATUS_HAS_RESULT] && awaited) begin
                resp_rd <= s_rdata[`BACO_AXI_STATUS_RESULT_RD];
                read_register(TAKE, 0, `BACO_AXI_RESULT_LOW);
              end else if (!s_rdata[`BACO_AXI_STATUS_BUSY]) working <= 0;
            TAKE: if (step == 0) begin
              resp_data[31:0] <= s_rdata;
              read_register(TAKE, 1, `BACO_AXI_RESULT_HIGH);
            end else begin
              resp_data[63:32] <= s_rdata;
              resp_valid <= 1;
              state <= RESULT;
            end
            ILLEGAL: case (step)
              0: begin
                error_code <= s_rdata[`BACO_AXI_ERROR_CODE];
                error_funct <= s_rdata[`BACO_AXI_ERROR_FUNCT];
                read_register(ILLEGAL, 1, `BACO_AXI_ERROR_RS1_LOW);
              end
              1: begin
                error_rs1[31:0] <= s_rdata;
                read_register(ILLEGAL, 2, `BACO_AXI_ERROR_RS1_HIGH);
              end
              2: begin
                error_rs1[63:32] <= s_rdata;
                read_register(ILLEGAL, 3, `BACO_AXI_ERROR_RS2_LOW);
              end
              3: begin
                error_rs2[31:0] <= s_rdata;
                read_register(ILLEGAL, 4, `BACO_AXI_ERROR_RS2_HIGH);
              end
              default: begin
                error_rs2[63:32] <= s_rdata;
                error_valid <= 1;
              end
            endcase
            FAILED: begin
              if (s_rdata[`BACO_AXI_BUS_ERROR_RESPONSE] != 2'd2 || !s_rdata[`BACO_AXI_BUS_ERROR_VALID])
                fail("the registers tell another error of the bus");
              error_valid <= 1;
              error_code <= BUS_ERROR;
              error_funct <= 0;
              error_rs1 <= s_rdata[`BACO_AXI_BUS_ERROR_WRITE];
              error_rs2 <= 0;
            end
            AWAIT_RESET: if (s_rdata[`BACO_AXI_STATUS_RESETTING]) read_register(AWAIT_RESET, 0, `BACO_AXI_STATUS);
              else write_register(FORGET, 0, `BACO_AXI_CONTROL, 1 << `BACO_AXI_CONTROL_FORGET_BUS_ERROR);
            default: ;
          endcase
        end
        RESULT: if (resp_ready) begin
          resp_valid <= 0;
          awaited <= 0;
          write_register(TAKE, 2, `BACO_AXI_CONTROL, 1 << `BACO_AXI_CONTROL_TAKE_RESULT);
        end
        default: state <= REST;
      endcase
    end
  end
  localparam [63:0] HASH = `BACO_AXI_CONFIGURATION;

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

  assign event_alloc = bus.accelerator.event_alloc;
  assign event_alloc_class = bus.accelerator.event_alloc_class;
  assign event_alloc_id = bus.accelerator.event_alloc_id;
  assign event_alloc_funct = bus.accelerator.event_alloc_funct;
  assign event_alloc_rs1 = bus.accelerator.event_alloc_rs1;
  assign event_alloc_rs2 = bus.accelerator.event_alloc_rs2;
  assign event_alloc_loop = bus.accelerator.event_alloc_loop;
  assign event_ld_issue = bus.accelerator.event_ld_issue;
  assign event_ld_issue_id = bus.accelerator.event_ld_issue_id;
  assign event_ld_done = bus.accelerator.event_ld_done;
  assign event_ld_done_id = bus.accelerator.event_ld_done_id;
  assign event_ex_issue = bus.accelerator.event_ex_issue;
  assign event_ex_issue_id = bus.accelerator.event_ex_issue_id;
  assign event_ex_done = bus.accelerator.event_ex_done;
  assign event_ex_done_id0 = bus.accelerator.event_ex_done_id0;
  assign event_ex_done_id1 = bus.accelerator.event_ex_done_id1;
  assign event_ex_done_id2 = bus.accelerator.event_ex_done_id2;
  assign event_st_issue = bus.accelerator.event_st_issue;
  assign event_st_issue_id = bus.accelerator.event_st_issue_id;
  assign event_st_done = bus.accelerator.event_st_done;
  assign event_st_done_id = bus.accelerator.event_st_done_id;
  assign event_loops = bus.accelerator.event_loops;
  assign event_units = bus.accelerator.event_units;
endmodule
