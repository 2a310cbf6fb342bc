// Says in every cycle which circumstances commands at work meet (crosses.h). Bound to the accelerator where coverage is measured.
module baco_crosses (
    input wire clock,
    input wire reset,
    input wire os,              // the array is output-stationary
    input wire [2:0] waits,     // by unit: a bank of local memory keeps it waiting
    input wire stalled,         // main memory refuses a request
    input wire [1:0] loops      // LOOP_CONV_WS, LOOP_WS are under way
);
  import "DPI-C" function void baco_crossed(int circumstances);
  always @(posedge clock) if (!reset) baco_crossed({25'd0, loops, stalled, waits, os});
endmodule

bind baco_accelerator baco_crosses crosses (
    .clock(clock), .reset(reset), .os(execute.os),
    .waits({(sp_read_valid[3] && !sp_read_ready[3]) || (store_acc_valid && !store_acc_ready)
                || (sp_write_valid[2] && !sp_write_ready[2]),
            (sp_read_valid[2:0] & ~sp_read_ready[2:0]) != 3'd0,
            (sp_write_valid[1] && !sp_write_ready[1]) || (load_acc_valid && !load_acc_ready)}),
    .stalled((rd_req_valid && !rd_req_ready) || (wr_req_valid && !wr_req_ready)), .loops({conv_busy, loop_busy}));
