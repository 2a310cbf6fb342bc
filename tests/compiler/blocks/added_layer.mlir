// A layer at the structured level: a product with bias, an addition, ReLU, requantised.
builtin.module {
  func.func @layer(%input: memref<30xi8>, %weight: memref<42xi8>, %bias: memref<7xi32>, %residual: memref<35xi8>, %output: memref<35xi8>) {
    %zero = arith.constant 0 : i32
    %zero8 = arith.constant 0 : i8
    %input_view = memref.reinterpret_cast %input to offset: [0], sizes: [1, 1, 5, 1, 6], strides: [30, 30, 6, 6, 1] : memref<30xi8> to memref<1x1x5x1x6xi8, strided<[30, 30, 6, 6, 1]>>
    %input_copy = memref.alloc() : memref<1x1x5x1x6xi8>
    "memref.copy"(%input_view, %input_copy) : (memref<1x1x5x1x6xi8, strided<[30, 30, 6, 6, 1]>>, memref<1x1x5x1x6xi8>) -> ()
    %input_array = bufferization.to_tensor %input_copy restrict : memref<1x1x5x1x6xi8> to tensor<1x1x5x1x6xi8>
    %weight_view = memref.reinterpret_cast %weight to offset: [0], sizes: [1, 1, 1, 6, 7], strides: [7, 42, 42, 7, 1] : memref<42xi8> to memref<1x1x1x6x7xi8, strided<[7, 42, 42, 7, 1]>>
    %weight_copy = memref.alloc() : memref<1x1x1x6x7xi8>
    "memref.copy"(%weight_view, %weight_copy) : (memref<1x1x1x6x7xi8, strided<[7, 42, 42, 7, 1]>>, memref<1x1x1x6x7xi8>) -> ()
    %weight_array = bufferization.to_tensor %weight_copy restrict : memref<1x1x1x6x7xi8> to tensor<1x1x1x6x7xi8>
    %room = tensor.empty() : tensor<1x1x5x1x7xi32>
    %bias_view = memref.reinterpret_cast %bias to offset: [0], sizes: [1, 7], strides: [7, 1] : memref<7xi32> to memref<1x7xi32, strided<[7, 1]>>
    %bias_copy = memref.alloc() : memref<1x7xi32>
    "memref.copy"(%bias_view, %bias_copy) : (memref<1x7xi32, strided<[7, 1]>>, memref<1x7xi32>) -> ()
    %bias_array = bufferization.to_tensor %bias_copy restrict : memref<1x7xi32> to tensor<1x7xi32>
    %start = linalg.generic {indexing_maps = [affine_map<(n, q, p, g, k) -> (g, k)>, affine_map<(n, q, p, g, k) -> (n, q, p, g, k)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%bias_array : tensor<1x7xi32>) outs(%room : tensor<1x1x5x1x7xi32>) {
    ^bb0(%a0: i32, %a1: i32):
      linalg.yield %a0 : i32
    } -> tensor<1x1x5x1x7xi32>
    %sums = linalg.generic {indexing_maps = [affine_map<(n, q, p, g, k, s, r, c) -> (n, q + s, p + r, g, c)>, affine_map<(n, q, p, g, k, s, r, c) -> (g, s, r, c, k)>, affine_map<(n, q, p, g, k, s, r, c) -> (n, q, p, g, k)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%input_array, %weight_array : tensor<1x1x5x1x6xi8>, tensor<1x1x1x6x7xi8>) outs(%start : tensor<1x1x5x1x7xi32>) {
    ^bb0(%a0: i8, %a1: i8, %a2: i32):
      %x = arith.extsi %a0 : i8 to i32
      %w = arith.extsi %a1 : i8 to i32
      %xw = arith.muli %x, %w : i32
      %sum = arith.addi %a2, %xw : i32
      linalg.yield %sum : i32
    } -> tensor<1x1x5x1x7xi32>
    %residual_view = memref.reinterpret_cast %residual to offset: [0], sizes: [1, 1, 5, 1, 7], strides: [35, 35, 7, 7, 1] : memref<35xi8> to memref<1x1x5x1x7xi8, strided<[35, 35, 7, 7, 1]>>
    %residual_copy = memref.alloc() : memref<1x1x5x1x7xi8>
    "memref.copy"(%residual_view, %residual_copy) : (memref<1x1x5x1x7xi8, strided<[35, 35, 7, 7, 1]>>, memref<1x1x5x1x7xi8>) -> ()
    %residual_array = bufferization.to_tensor %residual_copy restrict : memref<1x1x5x1x7xi8> to tensor<1x1x5x1x7xi8>
    %narrow = tensor.empty() : tensor<1x1x5x1x7xi8>
    %results = linalg.generic {indexing_maps = [affine_map<(n, q, p, g, k) -> (n, q, p, g, k)>, affine_map<(n, q, p, g, k) -> (n, q, p, g, k)>, affine_map<(n, q, p, g, k) -> (n, q, p, g, k)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%sums, %residual_array : tensor<1x1x5x1x7xi32>, tensor<1x1x5x1x7xi8>) outs(%narrow : tensor<1x1x5x1x7xi8>) {
    ^bb0(%a0: i32, %a1: i8, %a2: i8):
      %b_float = arith.sitofp %a1 : i8 to f32
      %b_factor = arith.constant 0.30000001192092896 : f32
      %b_product = arith.mulf %b_float, %b_factor : f32
      %b_even = math.roundeven %b_product : f32
      %b_bottom = arith.constant -128.0 : f32
      %b_top = arith.constant 127.0 : f32
      %b_above = arith.maximumf %b_even, %b_bottom : f32
      %b_within = arith.minimumf %b_above, %b_top : f32
      %b_low = arith.fptosi %b_within : f32 to i8
      %more = arith.extsi %b_low : i8 to i32
      %total = arith.addi %a0, %more : i32
      %positive = arith.maxsi %total, %zero : i32
      %o_float = arith.sitofp %positive : i32 to f32
      %o_factor = arith.constant 0.05000000074505806 : f32
      %o_product = arith.mulf %o_float, %o_factor : f32
      %o_even = math.roundeven %o_product : f32
      %o_bottom = arith.constant -128.0 : f32
      %o_top = arith.constant 127.0 : f32
      %o_above = arith.maximumf %o_even, %o_bottom : f32
      %o_within = arith.minimumf %o_above, %o_top : f32
      %o_low = arith.fptosi %o_within : f32 to i8
      linalg.yield %o_low : i8
    } -> tensor<1x1x5x1x7xi8>
    %output_view = memref.reinterpret_cast %output to offset: [0], sizes: [1, 1, 5, 1, 7], strides: [35, 35, 7, 7, 1] : memref<35xi8> to memref<1x1x5x1x7xi8, strided<[35, 35, 7, 7, 1]>>
    %stored = bufferization.to_buffer %results : tensor<1x1x5x1x7xi8> to memref<1x1x5x1x7xi8>
    "memref.copy"(%stored, %output_view) : (memref<1x1x5x1x7xi8>, memref<1x1x5x1x7xi8, strided<[35, 35, 7, 7, 1]>>) -> ()
    func.return
  }
}
