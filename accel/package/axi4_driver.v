// Commands of an accelerator's own port through its registers on AXI4-Lite, for testbenches: see axi4_bench.v.
`include "baco_config.vh"
module axi4_driver #(
    parameter [63:0] HASH = `BACO_AXI_CONFIGURATION  // that the registers must tell
) (
    input wire clock,
    input wire reset,
    input wire [31:0] chance,                        // of this cycle
    input wire [3:0] go,
    input wire broken,                               // the protocol is: ends the simulation
    input wire restart,
    output reg forgotten,                            // in the cycle behind a reset by software
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
    // registers
    input wire irq,
    output reg awvalid,
    input wire awready,
    output reg wvalid,
    input wire wready,
    output reg arvalid,
    input wire s_arready,
    output reg [11:0] address,
    output reg [31:0] data,
    input wire bvalid,
    output wire bready,
    input wire [1:0] bresp,
    input wire s_rvalid,
    output wire s_rready,
    input wire [31:0] s_rdata,
    input wire [1:0] s_rresp
);
  localparam [3:0] BUS_ERROR = 4'd15;
  assign bready = go[0];
  assign s_rready = go[1];
  initial begin
    awvalid = 0;
    wvalid = 0;
    arvalid = 0;
    forgotten = 0;
  end

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
  reg [12:0] sent;                                   // the command that is sent: function code, number of its result, whether it gives one
  reg [63:0] sent_rs1, sent_rs2;
  initial cmd_ready = 0;
  always @(posedge clock) begin
    if (cmd_valid || reset) cmd_ready <= 0;           // what was sent is taken when it is offered once more
    forgotten <= 0;
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
            {sent, sent_rs1, sent_rs2} <= {cmd_funct, cmd_rd, cmd_xd, cmd_rs1, cmd_rs2};
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
              0: write_register(SEND, 1, `BACO_AXI_RS1_HIGH, sent_rs1[63:32]);
              1: write_register(SEND, 2, `BACO_AXI_RS2_LOW, sent_rs2[31:0]);
              2: write_register(SEND, 3, `BACO_AXI_RS2_HIGH, sent_rs2[63:32]);
              3: write_register(SEND, 4, `BACO_AXI_COMMAND, {15'd0, sent[0], 3'd0, sent[5:1], 1'b0, sent[12:6]});
              default: begin
                cmd_ready <= 1;
                awaited <= sent[0];
              end
            endcase
            RESTART: read_register(AWAIT_RESET, 0, `BACO_AXI_STATUS);
            FORGET: begin
              forgotten <= 1;
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
endmodule
