"""The changes that broken_test.py makes to the built-in GPU kernels, without softmax and most
of the norms."""

BUILTIN = "kernels/providers/builtin/"
GEMM = BUILTIN + "gemm_builtin.cu"
TILE = BUILTIN + "fma_tile_gpu.h"
ATTENTION = BUILTIN + "attention_builtin.cu"
ATTENTION_COMMON = BUILTIN + "attention_common_gpu.h"
ATTENTION_FMA = BUILTIN + "attention_fma_gpu.h"
CONV = BUILTIN + "conv_builtin.cu"
NORM = BUILTIN + "layer_norm_builtin.cu"
COPY = BUILTIN + "copy_builtin.cu"
DEQUANT = BUILTIN + "dequant_softmax_builtin.cu"
REDUCE = BUILTIN + "reduce_builtin.cu"
ELEMENTWISE = BUILTIN + "elementwise_builtin.cu"
ROPE = BUILTIN + "rope_builtin.cu"
CEILINGS = "kernels/bench/ceilings_gpu.cu"

# For each kernel: its source, its test, other sources, whether the test needs the host's
# libraries, and a filter for the tests that suffice (fp16 at 32 lanes, bf16 at 64, and plain
# multiply-adds).
KERNELS = {
    "gemm": (GEMM, "tests/simt/gemm_test.cc", (), False, "*/0:*/3:*/4"),
    "attention": (ATTENTION, "tests/simt/attention_test.cc", (), False, "*/0:*/3:*/4"),
    "conv": (CONV, "tests/simt/conv_test.cc", (), False, "*/0:*/1:*/4"),
    "copy": (COPY, "tests/simt/copy_test.cc"),
    "dequant_softmax": (DEQUANT, "tests/simt/dequant_softmax_test.cc", (), True, "*/0:*/3:*/5"),
    "reduce": (REDUCE, "tests/simt/elements_test.cc", (ELEMENTWISE, ROPE), True, "*/2:*/5"),
    "elementwise": (ELEMENTWISE, "tests/simt/elements_test.cc", (REDUCE, ROPE), True, "*/2:*/5"),
    "rope": (ROPE, "tests/simt/elements_test.cc", (REDUCE, ELEMENTWISE), True, "*/2:*/5"),
    "ceilings": (CEILINGS, "tests/simt/ceilings_test.cc"),
}

# Kernel, file, old text (and its occurrence, from 0), new text, what the change breaks.
CHANGES = [
    ("gemm", GEMM, "    SyncBlock();\n", 0, "", "barrier before a stage is read, and another written"),
    ("gemm", GEMM, "Wait<kStages - 2>", 0, "Wait<kStages - 1>", "a stage read before its copies have landed"),
    ("gemm", GEMM, "row < s.m && column < s.n", 0, "row < s.m && column <= s.n", "index past a row of D"),
    ("gemm", GEMM, "row < s.m && column < s.n", 0, "row <= s.m && column < s.n", "index past the last row of D"),
    ("gemm", GEMM, "row < rows ? columns", 0, "row <= rows ? columns", "mask of the rows copied"),
    ("gemm", GEMM, "rest < 8 ? static_cast<int>(rest) : 8", 0, "8", "mask of a row's end"),
    ("gemm", GEMM, "row + low + second", 0, "row + low + upper", "tiles of A exchanged"),
    ("gemm", GEMM, "k + low + second", 0, "k + low + upper", "tiles of B exchanged"),
    ("gemm", GEMM, "v / 2 * 8", 0, "v / 2 * 4", "rows of the product's registers"),
    ("gemm", GEMM, "at % height", 0, "at % kBand", "tiles of the last band"),
    ("gemm", GEMM, "tile.batch * a_stride", 0, "0 * a_stride", "batches of A"),
    ("gemm", GEMM, "row >= s.m", 0, "row > s.m", "index past A"),
    ("gemm", TILE, "    SyncBlock();\n", 0, "", "barrier before the terms are read"),
    ("gemm", TILE, "    SyncBlock();  //", 0, "    //", "barrier before they are written again"),
    ("gemm", TILE, "a_k < depth", 0, "a_k <= depth", "index past the terms"),
    ("gemm", BUILTIN + "epilogue_gpu.h", "row * e.c_ld", 0, "row * e.c_batch_stride", "leading dimension of C"),
    ("dequant_softmax", DEQUANT, "  SyncBlock();  ", 0, "  ", "barrier before a band's logits are read"),
    ("dequant_softmax", DEQUANT, "row < g.m ? In::Load", 0, "row <= g.m ? In::Load", "index past A"),
    ("dequant_softmax", DEQUANT, "column >= g.n", 0, "column > g.n", "index past a row of W"),
    ("dequant_softmax", DEQUANT, "column * g.w_ld + k", 0, "column * g.k + k", "leading dimension of W"),
    ("dequant_softmax", DEQUANT, "row < g.m && column < g.n", 0, "row < g.m && column <= g.n", "index past a row of the logits"),
    ("dequant_softmax", DEQUANT, "g.scale[column]", 0, "g.scale[column0]", "scale of another column"),
    ("dequant_softmax", DEQUANT, "j < g.n", 1, "j < g.n - 1", "last element not summed"),
    ("dequant_softmax", DEQUANT, "row * g.y_ld", 0, "row * g.n", "wrong leading dimension"),
    ("dequant_softmax", DEQUANT, "split.blocks * kTile", 0, "2 * split.blocks * kTile", "tiles of columns left out"),
    ("dequant_softmax", DEQUANT, "row < row0 + kTile && row < g.m", 0, "row < row0 + kTile", "index past the last row"),
    ("attention", ATTENTION, "    SyncBlock();  //", 0, "    //", "barrier before keys are read, values written"),
    ("attention", ATTENTION, "    SyncBlock();  //", 1, "    //", "barrier before values are read, keys written"),
    ("attention", ATTENTION, "    copies.Wait<0>();\n", 0, "", "keys read before their copies have landed"),
    ("attention", ATTENTION, "    copies.Wait<0>();\n", 1, "", "values read before their copies have landed"),
    ("attention", ATTENTION, "key < visible", 0, "key <= visible", "mask of the keys"),
    ("attention", ATTENTION, "mask[key] != 0", 0, "mask[key] == 0", "mask of the problem"),
    ("attention", ATTENTION, "a.mask + query * a.kv_seq", 0, "a.mask + query * a.seq", "index into the mask"),
    ("attention", ATTENTION, "KeyLimit(a, block.query)", 0, "limit", "mask left out along the diagonal"),
    ("attention", ATTENTION, "row < rows ? valid", 0, "row <= rows ? valid", "index past the last row"),
    ("attention", ATTENTION, "ShuffleXor(base[r / 2][r % 2], by)", 0, "ShuffleXor(base[r / 2][r % 2], 1)", "half of a row left out of its maximum"),
    ("attention", ATTENTION, "Fma(row.l, rescale[i][half], ", 0, "(row.l + ", "running sum not rescaled"),
    ("attention", ATTENTION, "*= rescale[i][e / 2]", 0, "*= rescale[i][0]", "output rescaled by another row"),
    ("attention", ATTENTION, "return Ballot(needed) != 0;", 0, "return false;", "output of wide heads not rescaled"),
    ("attention", ATTENTION, "keys + next * kBlockCodes", 0, "keys + stage * kBlockCodes", "index of the stage of keys that is filled"),
    ("attention", ATTENTION, "values + stage * kBlockCodes, out", 0, "values, out", "index of the stage of values that is read"),
    ("attention", ATTENTION, "rows >= kRows && ", 0, "", "mask of a block that is not whole"),
    ("attention", ATTENTION, " && dim == C::kDim", 0, "", "mask of rows that are not whole"),
    ("attention", ATTENTION, "seen |= ShuffleXor(seen, by);", 0, ";", "mask of the keys that other lanes see"),
    ("attention", ATTENTION, "if (!(scale > 0.0F)) ScaleScores", 0, "if (scale == 0.0F) ScaleScores", "scale below 0 taken for 1"),
    ("attention", ATTENTION, "column < static_cast<int>(a.dim)", 0, "column <= static_cast<int>(a.dim)", "index past a row of O"),
    ("attention", ATTENTION_COMMON, "query + 1 + a.kv_seq", 0, "query + a.kv_seq", "causal mask"),
    ("attention", ATTENTION_FMA, "    SyncBlock();\n", 0, "", "barrier before keys are read"),
    ("attention", ATTENTION_FMA, "    SyncBlock();\n", 1, "", "barrier before values are read"),
    ("attention", ATTENTION_FMA, "    SyncBlock();  //", 0, "    //", "barrier before values are written over"),
    ("attention", ATTENTION_FMA, "    SyncBlock();  //", 1, "    //", "barrier before keys are written over"),
    ("attention", ATTENTION_FMA, "e / dim < rows", 0, "e / dim <= rows", "index past the last row"),
    ("layer_norm", NORM, "at < packs", 0, "at <= packs", "index past a row that is kept"),
    ("layer_norm", NORM, "at < packs", 2, "true", "mask of the kept elements"),
    ("layer_norm", NORM, "at < packs", 3, "at <= packs", "index past a kept row written"),
    ("layer_norm", NORM, "at * kPack + e", 0, "at * kPack", "index into the weights of a kept row"),
    ("layer_norm", NORM, "r.x, r.weight, r.bias, r.y", 0, "r.x, r.y", "weights that lie anywhere read as packs"),
    ("layer_norm", NORM, "at * kPack + e", 1, "at * kPack", "index into the biases of a kept row"),
    ("conv", CONV, "i >= c.input[d]", 0, "i > c.input[d]", "mask of the padding behind"),
    ("conv", CONV, "i < 0 || ", 0, "", "mask of the padding before"),
    ("conv", CONV, "pixel >= g.out_pixels", 0, "pixel > g.out_pixels", "index past an image"),
    ("conv", CONV, "filter0 + i >= g.group_filters", 0, "filter0 + i > g.group_filters", "index past the filters"),
    ("conv", CONV, "group * g.group_channels +", 0, "", "channels of a group"),
    ("conv", TILE, "    SyncBlock();\n", 0, "", "barrier before the terms are read"),
    ("copy", COPY, "first + i * kThreads < pieces", 0, "first + i * kThreads <= pieces", "index past what is read"),
    ("copy", COPY, "first + i * kThreads < pieces", 1, "first + i * kThreads <= pieces", "index past what is written"),
    ("copy", COPY, "first < kBytes && ", 0, "first + 2 < kBytes && ", "mask of the last bytes"),
    ("reduce", REDUCE, "l < length", 0, "l <= length", "index past a row"),
    ("reduce", REDUCE, "l < length", 1, "l < length - 1", "mask of the last element"),
    ("reduce", REDUCE, "v > largest ||", 0, "v >= largest ||", "mask of the elements that tie"),
    ("reduce", REDUCE, "Ties(largest, most)", 0, "true", "mask of the threads without the largest"),
    ("reduce", REDUCE, "at >= j.shape.outer * j.shape.inner", 0, "at > j.shape.outer * j.shape.inner", "index past the outputs"),
    ("reduce", REDUCE, "x[l * j.ld]", 0, "x[l * j.shape.inner]", "leading dimension"),
    ("elementwise", ELEMENTWISE, "col >= e.cols", 0, "col > e.cols", "index past a row"),
    ("elementwise", ELEMENTWISE, "row * e.b_ld", 0, "row * e.a_ld", "row of b"),
    ("elementwise", ELEMENTWISE, "a < 0.0F ? e : 1.0F", 0, "1.0F", "mask of the negative numbers"),
    ("rope", ROPE, "pair >= r.dim / 2", 0, "pair > r.dim / 2", "index past the pairs"),
    ("rope", ROPE, "row / r.heads % r.seq", 0, "row % r.seq", "index of the position"),
    ("rope", ROPE, "to + at.distance", 0, "to + 1", "index of the second element"),
    ("ceilings", CEILINGS, "AccessOf(i) < count", 0, "AccessOf(i) <= count", "index past what is copied"),
    ("ceilings", CEILINGS, "AccessOf(i) < count", 3, "AccessOf(i) < count - 1", "mask of the last sum"),
    ("ceilings", CEILINGS, "access < count", 0, "access <= count", "index past what is read"),
    ("ceilings", CEILINGS, "if (Lane() == 0) Atomic", 0, "if (Thread().x == 0) Atomic", "mask of the adding lanes"),
]
