// What is usually wrong with an attention kernel.
#include <algorithm>
#include <numbers>
#include <string_view>
#include <utility>
#include <variant>

#include "kernels/numerics/convert.h"
#include "kernels/ops/attention/attention_suspects.h"
#include "kernels/ops/case.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

// Whether query sees key, as a faulty kernel has it.
using Sees = std::function<bool(std::int64_t query, std::int64_t key)>;

// The case without its own masks, and `sees` for a mask; where the case has a mask of
// its own, both must let a key through.
Suspect Masked(const Scene& scene, const Sees& sees, std::string reads_as, std::string next_step) {
  Case c = scene.c;
  auto& p = std::get<AttentionProblem>(c.problem);
  const bool own = p.masked();
  p.causal = false;
  p.mask_density = 0.5;  // so that there is a mask to read
  const std::int64_t keys = p.KvSeq();
  auto read = [&scene, keys, own, sees](std::string_view name, std::int64_t begin,
                                        std::int64_t count, double* out) {
    if (name != "mask") return false;
    if (own) scene.inputs.Read(3, begin, count, out);
    for (std::int64_t i = 0; i < count; ++i) {
      const bool open = !own || out[i] != 0.0;
      out[i] = open && sees((begin + i) / keys, (begin + i) % keys) ? 1.0 : 0.0;
    }
    return true;
  };
  return AlteredCase(scene, std::move(c), std::move(read), std::move(reads_as),
                     std::move(next_step));
}

// The suspects of one case, in the order in which they are tried.
class AttentionSuspectList {
 public:
  explicit AttentionSuspectList(const Scene& scene)
      : scene_(scene), p_(std::get<AttentionProblem>(scene.c.problem)) {}

  void AddMasks() {
    if (p_.causal) {
      AddCausalMasks();
    } else {
      Altered([](AttentionProblem& a) { a.causal = true; },
              "a causal mask is applied though none was asked for",
              "look at what the kernel takes for its causal flag");
    }
    if (!p_.masked()) return;
    Altered([](AttentionProblem& a) { a.mask_density = 0; }, "the boolean mask is not applied",
            "look at where the mask is read: [seq, kv_seq], 1 keeps a key");
    Altered([](AttentionProblem&) {}, "the boolean mask is inverted: 1 is taken for hidden",
            "1 keeps a key, 0 hides it",
            [&scene = scene_](std::string_view name, std::int64_t begin, std::int64_t count,
                              double* out) {
              if (name != "mask") return false;
              scene.inputs.Read(3, begin, count, out);
              for (std::int64_t i = 0; i < count; ++i) out[i] = out[i] == 0.0 ? 1.0 : 0.0;
              return true;
            });
  }

  void AddHeads() {
    if (p_.KvHeads() == p_.heads || p_.KvHeads() == 1) return;
    Altered(
        [](AttentionProblem& a) { a.kv_heads = a.heads; },
        "query head h reads key and value head h mod kv_heads, not h / (heads / kv_heads)",
        "look at the mapping of heads: heads / kv_heads neighbours share one key and value head",
        [&scene = scene_, &p = p_](std::string_view name, std::int64_t begin, std::int64_t count,
                                   double* out) {
          if (name != "k" && name != "v") return false;
          const std::int64_t head_size = p.KvSeq() * p.dim;
          for (std::int64_t done = 0; done < count;) {
            const std::int64_t at = begin + done;
            const std::int64_t head = at / head_size;
            const std::int64_t from = head / p.heads * p.KvHeads() + head % p.heads % p.KvHeads();
            const std::int64_t n = std::min(count - done, head_size - at % head_size);
            scene.inputs.Read(name == "k" ? 1 : 2, from * head_size + at % head_size, n,
                              out + done);
            done += n;
          }
          return true;
        });
  }

  void AddScales() {
    const double scale = p_.Scale(scene_.c.dtype);
    for (const auto& [other, what] : {std::pair{1.0, "the scores are not scaled"},
                                      std::pair{1.0 / static_cast<double>(p_.dim),
                                                "the scores are scaled by 1/dim, not 1/√dim"},
                                      std::pair{scale * scale, "the scores are scaled twice"}}) {
      if (other == scale) continue;
      Altered([other = other](AttentionProblem& a) { a.scale = other; }, what,
              "look at where the scores are multiplied by the scale: once, before the softmax");
    }
    if (Info(scene_.c.dtype).storage_bits == 16) {
      AddRoundedQ(scale, "the scale");
      AddRoundedQ(scale * std::numbers::log2e, "scale·log2(e)");
    }
    const std::pair<double AttentionProblem::*, std::string_view> scales[] = {
        {&AttentionProblem::scale_q, "Q"},
        {&AttentionProblem::scale_k, "K"},
        {&AttentionProblem::scale_v, "V"}};
    for (const auto& [field, name] : scales) {
      if (p_.*field == 1.0) continue;
      Altered([field = field](AttentionProblem& a) { a.*field = 1.0; },
              Cat(name, "'s scale is left out"),
              Cat("multiply ", name, "'s stored values by their scale"));
    }
  }

  void AddRoundedSoftmax() {
    for (Suspect& rounded : RoundedSoftmaxSuspects(scene_)) list_.push_back(std::move(rounded));
  }

  void AddOnlineSoftmax() {
    for (Suspect& online : OnlineSoftmaxSuspects(scene_)) list_.push_back(std::move(online));
  }

  void AddTails() {
    const std::int64_t keys = p_.KvSeq();
    for (const std::int64_t tile : {1, 8, 16, 32, 64, 128}) {
      const std::int64_t tail = keys % tile == 0 ? tile : keys % tile;
      if (tail >= keys || (tile > 1 && tail == 1)) continue;
      list_.push_back(Masked(
          scene_,
          [=, causal = p_.causal, shift = Shift()](std::int64_t i, std::int64_t j) {
            return j < keys - tail && (!causal || j <= i + shift);
          },
          Cat("the last ", tail == 1 ? "key is" : Cat(tail, " keys are"), " left out"),
          "look at the bounds of the loop over keys: its last tile, and its remainder"));
    }
  }

  std::vector<Suspect> Take() { return std::move(list_); }

 private:
  // Causal: query i sees key j where j <= i + Shift().
  std::int64_t Shift() const { return p_.KvSeq() - p_.seq; }

  template <typename Change>
  void Altered(Change change, std::string reads_as, std::string next_step,
               AlteredInputs::Reader read = nullptr) {
    list_.push_back(AlteredProblem<AttentionProblem>(scene_, change, std::move(reads_as),
                                                     std::move(next_step), std::move(read)));
  }

  void AddCausalMasks() {
    const std::string comparison =
        "look at the causal mask's comparison: query i sees key j where "
        "j <= i + kv_seq - seq, the diagonal included";
    const std::int64_t shift = Shift();
    list_.push_back(Masked(
        scene_, [=](std::int64_t i, std::int64_t j) { return j <= i + shift + 1; },
        "the causal mask lets one key too many through: off by one to the right", comparison));
    list_.push_back(Masked(
        scene_, [=](std::int64_t i, std::int64_t j) { return j <= i + shift - 1; },
        "the causal mask hides the diagonal key: off by one to the left", comparison));
    if (shift != 0) {
      list_.push_back(Masked(
          scene_, [=](std::int64_t i, std::int64_t j) { return j <= i; },
          "the causal mask is aligned to the first query, not to the last", comparison));
    }
    Altered([](AttentionProblem& a) { a.causal = false; }, "the causal mask is not applied",
            "look at where the mask is applied: before the maximum is taken");
  }

  // Q is multiplied by `factor` and rounded to its own format before the product.
  void AddRoundedQ(double factor, std::string_view what) {
    const std::string_view format = Name(scene_.c.dtype);
    Altered([](AttentionProblem&) {}, Cat("Q times ", what, " is rounded to ", format),
            Cat("multiply the scores in fp32; or, if it is meant so, declare it: "
                "--intermediate-dtype ",
                format),
            [&scene = scene_, factor](std::string_view name, std::int64_t begin, std::int64_t count,
                                      double* out) {
              if (name != "q") return false;
              scene.inputs.Read(0, begin, count, out);
              std::transform(out, out + count, out, [&](double q) {
                return Quantise(q * factor, scene.c.dtype) / factor;
              });
              return true;
            });
  }

  const Scene& scene_;
  const AttentionProblem& p_;
  std::vector<Suspect> list_;
};

}  // namespace

std::vector<Suspect> AttentionSuspects(const Scene& scene) {
  AttentionSuspectList suspects(scene);
  suspects.AddMasks();
  suspects.AddHeads();
  suspects.AddScales();
  suspects.AddRoundedSoftmax();
  suspects.AddOnlineSoftmax();
  suspects.AddTails();
  return suspects.Take();
}

}  // namespace assay::kernels
