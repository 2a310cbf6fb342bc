// A layer at the structured level: a convolution of two groups, strided, dilated and padded, requantised, and its largest results.
builtin.module {
  func.func @layer(%input: memref<936xi8>, %weight: memref<216xi8>, %output: memref<54xi8>) {
    %zero = arith.constant 0 : i32
    %zero8 = arith.constant 0 : i8
    %input_view = memref.reinterpret_cast %input to offset: [0], sizes: [1, 9, 13, 2, 4], strides: [936, 104, 8, 4, 1] : memref<936xi8> to memref<1x9x13x2x4xi8, strided<[936, 104, 8, 4, 1]>>
    %input_copy = memref.alloc() : memref<1x9x13x2x4xi8>
    "memref.copy"(%input_view, %input_copy) : (memref<1x9x13x2x4xi8, strided<[936, 104, 8, 4, 1]>>, memref<1x9x13x2x4xi8>) -> ()
    %input_array = bufferization.to_tensor %input_copy restrict : memref<1x9x13x2x4xi8> to tensor<1x9x13x2x4xi8>
    %input_array_padded = tensor.pad %input_array low[0, 1, 1, 0, 0] high[0, 0, 0, 0, 0] {
    ^bb0(%i0: index, %i1: index, %i2: index, %i3: index, %i4: index):
      tensor.yield %zero8 : i8
    } : tensor<1x9x13x2x4xi8> to tensor<1x10x14x2x4xi8>
    %weight_view = memref.reinterpret_cast %weight to offset: [0], sizes: [2, 3, 3, 4, 3], strides: [3, 72, 24, 6, 1] : memref<216xi8> to memref<2x3x3x4x3xi8, strided<[3, 72, 24, 6, 1]>>
    %weight_copy = memref.alloc() : memref<2x3x3x4x3xi8>
    "memref.copy"(%weight_view, %weight_copy) : (memref<2x3x3x4x3xi8, strided<[3, 72, 24, 6, 1]>>, memref<2x3x3x4x3xi8>) -> ()
    %weight_array = bufferization.to_tensor %weight_copy restrict : memref<2x3x3x4x3xi8> to tensor<2x3x3x4x3xi8>
    %room = tensor.empty() : tensor<1x6x6x2x3xi32>
    %start = linalg.fill ins(%zero : i32) outs(%room : tensor<1x6x6x2x3xi32>) -> tensor<1x6x6x2x3xi32>
    %sums = linalg.generic {indexing_maps = [affine_map<(n, q, p, g, k, s, r, c) -> (n, q + s * 2, p * 2 + r, g, c)>, affine_map<(n, q, p, g, k, s, r, c) -> (g, s, r, c, k)>, affine_map<(n, q, p, g, k, s, r, c) -> (n, q, p, g, k)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%input_array_padded, %weight_array : tensor<1x10x14x2x4xi8>, tensor<2x3x3x4x3xi8>) outs(%start : tensor<1x6x6x2x3xi32>) {
    ^bb0(%a0: i8, %a1: i8, %a2: i32):
      %x = arith.extsi %a0 : i8 to i32
      %w = arith.extsi %a1 : i8 to i32
      %xw = arith.muli %x, %w : i32
      %sum = arith.addi %a2, %xw : i32
      linalg.yield %sum : i32
    } -> tensor<1x6x6x2x3xi32>
    %narrow = tensor.empty() : tensor<1x6x6x2x3xi8>
    %results = linalg.generic {indexing_maps = [affine_map<(n, q, p, g, k) -> (n, q, p, g, k)>, affine_map<(n, q, p, g, k) -> (n, q, p, g, k)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%sums : tensor<1x6x6x2x3xi32>) outs(%narrow : tensor<1x6x6x2x3xi8>) {
    ^bb0(%a0: i32, %a1: i8):
      %o_float = arith.sitofp %a0 : i32 to f32
      %o_factor = arith.constant 0.009999999776482582 : f32
      %o_product = arith.mulf %o_float, %o_factor : f32
      %o_even = math.roundeven %o_product : f32
      %o_bottom = arith.constant -128.0 : f32
      %o_top = arith.constant 127.0 : f32
      %o_above = arith.maximumf %o_even, %o_bottom : f32
      %o_within = arith.minimumf %o_above, %o_top : f32
      %o_low = arith.fptosi %o_within : f32 to i8
      linalg.yield %o_low : i8
    } -> tensor<1x6x6x2x3xi8>
    %least = arith.constant -128 : i8
    %pooled_room = tensor.empty() : tensor<1x3x3x2x3xi8>
    %pooled_start = linalg.fill ins(%least : i8) outs(%pooled_room : tensor<1x3x3x2x3xi8>) -> tensor<1x3x3x2x3xi8>
    %window = tensor.empty() : tensor<2x2xi8>
    %pooled = linalg.generic {indexing_maps = [affine_map<(n, q, p, g, k, y, x) -> (n, q * 2 + y, p * 2 + x, g, k)>, affine_map<(n, q, p, g, k, y, x) -> (y, x)>, affine_map<(n, q, p, g, k, y, x) -> (n, q, p, g, k)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%results, %window : tensor<1x6x6x2x3xi8>, tensor<2x2xi8>) outs(%pooled_start : tensor<1x3x3x2x3xi8>) {
    ^bb0(%a0: i8, %a1: i8, %a2: i8):
      %larger = arith.maxsi %a0, %a2 : i8
      linalg.yield %larger : i8
    } -> tensor<1x3x3x2x3xi8>
    %output_view = memref.reinterpret_cast %output to offset: [0], sizes: [1, 3, 3, 2, 3], strides: [54, 18, 6, 3, 1] : memref<54xi8> to memref<1x3x3x2x3xi8, strided<[54, 18, 6, 3, 1]>>
    %stored = bufferization.to_buffer %pooled : tensor<1x3x3x2x3xi8> to memref<1x3x3x2x3xi8>
    "memref.copy"(%stored, %output_view) : (memref<1x3x3x2x3xi8>, memref<1x3x3x2x3xi8, strided<[54, 18, 6, 3, 1]>>) -> ()
    func.return
  }
}
