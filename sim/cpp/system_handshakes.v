// The memory port of a system, held to its protocol as ports inside accelerators are (handshakes.v).
bind baco_system baco_handshake #(.WIDTH($bits(rd_req_addr) + 3)) port_read_request (
    .clock(clock), .reset(reset), .valid(rd_req_valid), .ready(rd_req_ready), .payload({rd_req_addr, rd_req_size}));
bind baco_system baco_handshake #(.WIDTH($bits(wr_req_addr) + $bits(wr_req_data) + $bits(wr_req_mask))) port_write_request (
    .clock(clock), .reset(reset), .valid(wr_req_valid), .ready(wr_req_ready),
    .payload({wr_req_addr, wr_req_data, wr_req_mask}));
