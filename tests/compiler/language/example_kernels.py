"""Kernels that several tests run. Each is a piece of user code: nothing here knows the compiler."""

import baco


# fmt: off
@baco.jit
def matmul_kernel(
    # Pointers to matrices and dimensions
    a_ptr, b_ptr, c_ptr, M, N, K,
    stride_am, stride_ak,  # Increase a_ptr by each dimension
    stride_bk, stride_bn,
    stride_cm, stride_cn,
    # Meta-parameters
    BLOCK_SIZE_M: baco.const, BLOCK_SIZE_N: baco.const, BLOCK_SIZE_K: baco.const):
    # Map program ids 'pid' to the block of C it should compute.
    pid = baco.program_id(0)
    num_pid_m = baco.cdiv(M, BLOCK_SIZE_M)  # noqa: F841
    num_pid_n = baco.cdiv(N, BLOCK_SIZE_N)
    pid_m = pid // num_pid_n
    pid_n = pid % num_pid_n
    # a_ptrs is a block of [BLOCK_SIZE_M, BLOCK_SIZE_K] pointers
    offs_am = pid_m * BLOCK_SIZE_M + baco.arange(0, BLOCK_SIZE_M)
    offs_bn = pid_n * BLOCK_SIZE_N + baco.arange(0, BLOCK_SIZE_N)
    offs_k = baco.arange(0, BLOCK_SIZE_K)
    a_ptrs = a_ptr + (offs_am[:, None] * stride_am + offs_k[None, :] * stride_ak)
    b_ptrs = b_ptr + (offs_k[:, None] * stride_bk + offs_bn[None, :] * stride_bn)
    # Iterate to compute a block of the C matrix
    accumulator = baco.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype="int32")
    for k in range(0, K, BLOCK_SIZE_K):  # noqa: B007
        a = baco.load(a_ptrs)
        b = baco.load(b_ptrs)
        # We accumulate along the K dimension
        accumulator += baco.dot(a, b)
        # Advance the ptrs to the next K block
        a_ptrs += BLOCK_SIZE_K * stride_ak
        b_ptrs += BLOCK_SIZE_K * stride_bk
    c = accumulator.to("int32")
    # Write back the block of the output matrix C
    offs_cm = pid_m * BLOCK_SIZE_M + baco.arange(0, BLOCK_SIZE_M)
    offs_cn = pid_n * BLOCK_SIZE_N + baco.arange(0, BLOCK_SIZE_N)
    c_ptrs = c_ptr + stride_cm * offs_cm[:, None] + stride_cn * offs_cn[None, :]
    baco.store(c_ptrs, c)
# fmt: on


@baco.jit
def matmul_by_index(a, b, c, M, N, K, BM: baco.const, BN: baco.const, BK: baco.const):
    """Row-major GEMM on a grid with two axes; addresses are computed anew from the loop variable."""
    rows = baco.program_id(0) * BM + baco.arange(0, BM)
    columns = baco.program_id(1) * BN + baco.arange(0, BN)
    total = baco.zeros((BM, BN), "int32")
    for step in range(baco.cdiv(K, BK)):
        depth = step * BK + baco.arange(0, BK)
        x = baco.load(a + rows[:, None] * K + depth[None, :])
        y = baco.load(b + depth[:, None] * N + columns[None, :])
        total = baco.dot(x, y, acc=total)
    baco.store(c + rows[:, None] * N + columns[None, :], total)


@baco.jit
def matmul_masked(a, b, c, M, N, K, BM: baco.const, BN: baco.const, BK: baco.const, GROUP: baco.const):
    """GEMM with every mask written out, in the grouped order of programs that keeps operands in caches."""
    pid = baco.program_id(0)
    num_m, num_n = baco.cdiv(M, BM), baco.cdiv(N, BN)
    group = pid // (GROUP * num_n)
    first = group * GROUP
    size = min(num_m - first, GROUP)
    pid_m = first + (pid % (GROUP * num_n)) % size
    pid_n = (pid % (GROUP * num_n)) // size
    rows = pid_m * BM + baco.arange(0, BM)
    columns = pid_n * BN + baco.arange(0, BN)
    depth = baco.arange(0, BK)
    a_ptrs = a + (rows[:, None] * K + depth[None, :])
    b_ptrs = b + (depth[:, None] * N + columns[None, :])
    total = baco.zeros((BM, BN))
    for k in range(baco.cdiv(K, BK)):
        x = baco.load(a_ptrs, mask=(rows[:, None] < M) & (depth[None, :] < K - k * BK), other=0)
        y = baco.load(b_ptrs, mask=(depth[:, None] < K - k * BK) & (columns[None, :] < N))
        total = baco.dot(x, y, total)
        a_ptrs += BK
        b_ptrs += BK * N
    baco.store(
        c + rows[:, None] * N + columns[None, :], total, mask=(rows[:, None] < M) & (columns[None, :] < N)
    )


@baco.jit
def matmul_block_pointers(a, b, c, M, N, K, BM: baco.const, BN: baco.const, BK: baco.const):
    """GEMM by block pointers."""
    row, column = baco.program_id(0) * BM, baco.program_id(1) * BN
    a_block = baco.make_block_ptr(a, (M, K), (K, 1), (row, 0), (BM, BK), order=(1, 0))
    b_block = baco.make_block_ptr(b, (K, N), (N, 1), (0, column), (BK, BN))
    total = baco.zeros((BM, BN), baco.int32)
    for _ in range(0, K, BK):
        total += baco.load(a_block, boundary_check=(0, 1)) @ baco.load(b_block)
        a_block = baco.advance(a_block, (0, BK))
        b_block = baco.advance(b_block, (BK, 0))
    c_block = baco.make_block_ptr(
        base=c, shape=(M, N), strides=(N, 1), offsets=(row, column), block_shape=(BM, BN)
    )
    baco.store(c_block, total)


@baco.jit
def matmul_wrapped(a, b, c, M, N, K, BM: baco.const, BN: baco.const, BK: baco.const):
    """GEMM whose overhanging rows and columns are loaded modulo the size of the matrix."""
    pid = baco.program_id(0)
    num_m = baco.cdiv(M, BM)
    row, column = (pid % num_m) * BM, (pid // num_m) * BN
    depth = baco.arange(0, BK)
    a_ptrs = a + (((row + baco.arange(0, BM)) % M)[:, None] * K + depth[None, :])
    b_ptrs = b + (depth[:, None] * N + ((column + baco.arange(0, BN)) % N)[None, :])
    total = baco.zeros([BM, BN], dtype=baco.int32)
    for _ in range(0, K, BK):
        total = baco.dot(baco.load(a_ptrs), baco.load(b_ptrs), total)
        a_ptrs += BK
        b_ptrs += BK * N
    rows, columns = row + baco.arange(0, BM), column + baco.arange(0, BN)
    baco.store(
        c + rows[:, None] * N + columns[None, :], total, mask=(rows[:, None] < M) & (columns[None, :] < N)
    )


@baco.jit
def gathered_matmul(a, which, b, c, M, N, K, BM: baco.const, BN: baco.const, BK: baco.const):
    """c = a[which] @ b: rows by offsets that are data, columns by a loop."""
    rows = baco.program_id(0) * BM + baco.arange(0, BM)
    columns = baco.program_id(1) * BN + baco.arange(0, BN)
    a_ptrs = a + baco.load(which + rows)[:, None] * K + baco.arange(0, BK)[None, :]
    b_ptrs = b + baco.arange(0, BK)[:, None] * N + columns[None, :]
    total = baco.zeros((BM, BN))
    for _ in range(0, K, BK):
        total += baco.dot(baco.load(a_ptrs), baco.load(b_ptrs))
        a_ptrs += BK
        b_ptrs += BK * N
    baco.store(c + rows[:, None] * N + columns[None, :], total)


@baco.jit
def relu(x):
    """A helper that kernels call."""
    return baco.maximum(x, 0)


@baco.jit
def fused_layer(x, w, bias, residual, y, M, N, K, scale, BM: baco.const, BN: baco.const, BK: baco.const):
    """y = requantise(relu(x @ w + bias + residual)), with bias and residual optional (None)."""
    pid_m, pid_n = baco.program_id(0), baco.program_id(1)
    rows = pid_m * BM + baco.arange(0, BM)
    columns = pid_n * BN + baco.arange(0, BN)
    depth = baco.arange(0, BK)
    x_ptrs = x + rows[:, None] * K + depth[None, :]
    w_ptrs = w + depth[:, None] * N + columns[None, :]
    total = baco.zeros((BM, BN), "int32")
    for _ in range(0, K, BK):
        total += baco.dot(baco.load(x_ptrs), baco.load(w_ptrs))
        x_ptrs += BK
        w_ptrs += BK * N
    if bias is not None:
        total += baco.load(bias + columns)[None, :]
    if residual is not None:
        total += baco.load(residual + rows[:, None] * N + columns[None, :])
    baco.store(y + rows[:, None] * N + columns[None, :], baco.requantize(relu(total), scale))


@baco.jit
def batched_matmul(a, b, c, M, N, K, BM: baco.const, BN: baco.const, BK: baco.const):
    """c[i] = a[i] @ b[i]; the batch is axis 2 of the grid."""
    batch = baco.program_id(2)
    rows = baco.program_id(0) * BM + baco.arange(0, BM)
    columns = baco.program_id(1) * BN + baco.arange(0, BN)
    depth = baco.arange(0, BK)
    a_ptrs = a + batch * M * K + rows[:, None] * K + depth[None, :]
    b_ptrs = b + batch * K * N + depth[:, None] * N + columns[None, :]
    total = baco.zeros((BM, BN), "int32")
    for _ in range(0, K, BK):
        total += baco.dot(baco.load(a_ptrs), baco.load(b_ptrs))
        a_ptrs += BK
        b_ptrs += BK * N
    baco.store(c + batch * M * N + rows[:, None] * N + columns[None, :], total)


@baco.jit
def add_kernel(x, y, out, n, BLOCK: baco.const):
    """out = x + y."""
    i = baco.program_id(0) * BLOCK + baco.arange(0, BLOCK)
    mask = i < n
    baco.store(out + i, baco.load(x + i, mask=mask) + baco.load(y + i, mask=mask), mask=mask)


@baco.jit
def transpose_kernel(x, y, M, N, BM: baco.const, BN: baco.const):
    """y = x.T"""
    rows = baco.program_id(0) * BM + baco.arange(0, BM)
    columns = baco.program_id(1) * BN + baco.arange(0, BN)
    block = baco.load(x + rows[:, None] * N + columns[None, :])
    baco.store(y + columns[:, None] * M + rows[None, :], block.T)


@baco.jit
def max_pool_kernel(x, y, H, W, P, Q, WINDOW: baco.const, STRIDE: baco.const, BP: baco.const, BQ: baco.const):
    """y[p, q] = max over the window of x[p * STRIDE + r, q * STRIDE + s]."""
    p = baco.program_id(0) * BP + baco.arange(0, BP)
    q = baco.program_id(1) * BQ + baco.arange(0, BQ)
    best = baco.full((BP, BQ), -128, "int8")
    for r in baco.static_range(WINDOW):
        for s in baco.static_range(WINDOW):
            best = baco.maximum(
                best, baco.load(x + (p * STRIDE + r)[:, None] * W + (q * STRIDE + s)[None, :])
            )
    baco.store(y + p[:, None] * Q + q[None, :], best)


@baco.jit
def convolution_kernel(
    x, w, y, H, W, C, R, S, P, Q, K, PAD, STRIDE, BQ: baco.const, BK: baco.const, BC: baco.const
):
    """y[p, q, k] = sum of x[p * STRIDE + r - PAD, q * STRIDE + s - PAD, c] * w[r, s, c, k], padded by zeros."""
    p = baco.program_id(0)
    q = baco.program_id(1) * BQ + baco.arange(0, BQ)
    k = baco.program_id(2) * BK + baco.arange(0, BK)
    total = baco.zeros((BQ, BK))
    for r in range(R):
        h = p * STRIDE + r - PAD
        for s in range(S):
            column = q * STRIDE + s - PAD
            inside = (column >= 0) & (column < W) & (h >= 0) & (h < H)
            for c0 in range(0, C, BC):
                c = c0 + baco.arange(0, BC)
                a = baco.load(
                    x + h * W * C + column[:, None] * C + c[None, :], mask=inside[:, None] & (c < C)[None, :]
                )
                b = baco.load(w + ((r * S + s) * C + c)[:, None] * K + k[None, :])
                total += baco.dot(a, b)
    baco.store(y + p * Q * K + q[:, None] * K + k[None, :], total)


@baco.jit
def embedding_kernel(table, ids, out, n, WIDTH: baco.const, BLOCK: baco.const):
    """out[i] = table[ids[i]]: a gather."""
    i = baco.program_id(0) * BLOCK + baco.arange(0, BLOCK)
    which = baco.load(ids + i)
    j = baco.arange(0, WIDTH)
    baco.store(out + i[:, None] * WIDTH + j[None, :], baco.load(table + which[:, None] * WIDTH + j[None, :]))


@baco.jit
def attention_scores(q, k, v, out, T, D, shift, scale1, scale2, BT: baco.const, BD: baco.const):
    """out = requantise(relu(requantise(q @ k.T)) @ v): two products, one after the other, over blocks of keys."""
    rows = baco.program_id(0) * BT + baco.arange(0, BT)
    dims = baco.arange(0, BD)
    queries = baco.load(q + rows[:, None] * D + dims[None, :], mask=dims[None, :] < D)
    total = baco.zeros((BT, BD))
    for start in range(0, T, BT):
        keys = start + baco.arange(0, BT)
        ks = baco.load(k + keys[:, None] * D + dims[None, :], mask=(dims < D)[None, :])
        vs = baco.load(v + keys[:, None] * D + dims[None, :], mask=(dims < D)[None, :])
        scores = baco.requantise(baco.dot(queries, ks.T) + shift, scale1)
        weights = baco.where((keys < T)[None, :], baco.maximum(scores, 0), 0)
        total += baco.dot(weights.to("int8"), vs)
    baco.store(
        out + rows[:, None] * D + dims[None, :], baco.requantise(total, scale2), mask=(dims < D)[None, :]
    )


@baco.jit
def sparse_matrix_times_vector(row_starts, columns, values, x, y, n):
    """y = A @ x for A in compressed rows: loops whose bounds are data, offsets that are data."""
    for row in range(n):
        total = 0
        for j in range(baco.load(row_starts + row), baco.load(row_starts + row + 1)):
            total += baco.load(values + j) * baco.load(x + baco.load(columns + j))
        baco.store(y + row, total)


@baco.jit
def permuted_kernel(x, y, A: baco.const, B: baco.const, C: baco.const):
    """y = x.transpose(2, 0, 1), blocks with three dimensions."""
    i, j, k = baco.arange(0, A), baco.arange(0, B), baco.arange(0, C)
    block = baco.load(x + (i[:, None, None] * B * C + j[None, :, None] * C + k[None, None, :]))
    place = k[:, None, None] * A * B + i[None, :, None] * B + j[None, None, :]
    baco.store(y + place, baco.trans(block, (2, 0, 1)))


@baco.jit
def maximum_kernel(x, y, n):
    """y = (max(x), whether it is greater than 3): numbers, no blocks."""
    best = baco.load(x)
    for i in range(1, n):
        best = baco.maximum(best, baco.load(x + i))
    baco.store(y, best)
    baco.store(y + 1, baco.where(best > 3, 1, 0).to("int8"))


@baco.jit
def mixed_product(a, b, c, M: baco.const, N: baco.const, K: baco.const):
    """c = a @ b in one block, factors signed or not."""
    i, j, k = baco.arange(0, M), baco.arange(0, N), baco.arange(0, K)
    baco.store(c + i[:, None] * N + j, baco.load(a + i[:, None] * K + k) @ baco.load(b + k[:, None] * N + j))
