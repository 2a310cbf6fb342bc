// One lane of the normaliser: an element, and the one multiplier of integers that all of its arithmetic takes turns at.
// Integers are of 32 bits and wrap around, as those of Gemmini's functional simulator do.
module baco_normalizer_lane (
    input wire clock,
    input wire [3:0] step,                       // what is done in this cycle, one of the values below
    input wire [31:0] element,
    input wire [31:0] base,                      // mean or largest element of the row
    input wire [31:0] qb,
    input wire [31:0] qc,
    input wire [31:0] qln2,
    input wire [31:0] qln2_inv,
    input wire [31:0] scaled,                    // from the scaling unit
    output reg [31:0] x
);
  localparam [3:0] TAKE = 4'd1, CENTRE = 4'd2, SQUARE = 4'd3, DECAY = 4'd4, CLIP = 4'd5, MULTIPLY = 4'd6, KEEP = 4'd7,
                   HALVINGS = 4'd8, REDUCED = 4'd9, POWER = 4'd10, SIGN = 4'd11, NARROW = 4'd12;

  reg [31:0] left, right, product;
  reg [4:0] shift;

  wire [31:0] distance = x - base;
  wire [31:0] magnitude = x[31] ? -x : x;
  wire [31:0] most = -qb;
  wire [31:0] clipped = $signed(magnitude) > $signed(most) ? most : magnitude;
  wire [31:0] sum = product + qc;
  wire [31:0] reduced = x + product + qb;
  wire signed [31:0] power = $signed(sum) >>> shift;
  wire [31:0] whole = left * right;
  wire fits = scaled[31:7] == {25{scaled[31]}};

  always @(posedge clock)
    case (step)
      TAKE: x <= element;
      CENTRE: x <= distance;
      SQUARE: begin                              // of the distance from the mean
        left <= distance;
        right <= distance;
      end
      DECAY: begin                               // exponential: how often the distance from the largest holds ln 2
        x <= distance;
        left <= -distance;
        right <= qln2_inv;
      end
      CLIP: begin                                // I-GELU's polynomial
        left <= clipped + qb;
        right <= clipped + qb;
      end
      MULTIPLY: product <= whole;
      KEEP: x <= product;
      HALVINGS: begin
        shift <= product[20:16];
        left <= {{16{product[31]}}, product[31:16]};
        right <= qln2;
      end
      REDUCED: begin
        left <= reduced;
        right <= reduced;
      end
      POWER: x <= power;
      SIGN: begin                                // I-GELU: the polynomial has the element's sign
        left <= x;
        right <= (x[31] ? -sum : sum) + qc;
      end
      NARROW: x <= fits ? scaled : {{25{scaled[31]}}, {7{!scaled[31]}}};
      default: begin
      end
    endcase
endmodule
