// attention with an online softmax, correct except for one defect; see the table.
//
// A tile of queries processes the keys in tiles. m is the running maximum of each query's scores, l
// its running sum, and o its running output. When m grows, l and o are rescaled by exp(m − new m).
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "kernels/ops/common/load.h"
#include "kernels/providers/planted/defect.h"
#include "kernels/providers/planted/factories.h"
#include "kernels/providers/planted/site.h"
#include "kernels/runtime/cpu/parallel.h"

namespace assay::inline kernels::planted {
namespace {

constexpr std::string_view kNames[] = {
    // Masks, maxima, tiles.
    "mask-off-by-one", "mask-one-short", "no-max", "missing-rescale", "missing-rescale-of-sum",
    "wrong-axis", "wrong-head", "dropped-tile", "stale-tile", "duplicated-tile",
    // Scale and precision.
    "scale-off", "scale-off-1e-3", "scale-off-1e-4", "p-in-fp16", "sum-in-fp16", "output-in-fp16",
    "tf32-values", "output-through-bf16",
    // The output.
    "no-divide", "nan-in-tail", "zero-output"};
using Defect = NamedDefect<kNames>;
constexpr Alias<Defect> kAliases[] = {
    {"long-scale-off-1e-3", "scale-off-1e-3"},
    {"long-scale-off-1e-4", "scale-off-1e-4"},
    {"long-p-in-fp16", "p-in-fp16"},
    {"16-bit-scale-off-1e-3", "scale-off-1e-3"},
};

constexpr std::int64_t kQueries = 32;  // in a tile
constexpr std::int64_t kKeys = 16;     // in a tile
constexpr double kScaleError = 1.01;   // factors of the scale
constexpr double kSmallScaleError = 1.001;
constexpr double kLeastScaleError = 1.0001;

enum SiteDraw : std::uint32_t { kTileDraw };

// T is the type of scores and sums.
template <class T>
class AttentionKernel : public Kernel {
 public:
  AttentionKernel(const AttentionProblem& p, DType dtype, Defect defect, const Site& site)
      : p_(p),
        defect_(defect),
        scale_(Scalar(p.Scale(dtype)) * Scalar(p.scale_q) * Scalar(p.scale_k)),
        // Not the first tile, because no tile before it can replace it.
        tile_(1 + site.Draw(kTileDraw, std::max<std::int64_t>(1, KeyTiles() - 1))) {
    if (defect == "scale-off") scale_ *= static_cast<T>(kScaleError);
    if (defect == "scale-off-1e-3") scale_ *= static_cast<T>(kSmallScaleError);
    if (defect == "scale-off-1e-4") scale_ *= static_cast<T>(kLeastScaleError);
  }

  absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) override {
    const std::int64_t tiles = (p_.seq + kQueries - 1) / kQueries;
    ParallelFor(p_.batch * p_.heads, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t head = begin; head < end; ++head) {
        const Head h(*this, head, inputs);
        for (std::int64_t t = 0; t < tiles; ++t) h.Tile(t * kQueries, output);
      }
    });
    return absl::OkStatus();
  }

 private:
  // One head of the output, with its operands as T.
  class Head {
   public:
    Head(const AttentionKernel& kernel, std::int64_t head, std::span<const TensorView> inputs)
        : k_(kernel), p_(kernel.p_), head_(head), inputs_(inputs) {
      const std::int64_t group = p_.heads / p_.KvHeads();
      std::int64_t kv = head / group;
      if (k_.Is("wrong-head")) {
        kv = head / p_.heads * p_.KvHeads() + head % p_.heads % p_.KvHeads();
      }
      query_ = Load(inputs[0], head);
      key_ = InTiles(Load(inputs[1], kv));
      value_ = Load(inputs[2], kv);
      if (k_.Is("tf32-values")) {
        for (T& v : value_) v = static_cast<T>(Quantise(static_cast<double>(v), DType::kTF32));
      }
    }

    void Tile(std::int64_t first, const TensorView& output) const {
      const std::int64_t rows = std::min(kQueries, p_.seq - first);
      State s(rows, p_.dim);
      if (k_.Is("no-max")) std::fill(s.m.begin(), s.m.end(), T{0});
      for (std::int64_t tile = 0; tile < k_.KeyTiles(); ++tile) {
        if (tile == k_.tile_ && k_.Is("dropped-tile")) continue;
        Keys(first, tile, s);
        if (tile == k_.tile_ && k_.Is("duplicated-tile")) Keys(first, tile, s);
      }
      for (std::int64_t r = 0; r < rows; ++r) Finish(first + r, r, s, output);
    }

   private:
    struct State {
      State(std::int64_t rows_in, std::int64_t dim)
          : rows(rows_in),
            m(Size(rows), -std::numeric_limits<T>::infinity()),
            l(Size(rows), T{0}),
            rescale(Size(rows), T{1}),
            p(Size(rows * kKeys), T{0}),
            o(Size(rows * dim), T{0}) {}

      std::int64_t rows;
      std::vector<T> m, l, rescale;
      std::vector<T> p;  // [rows, kKeys]
      std::vector<T> o;  // [rows, dim]
    };

    static std::size_t Size(std::int64_t n) { return static_cast<std::size_t>(n); }

    static std::vector<T> Load(const TensorView& v, std::int64_t head) {
      const Extents& x = v.extents;
      std::vector<T> out(Size(x.rows * x.cols));
      std::vector<double> line(Size(x.cols));
      for (std::int64_t r = 0; r < x.rows; ++r) {
        LoadDoubles(v.dtype, v.data, head * x.batch_stride + r * x.ld, x.cols, line.data());
        std::transform(line.begin(), line.end(), &out[Size(r * x.cols)], &Scalar);
      }
      return out;
    }

    // [tiles, dim, kKeys], so that the scores of a tile are summed side by side.
    std::vector<T> InTiles(const std::vector<T>& keys) const {
      std::vector<T> tiles(Size(k_.KeyTiles() * p_.dim * kKeys));
      for (std::int64_t key = 0; key < p_.KvSeq(); ++key) {
        T* to = &tiles[Size(key / kKeys * p_.dim * kKeys + key % kKeys)];
        for (std::int64_t d = 0; d < p_.dim; ++d) to[d * kKeys] = keys[Size(key * p_.dim + d)];
      }
      return tiles;
    }

    bool Sees(std::int64_t query, std::int64_t key) const {
      std::int64_t last = query + p_.KvSeq() - p_.seq;
      if (k_.Is("mask-off-by-one")) ++last;
      if (k_.Is("mask-one-short")) --last;
      if (p_.causal && key > last) return false;
      return !p_.masked() || Get(inputs_[3], query * p_.KvSeq() + key) != 0.0;
    }

    // q·k of all keys of a tile, which are 0 beyond the last key.
    void Dots(std::int64_t query, std::int64_t tile, T* dots) const {
      const T* q = &query_[Size(query * p_.dim)];
      const T* k = &key_[Size(tile * p_.dim * kKeys)];
      T sums[kKeys] = {};
      for (std::int64_t d = 0; d < p_.dim; ++d) {
        for (std::int64_t j = 0; j < kKeys; ++j) sums[j] += q[d] * k[d * kKeys + j];
      }
      std::copy_n(sums, kKeys, dots);
    }

    // Adds one tile of keys to one tile of queries.
    void Keys(std::int64_t first, std::int64_t tile, State& s) const {
      const std::int64_t key = tile * kKeys;
      const std::int64_t count = std::min(kKeys, p_.KvSeq() - key);
      for (std::int64_t r = 0; r < s.rows; ++r) Scores(first + r, key, count, r, s);
      for (std::int64_t r = 0; r < s.rows; ++r) Add(tile, count, r, s);
    }

    // Computes P of a row, its maximum and its sum. o must then be multiplied by rescale[r].
    void Scores(std::int64_t query, std::int64_t key, std::int64_t count, std::int64_t r,
                State& s) const {
      constexpr T kNone = -std::numeric_limits<T>::infinity();
      T* p = &s.p[Size(r * kKeys)];
      T& m = s.m[Size(r)];
      T& l = s.l[Size(r)];
      T& rescale = s.rescale[Size(r)];
      T most = kNone;
      Dots(query, key / kKeys, p);
      for (std::int64_t j = 0; j < kKeys; ++j) {
        const bool sees = j < count && Sees(query, key + j);
        p[j] = sees ? p[j] * k_.scale_ : kNone;
        most = std::max(most, p[j]);
      }
      rescale = T{1};
      if (most == kNone) {
        std::fill(p, p + kKeys, T{0});
        return;
      }
      if (!k_.Is("no-max") && most > m) {
        rescale = std::exp(m - most);
        if (!k_.Is("missing-rescale-of-sum")) l *= rescale;
        m = most;
      }
      for (std::int64_t j = 0; j < kKeys; ++j) {
        p[j] = std::exp(p[j] - m);
        l += p[j];
        if (k_.Is("sum-in-fp16")) l = ToHalf(l);
      }
    }

    // o = rescale·o + P·V.
    void Add(std::int64_t tile, std::int64_t count, std::int64_t r, State& s) const {
      T* o = &s.o[Size(r * p_.dim)];
      if (!k_.Is("missing-rescale")) {
        for (std::int64_t d = 0; d < p_.dim; ++d) {
          // The defect wrong-axis takes the factor of the query that has the column's number.
          o[d] *= s.rescale[Size(k_.Is("wrong-axis") ? d % s.rows : r)];
        }
      }
      const bool stale = tile == k_.tile_ && k_.Is("stale-tile");
      const std::int64_t from = (stale ? tile - 1 : tile) * kKeys;
      for (std::int64_t j = 0; j < count; ++j) {
        const T p = Weight(s.p[Size(r * kKeys + j)]);
        const T* v = &value_[Size((from + j) * p_.dim)];
        if (k_.Is("output-in-fp16")) {
          for (std::int64_t d = 0; d < p_.dim; ++d) o[d] = ToHalf(o[d] + p * v[d]);
        } else {
          AddTimes(p, v, p_.dim, o);
        }
      }
      if (k_.Is("nan-in-tail") && count < kKeys) {
        // The P of lanes beyond the last key is 0, but the memory in V's place is not.
        const T p = s.p[Size(r * kKeys + count)];
        for (std::int64_t d = 0; d < p_.dim; ++d) o[d] += p * std::numeric_limits<T>::quiet_NaN();
      }
    }

    // o += p·v, several elements at once.
    static void AddTimes(T p, const T* v, std::int64_t n, T* o) {
      constexpr std::int64_t kTogether = 8;
      std::int64_t d = 0;
      for (; d + kTogether <= n; d += kTogether) {
        T sums[kTogether];
        for (std::int64_t i = 0; i < kTogether; ++i) sums[i] = o[d + i] + p * v[d + i];
        std::copy_n(sums, kTogether, o + d);
      }
      for (; d < n; ++d) o[d] += p * v[d];
    }

    void Finish(std::int64_t query, std::int64_t r, const State& s,
                const TensorView& output) const {
      const T* o = &s.o[Size(r * p_.dim)];
      const T l = s.l[Size(r)];
      for (std::int64_t d = 0; d < p_.dim; ++d) {
        T v = k_.Is("no-divide") ? o[d] : o[d] / l;
        if (l == T{0}) v = p_.masked_rows == "zero" ? T{0} : std::numeric_limits<T>::quiet_NaN();
        if (k_.Is("zero-output")) v = T{0};
        const double value = static_cast<double>(v * k_.Scalar(p_.scale_v));
        Put(output, head_, query, d,
            k_.Is("output-through-bf16") ? Quantise(value, DType::kBF16) : value);
      }
    }

    // An element of P as its product with V takes it.
    T Weight(T p) const { return k_.Is("p-in-fp16") ? ToHalf(p) : p; }

    const AttentionKernel& k_;
    const AttentionProblem& p_;
    std::int64_t head_;
    std::span<const TensorView> inputs_;
    std::vector<T> query_, value_;  // [seq, dim], [kv_seq, dim]
    std::vector<T> key_;            // [tiles, dim, kKeys]
  };

  static T Scalar(double v) { return static_cast<T>(v); }
  bool Is(Defect defect) const { return defect_ == defect; }
  std::int64_t KeyTiles() const { return (p_.KvSeq() + kKeys - 1) / kKeys; }

  AttentionProblem p_;
  Defect defect_;
  T scale_;
  std::int64_t tile_;
};

}  // namespace

Made MakeAttention(const Case& c, const Plan& plan, Device&) {
  const std::optional<Defect> defect = Defect::Find(DefectOf(c), kAliases);
  if (!defect) return NoSuchDefect(c);
  const auto& p = std::get<AttentionProblem>(c.problem);
  const DType dtype = plan.inputs[0].dtype;
  if (dtype == DType::kF64) {
    return std::make_unique<AttentionKernel<double>>(p, dtype, *defect, Site(c));
  }
  return std::make_unique<AttentionKernel<float>>(p, dtype, *defect, Site(c));
}

}  // namespace assay::kernels::planted
