"""Kernels that must be rejected: (name, body, what the message must say). The line that is wrong ends with `#!`."""

#: Parameters of every body, and what they are launched with: see test_kernel_errors.py.
PARAMETERS = "a, b, c, x, u, M, N, K, scale, B: baco.const"

SETUP = """
i = baco.arange(0, B)
p = a + i[:, None] * K + i[None, :]
"""

BAD: list[tuple[str, str, str]] = []


def bad(name: str, body: str, reason: str) -> None:
    assert body.count("#!") == 1, name
    BAD.append((name, body, reason))


# Python that the language does not have

bad("while", "while True:  #!\n    pass", "`while` loop is not part")
bad("break", "for i in range(4):\n    break  #!", "`break` is not part")
bad("continue", "for i in range(4):\n    continue  #!", "`continue` is not part")
bad("try", "try:  #!\n    pass\nexcept Exception:\n    pass", "`try` is not part")
bad("with", "with a:  #!\n    pass", "`with` is not part")
bad("import", "import os  #!", "an import is not part")
bad("from import", "from os import path  #!", "an import is not part")
bad("lambda", "f = lambda v: v  #!", "a lambda is not part")
bad("list element", "v = [1, 2]\nv[0] = 3  #!", "cannot be assigned")
bad("list method", "v = [1, 2]\nv.append(3)  #!", "has no `append`")
bad("dict", "v = {1: 2}  #!", "a dict is not part")
bad("set", "v = {1}  #!", "a set is not part")
bad("comprehension", "v = [j for j in range(3)]  #!", "a list comprehension is not part")
bad("generator", "v = (j for j in range(3))  #!", "a generator is not part")
bad("dict comprehension", "v = {j: j for j in range(3)}  #!", "a dict comprehension is not part")
bad("set comprehension", "v = {j for j in range(3)}  #!", "a set comprehension is not part")
bad("f-string", "v = f'{B}'  #!", "an f-string is not part")
bad("walrus", "baco.load(a + (v := 1))  #!", "`:=` is not part")
bad("nested function", "def g():  #!\n    pass", "a function inside of a kernel")
bad("class", "class G:  #!\n    pass", "a class is not part")
bad("global", "global M  #!", "(`global` is not part)|(parameter and global)")
bad("delete", "del M  #!", "`del` is not part")
bad("raise", "raise ValueError  #!", "`raise` is not part")
bad("match", "match B:  #!\n    case 1:\n        pass", "`match` is not part")
bad("yield", "yield 1  #!", "yield is not part")
bad("star call", "baco.load(*M)  #!", "`\\*` is not part")
bad("double star call", "baco.load(**M)  #!", "`\\*\\*` is not part")
bad("star assignment", "v, *w = (1, 2, 3)  #!", "cannot be assigned")
bad("bytes", "v = b'x'  #!", "no value of a kernel")
bad("complex", "v = 1j  #!", "no value of a kernel")
bad("ellipsis", "v = ...  #!", "no value of a kernel")
bad("value dropped", "M + 1  #!", "drops it")
bad("return early", "if B:\n    return  #!", "at the end of a kernel only")
bad("return value", "return M  #!", "returns nothing")
bad("declaration", "v: int  #!", "without a value")
bad("for else", "for j in range(3):\n    pass\nelse:\n    pass  #!", "`else` of a loop")
bad("for tuple target", "for j, k in range(3):  #!\n    pass", "one variable")
bad("call of print", "print(M)  #!", "built-in function of Python")
bad("call of open", "open('x')  #!", "built-in function of Python")
bad("call of eval", "eval('M')  #!", "built-in function of Python")
bad("call of a Python function", "helper(M)  #!", "`helper` is a Python function")
bad("call of numpy", "np.zeros(3)  #!", "not executed by Python")
bad("call of a number", "M(3)  #!", "cannot be called")
bad("call of a type", "baco.int8(3)  #!", "cannot be called")
bad("call of a block", "baco.arange(0, B)(1)  #!", "cannot be called")
bad("Python object", "v = table  #!", "Python type dict")

# Names

bad("unknown name", "v = blok  #!", "`blok` is not defined")
bad("unknown function", "baco.lod(a)  #!", "`baco.lod` does not exist")
bad("unknown attribute", "v = baco.arange(0, B).size  #!", "has no `size`")
bad("attribute of a number", "v = M.real  #!", "has no `real`")
bad("attribute of a pointer", "v = a.data  #!", "has no `data`")
bad("local of a loop", "for j in range(4):\n    v = j\nw = v + 1  #!", "in the loop of line")
bad("variable of a loop", "for j in range(4):\n    v = j\nw = j  #!", "in the loop of line")
bad("private name", "v = __name__.x  #!", "has no `x`")

# Calls

bad("too many arguments", "v = baco.cdiv(M, N, K)  #!", "takes 2 arguments, got 3")
bad("too few arguments", "v = baco.cdiv(M)  #!", "lacks `divisor`")
bad("unknown keyword", "v = baco.load(a, masks=None)  #!", "no parameter `masks`")
bad("twice", "v = baco.cdiv(M, dividend=3)  #!", "two values for `dividend`")
bad("helper arity", "v = twice(M, N)  #!", "takes 1 arguments, got 2")
bad("helper constant", "v = constant_only(baco.program_id(0))  #!", "is a compile-time constant")
bad("max of one", "v = max(M)  #!", "two integers or more")
bad("len of a block", "v = len(baco.arange(0, B))  #!", "len of a block")
bad("assign a store", "v = baco.store(x, 1)  #!", "gives no value")

# Integers

bad("true division", "pid = baco.program_id(0)\nv = pid / N  #!", "`/` gives a fraction")
bad("true division of constants", "v = M / N  #!", "write `//`")
bad("division by zero", "v = M // 0  #!", "division by 0")
bad("modulo zero", "v = M % 0  #!", "division by 0")
bad("division by negative", "v = M // -2  #!", "division by -2")
bad("division by unknown", "v = M // baco.program_id(0)  #!", "may be 0 or negative")
bad("cdiv by zero", "v = baco.cdiv(M, B - B)  #!", "division by 0")
bad("too large", "v = (M << 39) * 1000  #!", "too large")
bad("negative shift", "v = M << -1  #!", "cannot be computed|no sensible")
bad("huge power", "v = 10 ** 100  #!", "no sensible")
bad("xor of program ids", "v = baco.program_id(0) ^ 1  #!", "not available for integers known only")
bad("dynamic condition", "if baco.program_id(0) == 0:  #!\n    pass", "must be known when compiling")
bad("block as condition", "if baco.arange(0, B) < M:  #!\n    pass", "must be known when compiling")
bad("dynamic and", "v = (baco.program_id(0) < 3) and (M < 3)  #!", "combines compile-time conditions only")
bad("not of a block", "v = not (baco.arange(0, B) < M)  #!", "must be known when compiling")
bad("failed assertion", "assert B == 5, 'blocks of five'  #!", "does not hold: blocks of five")
bad("dynamic assertion", "assert baco.program_id(0) == 0  #!", "must be known when compiling")
bad("string arithmetic", "v = 'x' + 1  #!", "does not apply to the constant 'x'")
bad("None arithmetic", "v = None + 1  #!", "does not apply to the constant None")
bad("bool arithmetic", "v = True + 1  #!", "does not apply to the constant True")
bad("module arithmetic", "v = baco + 1  #!", "does not apply to the module")
bad("function arithmetic", "v = baco.load + 1  #!", "does not apply to the function")
bad("compare strings and numbers", "v = 'x' < 3  #!", "`<` of")
bad("is with numbers", "v = M is N  #!", "None only")
bad("in a number", "v = 1 in M  #!", "needs a tuple")
bad("tuple position", "v = (1, 2)[5]  #!", "position 5 of a tuple of 2")
bad("unpack too many", "v, w = (1, 2, 3)  #!", "3 values for 2 names")
bad("unpack a number", "v, w = M  #!", "cannot be unpacked")
bad("minus None", "v = -None  #!", "has no sign")
bad("minus a pointer", "v = -a  #!", "has no sign")

# Grid and ranges

bad("axis of the grid", "v = baco.program_id(1)  #!", "axis 1 does not exist")
bad("axis of num_programs", "v = baco.num_programs(2)  #!", "axis 2 does not exist")
bad("negative axis", "v = baco.program_id(-1)  #!", "at least 0")
bad("dynamic axis", "v = baco.program_id(baco.program_id(0))  #!", "compile-time integer")
bad("empty arange", "v = baco.arange(4, 4)  #!", "is empty")
bad("negative arange", "v = baco.arange(0, -4)  #!", "is empty")
bad("dynamic arange", "v = baco.arange(0, baco.program_id(0))  #!", "compile-time integer")
bad("huge arange", "v = baco.arange(0, 1 << 30)  #!", "smaller|elements, more than")
bad("zero step", "for j in range(0, M, 0):  #!\n    pass", "step of a range must be positive")
bad("negative step", "for j in range(M, 0, -1):  #!\n    pass", "step of a range must be positive")
bad("dynamic step", "for j in range(0, M, baco.program_id(0)):  #!\n    pass", "compile-time integer")
bad("loop over a number", "for j in M:  #!\n    pass", "runs over a range")
bad("loop over a block", "for j in baco.arange(0, B):  #!\n    pass", "runs over a range")
bad("range of a block", "for j in range(baco.arange(0, B)):  #!\n    pass", "must be an integer")
bad("range of a float", "for j in range(1.5):  #!\n    pass", "must be an integer")
bad(
    "dynamic static_range",
    "for j in baco.static_range(baco.program_id(0)):  #!\n    pass",
    "compile-time integers",
)
bad("huge static_range", "for j in baco.static_range(100000):  #!\n    pass", "too many to unroll")

# Blocks

bad("zero size", "v = baco.zeros((0, 4))  #!", "at least 1")
bad("negative size", "v = baco.zeros((-1,))  #!", "at least 1")
bad("dynamic size", "v = baco.zeros((baco.program_id(0), 4))  #!", "compile-time integer")
bad("no shape", "v = baco.zeros(())  #!", "at least one dimension")
bad("float size", "v = baco.zeros((1.5,))  #!", "compile-time integer")
bad("huge block", "v = baco.zeros((4096, 4096))  #!", "elements, more than")
bad("unknown type", "v = baco.zeros((4, 4), 'int33')  #!", "no element type 'int33'")
bad("float type", "v = baco.zeros((4, 4), 'float64')  #!", "no element type 'float64'")
bad("type is a number", "v = baco.zeros((4, 4), 3)  #!", "element type is needed")
bad("fill with a fraction", "v = baco.full((4,), 0.5)  #!", "filled with an integer")
bad("fill out of range", "v = baco.full((4,), 300, 'int8')  #!", "300 does not fit int8")
bad("fill with a block", "v = baco.full((4,), baco.zeros((4,)))  #!", "filled with an integer")
bad("shapes do not fit", "v = baco.zeros((4, 8)) + baco.zeros((8, 4))  #!", "do not fit")
bad("offsets do not fit", "v = baco.arange(0, 4) + baco.arange(0, 8)  #!", "do not fit")
bad("constant does not fit", "v = baco.load(a + baco.arange(0, 4)) + 1000  #!", "1000 does not fit int8")
bad("fraction", "v = baco.zeros((4,)) * 0.5  #!", "scale with baco.requantize")
bad("fraction with offsets", "v = baco.arange(0, 4) * 0.5  #!", "scale with baco.requantize")
bad("block division by a block", "z = baco.zeros((4,))\nv = z // z  #!", "compile-time integer")
bad("block division by zero", "v = baco.zeros((4,)) // 0  #!", "division by 0")
bad("block true division", "v = baco.zeros((4,)) / 2  #!", "`/` gives a fraction")
bad("shift too far", "v = baco.zeros((4,)) >> 32  #!", "from 0 to 31")
bad("dynamic shift", "z = baco.zeros((4,))\nv = z >> z  #!", "compile-time integer")
bad("power of a block", "v = baco.zeros((4,)) ** 2  #!", "not available")
bad("arithmetic of conditions", "v = (baco.arange(0, 4) < 2) + 1  #!", "of conditions|of bool")
bad("condition times block", "v = (baco.arange(0, 4) < 2) * baco.zeros((4,))  #!", "of bool and int32")
bad("minus condition", "v = -(baco.arange(0, 4) < 2)  #!", "`-` of a condition")
bad("compare conditions", "v = (baco.arange(0, 4) < 2) < (baco.arange(0, 4) < 3)  #!", "of conditions")
bad("cast a condition", "v = (baco.arange(0, 4) < 2).to('int8')  #!", "no integer type")
bad("cast to nothing", "v = baco.zeros((4,)).to()  #!", "lacks `dtype`")
bad("cast to unknown", "v = baco.zeros((4,)).to('int7')  #!", "no element type 'int7'")
bad("cast a pointer", "v = baco.cast(a, 'int8')  #!", "a cast of a pointer")
bad("block and tuple", "v = baco.zeros((4,)) + (1, 2)  #!", "does not apply to a tuple")
bad("where without condition", "v = baco.where(M, 1, 2)  #!", "needs a condition")
bad("where shapes", "v = baco.where(baco.arange(0, 4) < 2, baco.zeros((8,)), 0)  #!", "do not fit")
bad("where of a pointer", "v = baco.where(baco.arange(0, 4) < 2, a, 0)  #!", "does not apply to a pointer")
bad("maximum of a string", "v = baco.maximum(baco.zeros((4,)), 'x')  #!", "does not apply|not available")
bad("index a block", "v = baco.zeros((4,))[0]  #!", "cannot be indexed")
bad("slice a block", "v = baco.zeros((4,))[1:3]  #!", "cannot be indexed")
bad("too many indices", "v = baco.arange(0, 4)[:, :]  #!", "2 dimensions are indexed")
bad("index a number", "v = M[:, None]  #!", "cannot be indexed")
bad("index a pointer", "v = a[0]  #!", "write baco.load")
bad("assign an element", "v = baco.zeros((4,))\nv[0] = 1  #!", "blocks are values")
bad("assign through a pointer", "a[0] = 1  #!", "memory is written by baco.store")
bad("add to an element", "v = baco.zeros((4,))\nv[0] += 1  #!", "blocks are values")
bad("assign an attribute", "a.x = 1  #!", "cannot be assigned")
bad("transpose a vector", "v = baco.arange(0, 4).T  #!", "cannot be transposed")
bad("transpose a number", "v = baco.trans(M)  #!", "cannot be transposed")
bad("permutation", "v = baco.trans(baco.zeros((4, 4)), (0, 0))  #!", "no permutation")
bad("permutation is a number", "v = baco.trans(baco.zeros((4, 4)), 1)  #!", "must be a tuple")
bad("expand axis", "v = baco.expand_dims(baco.zeros((4,)), 3)  #!", "axis 3 does not exist")
bad("expand a number", "v = baco.expand_dims(M, 0)  #!", "cannot be inserted")
bad("broadcast", "v = baco.broadcast_to(baco.zeros((4,)), (8,))  #!", "cannot be broadcast")

# Products and requantisation

bad(
    "dot of vectors", "v = baco.dot(baco.zeros((4,), 'int8'), baco.zeros((4,), 'int8'))  #!", "two dimensions"
)
bad("dot of numbers", "v = baco.dot(M, N)  #!", "two dimensions")
bad(
    "dot shapes",
    "v = baco.dot(baco.zeros((4, 8), 'int8'), baco.zeros((4, 8), 'int8'))  #!",
    "8 columns, the second 4 rows",
)
bad(
    "dot of int32",
    "v = baco.dot(baco.zeros((4, 4)), baco.zeros((4, 4)))  #!",
    "multiplies int8, uint8 or int16",
)
bad("matmul of int32", "v = baco.zeros((4, 4)) @ baco.zeros((4, 4))  #!", "multiplies int8, uint8 or int16")
bad("dot of pointers", "v = baco.dot(a, b)  #!", "two dimensions")
bad(
    "accumulator shape",
    "z = baco.zeros((4, 4), 'int8')\nv = baco.dot(z, z, baco.zeros((4, 8)))  #!",
    "must be a block int32\\[4, 4\\]",
)
bad("accumulator type", "z = baco.zeros((4, 4), 'int8')\nv = baco.dot(z, z, z)  #!", "must be a block int32")
bad("requantize int8", "v = baco.requantize(baco.zeros((4,), 'int8'), 0.5)  #!", "takes int32")
bad("requantize a number", "v = baco.requantize(M, 0.5)  #!", "takes int32")
bad(
    "requantize by a block",
    "v = baco.requantize(baco.zeros((4,)), baco.zeros((4,)))  #!",
    "compile-time number",
)
bad("requantize by a string", "v = baco.requantize(baco.zeros((4,)), 'x')  #!", "compile-time number")
bad("requantize by too much", "v = baco.requantize(baco.zeros((4,)), 1e39)  #!", "no finite float32")

# Memory

bad("load a number", "v = baco.load(M)  #!", "needs a pointer")
bad("load a block", "v = baco.load(baco.zeros((4,)))  #!", "needs a pointer")
bad("pointer times", "v = a * 2  #!", "does not apply to a pointer")
bad("pointer plus pointer", "v = a + b  #!", "a pointer moves by")
bad("number minus pointer", "v = 1 - a  #!", "a pointer moves by")
bad("pointer plus float", "v = a + 0.5  #!", "cannot be moved by")
bad("pointer plus tuple", "v = a + (1, 2)  #!", "does not apply to a tuple")
bad("pointer plus condition", "v = a + (baco.arange(0, 4) < 2)  #!", "cannot be moved by")
bad("compare a pointer", "v = a == None  #!", "is None")
bad("pointer shapes", "v = (a + baco.arange(0, 4)) + baco.arange(0, 8)  #!", "do not fit")
bad("mask type", SETUP + "v = baco.load(p, mask=i)  #!", "must be a condition")
bad("mask shape", SETUP + "v = baco.load(p, mask=baco.arange(0, 3) < 2)  #!", "mask has the shape \\[3\\]")
bad("other out of range", SETUP + "v = baco.load(p, other=1000)  #!", "does not fit int8")
bad("other is a block", SETUP + "v = baco.load(p, other=i)  #!", "compile-time integer")
bad("boundary_check on pointers", SETUP + "v = baco.load(p, boundary_check=(0,))  #!", "block pointers only")
bad(
    "store a wider type",
    SETUP + "baco.store(p, baco.zeros((B, B)))  #!",
    "a store of int32 to a block of pointers to int8",
)
bad("store offsets", SETUP + "baco.store(c + i, i)  #!", 'cast by `.to\\("int32"\\)`')
bad("store a fraction", "baco.store(x, 0.5)  #!", "blocks and integers are stored")
bad("store does not fit", "baco.store(a, 300)  #!", "300 does not fit int8")
bad("store shape", SETUP + "baco.store(p, baco.zeros((3, 3), 'int8'))  #!", "do not fit")
bad("store nothing", SETUP + "baco.store(p)  #!", "lacks `value`")
bad("store to a number", "baco.store(M, 1)  #!", "needs a pointer")
bad("store through read-only", "baco.store(u, 1)\npass  #!", "read-only")
bad("beyond the array", "v = baco.load(a + 4096)  #!", "element 4096 of `a`")
bad("before the array", "v = baco.load(a - 1)  #!", "element -1 of `a`")
bad(
    "overhang without an extent",
    "i = baco.program_id(0) * 24 + baco.arange(0, 24)\nv = baco.load(x + i)  #!",
    "may reach element 95 of `x`, which has 32",
)
bad(
    "overhang in a loop",
    "s = baco.zeros((24,))\nq = x + baco.arange(0, 24)\nfor j in range(3):\n    s += baco.load(q)  #!\n    q += 24",
    "may reach element 71 of `x`",
)
bad(
    "irregular pointer",
    "s = baco.zeros((4,))\nq = x + baco.arange(0, 4)\nfor j in range(3):\n    s += baco.load(q)  #!\n    q += j",
    "relative to `x`",
)

bad(
    "offsets that change irregularly",
    "s = baco.zeros((4,))\ni = baco.arange(0, 4)\nfor j in range(3):\n    s += baco.load(x + i)  #!\n    i = i * 2",
    "how far this load reaches in `x` is not known",
)

# Block pointers

BLOCK = "q = baco.make_block_ptr(a, (M, K), (K, 1), (0, 0), (4, 4))\n"
bad("base", "q = baco.make_block_ptr(M, (M, K), (K, 1), (0, 0), (4, 4))  #!", "base of a block pointer")
bad("ranks", "q = baco.make_block_ptr(a, (M, K), (K,), (0, 0), (4, 4))  #!", "strides has 1")
bad(
    "dynamic block",
    "q = baco.make_block_ptr(a, (M, K), (K, 1), (0, 0), (4, baco.program_id(0)))  #!",
    "compile-time",
)
bad(
    "dynamic shape",
    "q = baco.make_block_ptr(a, (M, baco.program_id(0)), (K, 1), (0, 0), (4, 4))  #!",
    "compile-time",
)
bad(
    "order",
    "q = baco.make_block_ptr(a, (M, K), (K, 1), (0, 0), (4, 4), (1, 1))  #!",
    "permutation of 0 ... 1",
)
bad("add to a block pointer", BLOCK + "q += 4  #!", "use baco.advance")
bad("advance rank", BLOCK + "q = baco.advance(q, (4,))  #!", "1 offsets for a block with 2")
bad("advance a pointer", "q = baco.advance(a, (4,))  #!", "moves block pointers")
bad("advance by a block", BLOCK + "q = baco.advance(q, (0, baco.arange(0, 4)))  #!", "must be an integer")
bad("mask of a block pointer", BLOCK + "v = baco.load(q, mask=M < 3)  #!", "takes no mask")
bad("boundary dimension", BLOCK + "v = baco.load(q, boundary_check=(2,))  #!", "with 2 dimensions")
bad(
    "block pointer beyond",
    "q = baco.make_block_ptr(a, (999, K), (K, 1), (900, 0), (4, 4))\nv = baco.load(q)  #!",
    "may reach",
)

# Loops that change types

bad(
    "accumulator type changes",
    "s = baco.zeros((4,))\nfor j in range(3):\n    s = s.to('int8')  #!",
    "before the loop",
)
bad(
    "accumulator shape changes",
    "s = baco.zeros((4,))\nfor j in range(3):\n    s = s[:, None] + s[None, :]  #!",
    "before the loop",
)
bad("constant changes", "s = 1.5\nfor j in range(3):\n    s = s + 1.0  #!", "before the loop")
bad("string changes", "s = 'x'\nfor j in range(3):\n    s = 'y'  #!", "before the loop")
bad(
    "scalar becomes a block", "s = 0\nfor j in range(3):\n    s = s + baco.zeros((4,))  #!", "before the loop"
)
bad("pointer changes array", "s = a\nfor j in range(3):\n    s = b  #!", "before the loop")
bad(
    "error in a nested loop",
    "for j in range(3):\n    for k in range(3):\n        v = j / k  #!",
    "`/` gives a fraction",
)
bad("error in a branch", "if B == 4:\n    v = M / 2  #!", "`/` gives a fraction")
bad("continued line", "v = (M +\n     N / 2)  #!", "`/` gives a fraction")
