// attention, composed of oneDNN's matmul, binary add, softmax and matmul, as a framework without a
// fused kernel does it:
//
//   S = scale·Q·Kᵀ (fp32),  S += mask (0 or −inf),  P = softmax(S),  O = P·V
//
// P is rounded once to the inputs' format, by a reorder. The library's own softmax to a 16-bit
// format keeps exp in that format before it divides, and so rounds twice. The scores of all heads
// do not fit at once, so the work is done in blocks. A block is several kv heads with all their
// queries, if that is small, or some rows of one query head. Query heads that share a kv head lie
// one after the other, so grouped queries are additional rows of one product.
#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "kernels/providers/onednn/onednn.h"
#include "kernels/providers/onednn/primitives.h"
#include "kernels/providers/refusals.h"
#include "kernels/runtime/cpu/parallel.h"

namespace assay::inline kernels {
namespace {

using dnnl::memory;
using onednn::Desc;
using onednn::Dims;
using onednn::Step;

// Scores of a block: 32 MiB of fp32, about a last-level cache.
constexpr std::int64_t kBlockScores = std::int64_t{8} << 20;

// How the work is split. A unit is one entry of a batched product: a kv head with the queries of
// its group, or, if `by_rows`, some queries of one query head.
struct Blocking {
  bool by_rows = false;
  std::int64_t units = 0;       // in all
  std::int64_t unit_block = 1;  // units of a product
  std::int64_t row_block = 0;   // queries of a head in a product
};

Blocking Split(const AttentionProblem& p) {
  const std::int64_t group = p.heads / p.KvHeads();
  const std::int64_t head_scores = SaturatingMul(p.seq, p.KvSeq());
  const std::int64_t unit_scores = SaturatingMul(group, head_scores);
  Blocking b;
  b.by_rows = unit_scores > kBlockScores;
  if (b.by_rows) {
    b.units = p.batch * p.heads;
    b.row_block = std::clamp<std::int64_t>(kBlockScores / p.KvSeq(), 1, p.seq);
  } else {
    b.units = p.batch * p.KvHeads();
    b.unit_block = std::clamp<std::int64_t>(kBlockScores / unit_scores, 1, b.units);
    b.row_block = p.seq;
  }
  return b;
}

Desc Dense3(memory::data_type type, std::int64_t batch, std::int64_t rows, std::int64_t cols) {
  return Desc({batch, rows, cols}, type, Dims{rows * cols, cols, 1});
}

// The primitives for blocks of one size.
struct Stage {
  std::int64_t units;
  std::int64_t rows;  // of a head
  Step scores;
  std::optional<Step> mask;
  Step softmax;
  std::optional<Step> round;  // P to a 16-bit format
  Step values;
};

struct Formats {
  DType in_dtype, out_dtype;
  memory::data_type in, out;
};

Step Matmul(const std::string& key, const Desc& a, const Desc& w, const Desc& d, float scale) {
  Step step(onednn::Compile(key, [&] {
    dnnl::primitive_attr attr = onednn::UserScratchpad();
    if (scale != 1.0F) attr.set_output_scales(0, {scale});
    return onednn::Finish<dnnl::matmul>(
        dnnl::matmul::primitive_desc(dnnl::matmul::desc(a, w, d), attr, onednn::CpuEngine()));
  }));
  step.Bind(DNNL_ARG_SRC, a);
  step.Bind(DNNL_ARG_WEIGHTS, w);
  step.Bind(DNNL_ARG_DST, d);
  return step;
}

// In place, over the last axis.
Step Softmax(const std::string& key, const Desc& s) {
  Step step(onednn::Compile(key, [&] {
    return onednn::Finish<dnnl::softmax_v2_forward>(dnnl::softmax_v2_forward::primitive_desc(
        dnnl::softmax_v2_forward::desc(dnnl::prop_kind::forward_inference,
                                       dnnl::algorithm::softmax_accurate, s, s,
                                       /*softmax_axis=*/2),
        onednn::UserScratchpad(), onednn::CpuEngine()));
  }));
  step.Bind(DNNL_ARG_SRC, s);
  step.Bind(DNNL_ARG_DST, s);
  return step;
}

Step Round(const std::string& key, const Desc& from, const Desc& to) {
  Step step(onednn::Compile(key, [&] {
    return onednn::Finish<dnnl::reorder>(dnnl::reorder::primitive_desc(
        onednn::CpuEngine(), from, onednn::CpuEngine(), to, onednn::UserScratchpad()));
  }));
  step.Bind(DNNL_ARG_FROM, from);
  step.Bind(DNNL_ARG_TO, to);
  return step;
}

// In place; the mask is the same for all heads.
Step AddMask(const std::string& key, const Desc& heads, const Desc& mask) {
  Step step(onednn::Compile(key, [&] {
    return onednn::Finish<dnnl::binary>(dnnl::binary::primitive_desc(
        dnnl::binary::desc(dnnl::algorithm::binary_add, heads, mask, heads),
        onednn::UserScratchpad(), onednn::CpuEngine()));
  }));
  step.Bind(DNNL_ARG_SRC_0, heads);
  step.Bind(DNNL_ARG_SRC_1, mask);
  step.Bind(DNNL_ARG_DST, heads);
  return step;
}

Stage MakeStage(const AttentionProblem& p, const Blocking& b, const Formats& f, std::int64_t units,
                std::int64_t rows) {
  const std::int64_t group = b.by_rows ? 1 : p.heads / p.KvHeads();
  const std::int64_t keys = p.KvSeq();
  const std::int64_t queries = group * rows;
  constexpr auto kF32 = memory::data_type::f32;
  const auto score_scale = static_cast<float>(p.Scale(f.in_dtype));
  const std::string key =
      Cat("attention;", Name(f.in_dtype), ",", Name(f.out_dtype), ";", units, ",", group, ",", rows,
          ",", keys, ",", p.dim, ",", onednn::Bits(score_scale));

  const Desc q = Dense3(f.in, units, queries, p.dim);
  const Desc k_t({units, p.dim, keys}, f.in, Dims{keys * p.dim, 1, p.dim});
  const Desc v = Dense3(f.in, units, keys, p.dim);
  const Desc s = Dense3(kF32, units, queries, keys);
  const Desc prob = Dense3(f.in, units, queries, keys);
  const Desc o = Dense3(f.out, units, queries, p.dim);

  Stage stage{.units = units,
              .rows = rows,
              .scores = Matmul(key + " scores", q, k_t, s, score_scale),
              .mask = std::nullopt,
              .softmax = Softmax(key + " softmax", s),
              .round = std::nullopt,
              .values = Matmul(key + " values", prob, v, o, 1.0F)};
  if (f.in != kF32) stage.round = Round(key + " round", s, prob);
  if (p.causal || p.masked()) {
    stage.mask = AddMask(key + " mask", Dense3(kF32, units * group, rows, keys),
                         Dense3(kF32, 1, rows, keys));
  }
  return stage;
}

class AttentionKernel : public Kernel {
 public:
  AttentionKernel(const AttentionProblem& p, const Formats& f)
      : p_(p), formats_(f), blocking_(Split(p)) {}

  // Makes the primitives and allocates the workspace. May throw dnnl::error.
  absl::Status Prepare(Device& device) {
    stages_.push_back(
        MakeStage(p_, blocking_, formats_, blocking_.unit_block, blocking_.row_block));
    // The rest at the end of the units or of the rows, never of both.
    const std::int64_t units_left = blocking_.units % blocking_.unit_block;
    const std::int64_t rows_left = p_.seq % blocking_.row_block;
    if (units_left > 0) {
      stages_.push_back(MakeStage(p_, blocking_, formats_, units_left, blocking_.row_block));
    }
    if (rows_left > 0) stages_.push_back(MakeStage(p_, blocking_, formats_, 1, rows_left));

    const std::int64_t group = blocking_.by_rows ? 1 : p_.heads / p_.KvHeads();
    const std::int64_t block =
        blocking_.unit_block * group * blocking_.row_block * p_.KvSeq();  // scores
    const auto scores = device.arena().Allocate(StorageBytes(DType::kF32, block), false);
    if (!scores.ok()) return scores.status();
    void* probabilities = scores->data;  // fp32: in place
    if (formats_.in_dtype != DType::kF32) {
      const auto p_block = device.arena().Allocate(StorageBytes(formats_.in_dtype, block), false);
      if (!p_block.ok()) return p_block.status();
      probabilities = p_block->data;
    }
    if (p_.causal || p_.masked()) {
      const auto mask = device.arena().Allocate(
          StorageBytes(DType::kF32, blocking_.row_block * p_.KvSeq()), false);
      if (!mask.ok()) return mask.status();
      mask_ = static_cast<float*>(mask->data);
      empty_row_.resize(static_cast<std::size_t>(blocking_.row_block));
    }
    std::vector<Step*> steps;
    for (Stage& s : stages_) {
      s.scores.Set(DNNL_ARG_DST, scores->data);
      s.softmax.Set(DNNL_ARG_SRC, scores->data);
      s.softmax.Set(DNNL_ARG_DST, scores->data);
      if (s.round.has_value()) {
        s.round->Set(DNNL_ARG_FROM, scores->data);
        s.round->Set(DNNL_ARG_TO, probabilities);
        steps.push_back(&*s.round);
      }
      s.values.Set(DNNL_ARG_SRC, probabilities);
      if (s.mask.has_value()) {
        s.mask->Set(DNNL_ARG_SRC_0, scores->data);
        s.mask->Set(DNNL_ARG_SRC_1, mask_);
        s.mask->Set(DNNL_ARG_DST, scores->data);
        steps.push_back(&*s.mask);
      }
      steps.insert(steps.end(), {&s.scores, &s.softmax, &s.values});
    }
    return onednn::AllocateScratchpad(device, steps);
  }

  absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) override {
    return onednn::Guarded("attention", [&] {
      for (std::int64_t row = 0; row < p_.seq; row += blocking_.row_block) {
        const std::int64_t rows = std::min(blocking_.row_block, p_.seq - row);
        if (mask_ != nullptr) {
          WriteMask(p_.masked() ? inputs[3].as<const std::int8_t>() : nullptr, row, rows);
        }
        for (std::int64_t unit = 0; unit < blocking_.units; unit += blocking_.unit_block) {
          const std::int64_t units = std::min(blocking_.unit_block, blocking_.units - unit);
          for (Stage& s : stages_) {
            if (s.rows == rows && s.units == units) {
              RunBlock(s, unit, row, inputs, output);
              break;
            }
          }
        }
      }
      return absl::OkStatus();
    });
  }

  bool flushes_subnormals() const override { return onednn::FlushesSubnormals(formats_.in_dtype); }

  std::string implementation() const override {
    const Stage& s = stages_.front();
    return Cat("matmul ", s.scores.compiled().implementation, ", softmax ",
               s.softmax.compiled().implementation, ", matmul ",
               s.values.compiled().implementation);
  }

 private:
  void RunBlock(Stage& s, std::int64_t unit, std::int64_t row, std::span<const TensorView> inputs,
                const TensorView& output) {
    const std::int64_t group = p_.heads / p_.KvHeads();
    const std::int64_t query =
        blocking_.by_rows ? unit * p_.seq + row : unit * group * p_.seq;  // first, of all heads
    const std::int64_t kv_head = blocking_.by_rows ? unit / group : unit;
    const auto at = [&](const TensorView& v, std::int64_t first_row) {
      return v.as<char>() + StorageBytes(v.dtype, first_row * p_.dim);
    };
    s.scores.Set(DNNL_ARG_SRC, at(inputs[0], query));
    s.scores.Set(DNNL_ARG_WEIGHTS, at(inputs[1], kv_head * p_.KvSeq()));
    s.values.Set(DNNL_ARG_WEIGHTS, at(inputs[2], kv_head * p_.KvSeq()));
    s.values.Set(DNNL_ARG_DST, at(output, query));
    s.scores.Run();
    if (s.mask.has_value()) s.mask->Run();
    s.softmax.Run();
    if (s.round.has_value()) s.round->Run();
    s.values.Run();
    if (mask_ == nullptr || p_.masked_rows != "zero") return;
    // The softmax of a row of −inf is NaN. If the policy of the case is zero, the row is
    // overwritten.
    const std::int64_t heads = blocking_.by_rows ? 1 : s.units * group;
    const auto row_bytes = static_cast<std::size_t>(StorageBytes(output.dtype, p_.dim));
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t r = 0; r < s.rows; ++r) {
        if (empty_row_[static_cast<std::size_t>(r)] != 0) {
          std::memset(at(output, query + h * s.rows + r), 0, row_bytes);
        }
      }
    }
  }

  // Writes rows [row, row + rows) of the mask that is added to the scores, and notes rows without a
  // key.
  void WriteMask(const std::int8_t* keep, std::int64_t row, std::int64_t rows) {
    const std::int64_t keys = p_.KvSeq();
    ParallelFor(rows, 8, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        const std::int64_t query = row + r;
        const std::int64_t visible =
            p_.causal ? std::clamp<std::int64_t>(query + keys - p_.seq + 1, 0, keys) : keys;
        float* out = mask_ + r * keys;
        bool empty = true;
        for (std::int64_t j = 0; j < keys; ++j) {
          const bool sees = j < visible && (keep == nullptr || keep[query * keys + j] != 0);
          out[j] = sees ? 0.0F : -std::numeric_limits<float>::infinity();
          empty = empty && !sees;
        }
        empty_row_[static_cast<std::size_t>(r)] = empty ? 1 : 0;
      }
    });
  }

  AttentionProblem p_;
  Formats formats_;
  Blocking blocking_;
  std::vector<Stage> stages_;
  float* mask_ = nullptr;        // [row_block, keys]
  std::vector<char> empty_row_;  // [row_block]
};

absl::StatusOr<std::unique_ptr<Kernel>> Make(const Case& c, const Plan& plan, Device& device) {
  const auto& p = std::get<AttentionProblem>(c.problem);
  if (absl::Status s = RefuseAttentionScales(p, "oneDNN attention"); !s.ok()) return s;
  const DType in = plan.inputs[0].dtype;
  const DType out = plan.output.dtype;
  const auto in_type = onednn::TypeOf(in);
  const auto out_type = onednn::TypeOf(out);
  if (!in_type.ok()) return in_type.status();
  if (!out_type.ok()) return out_type.status();
  if (in == DType::kI8) {
    return absl::UnimplementedError(Cat("oneDNN ", onednn::Version(), " has no softmax to int8"));
  }
  return onednn::Guarded(
      Cat(Name(in), " attention to ", Name(out)), [&]() -> absl::StatusOr<std::unique_ptr<Kernel>> {
        auto kernel = std::make_unique<AttentionKernel>(p, Formats{in, out, *in_type, *out_type});
        const absl::Status status = kernel->Prepare(device);
        if (!status.ok()) return status;
        return kernel;
      });
}

}  // namespace

KernelEntry OnednnAttention() {
  return onednn::Entry("attention", {DType::kF32, DType::kBF16}, &Make);
}

}  // namespace assay::kernels
