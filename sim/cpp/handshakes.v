// Holds ports between blocks to their protocol: what is offered stays, unchanged, until it is taken. Bound to the accelerator
// where a simulator is built with checks (co-simulation); its own Verilog does not know of it.
module baco_handshake #(
    parameter WIDTH = 1
) (
    input wire clock,
    input wire reset,
    input wire valid,
    input wire ready,
    input wire [WIDTH-1:0] payload   // what goes with valid
);
  import "DPI-C" function void baco_handshake_broken(input string port);
  reg waiting;
  reg [WIDTH-1:0] offered;

  always @(posedge clock) begin
    if (!reset && waiting && (!valid || payload != offered)) baco_handshake_broken($sformatf("%m"));
    waiting <= valid && !ready && !reset;
    offered <= payload;
  end
endmodule

// commands from the buffer of the port to the station
bind baco_accelerator baco_handshake #(.WIDTH(COMMAND)) port_commands (
    .clock(clock), .reset(reset), .valid(raw_valid), .ready(raw_ready), .payload(raw));
bind baco_accelerator baco_handshake #(.WIDTH(PASSED)) port_middle (
    .clock(clock), .reset(reset), .valid(middle_valid), .ready(middle_ready), .payload(middle));
bind baco_accelerator baco_handshake #(.WIDTH(PASSED)) port_door (
    .clock(clock), .reset(reset), .valid(door_valid), .ready(door_ready), .payload(door));
// from the station to the units
bind baco_accelerator baco_handshake #(.WIDTH(ID_BITS + 135)) port_load (
    .clock(clock), .reset(reset), .valid(issue_valid[0]), .ready(issue_ready[0]),
    .payload({issue_id[ID_BITS-1:0], issue_funct[6:0], issue_rs1[63:0], issue_rs2[63:0]}));
bind baco_accelerator baco_handshake #(.WIDTH(ID_BITS + 135)) port_execute (
    .clock(clock), .reset(reset), .valid(issue_valid[1]), .ready(issue_ready[1]),
    .payload({issue_id[ID_BITS +: ID_BITS], issue_funct[7 +: 7], issue_rs1[64 +: 64], issue_rs2[64 +: 64]}));
bind baco_accelerator baco_handshake #(.WIDTH(ID_BITS + 135)) port_store (
    .clock(clock), .reset(reset), .valid(issue_valid[2]), .ready(issue_ready[2]),
    .payload({issue_id[2*ID_BITS +: ID_BITS], issue_funct[14 +: 7], issue_rs1[128 +: 64], issue_rs2[128 +: 64]}));
// to main memory, and from it
bind baco_accelerator baco_handshake #(.WIDTH(ADDR_BITS + 3)) port_read_request (
    .clock(clock), .reset(reset), .valid(rd_req_valid), .ready(rd_req_ready), .payload({rd_req_addr, rd_req_size}));
bind baco_accelerator baco_handshake #(.WIDTH(DMA_BITS)) port_beat (
    .clock(clock), .reset(reset), .valid(rd_resp_valid), .ready(rd_resp_ready), .payload(rd_resp_data));
bind baco_accelerator baco_handshake #(.WIDTH(ADDR_BITS + DMA_BITS + DMA_BITS/8)) port_write_request (
    .clock(clock), .reset(reset), .valid(wr_req_valid), .ready(wr_req_ready),
    .payload({wr_req_addr, wr_req_data, wr_req_mask}));
// results of COUNTER_OP
bind baco_accelerator baco_handshake #(.WIDTH(5)) port_response (
    .clock(clock), .reset(reset), .valid(resp_valid), .ready(resp_ready), .payload(resp_rd));
// rows that loads and stores write and stores read
bind baco_accelerator baco_handshake #(.WIDTH(SP_AW + DIM + $bits(sp_write_data)/3)) port_loaded_row (
    .clock(clock), .reset(reset), .valid(sp_write_valid[1]), .ready(sp_write_ready[1]),
    .payload({sp_write_row[SP_AW +: SP_AW], sp_write_mask[DIM +: DIM], sp_write_data[$bits(sp_write_data)/3 +: $bits(sp_write_data)/3]}));
bind baco_accelerator baco_handshake #(.WIDTH(SP_AW + DIM + $bits(sp_write_data)/3)) port_copied_row (
    .clock(clock), .reset(reset), .valid(sp_write_valid[2]), .ready(sp_write_ready[2]),
    .payload({sp_write_row[2*SP_AW +: SP_AW], sp_write_mask[2*DIM +: DIM], sp_write_data[$bits(sp_write_data)/3*2 +: $bits(sp_write_data)/3]}));
bind baco_accelerator baco_handshake #(.WIDTH(ACC_AW + 1 + DIM + DIM*32)) port_loaded_sums (
    .clock(clock), .reset(reset), .valid(load_acc_valid), .ready(load_acc_ready),
    .payload({load_acc_row, load_acc_accumulate, load_acc_mask, load_acc_data}));
bind baco_accelerator baco_handshake #(.WIDTH(ACC_AW)) port_stored_sums (
    .clock(clock), .reset(reset), .valid(store_acc_valid), .ready(store_acc_ready), .payload(store_acc_row));
bind baco_accelerator baco_handshake #(.WIDTH(SP_AW)) port_stored_row (
    .clock(clock), .reset(reset), .valid(sp_read_valid[3]), .ready(sp_read_ready[3]), .payload(sp_read_row[3*SP_AW +: SP_AW]));
// operands
bind baco_accelerator baco_handshake #(.WIDTH(SP_AW)) port_operand_a (
    .clock(clock), .reset(reset), .valid(sp_read_valid[0]), .ready(sp_read_ready[0]), .payload(sp_read_row[0 +: SP_AW]));
bind baco_accelerator baco_handshake #(.WIDTH(SP_AW)) port_operand_b (
    .clock(clock), .reset(reset), .valid(sp_read_valid[1]), .ready(sp_read_ready[1]), .payload(sp_read_row[SP_AW +: SP_AW]));
bind baco_accelerator baco_handshake #(.WIDTH(SP_AW)) port_operand_x (
    .clock(clock), .reset(reset), .valid(sp_read_valid[2]), .ready(sp_read_ready[2]), .payload(sp_read_row[2*SP_AW +: SP_AW]));
