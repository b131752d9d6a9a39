// What is usually wrong with an online softmax: keys come in tiles, and what was summed
// is rescaled whenever the running maximum m grows.
//
//   tile t:  m' = max(m, tile's scores),  f = exp(m − m'),  l = f·l + Σ e,  o = f·o + Σ e·v
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "kernels/ops/attention/attention_rows.h"
#include "kernels/ops/attention/attention_suspects.h"
#include "kernels/ops/case.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Terms that should have shrunk are summed as they are, and so is their rounding.
constexpr double kRounding = 0x1p-10;
// The share of the errors that a stretch of keys may leave, for a right kernel rounds as well.
constexpr double kLeft = 0.5;

using Rows = AttentionRows;

// The running maxima before and behind each tile.
struct Maxima {
  std::vector<double> before, behind;
};

Maxima MaximaOf(const std::vector<double>& scores, std::int64_t tile) {
  Maxima m;
  double running = -kInfinity;
  for (std::size_t first = 0; first < scores.size(); first += static_cast<std::size_t>(tile)) {
    const std::size_t end = std::min(scores.size(), first + static_cast<std::size_t>(tile));
    m.before.push_back(running);
    for (std::size_t j = first; j < end; ++j) running = std::max(running, scores[j]);
    m.behind.push_back(running);
  }
  return m;
}

double Rescale(double before, double behind) {
  return before == -kInfinity ? 1.0 : std::exp(before - behind);
}

// One element of an online softmax that rescales o by `factors` of tiles and l by
// `sum_factors`; an empty list rescales nothing.
double Online(Rows& rows, std::int64_t index, std::int64_t tile, const std::vector<double>& factors,
              const std::vector<double>& sum_factors) {
  const std::int64_t row = rows.RowOf(index);
  const std::vector<double>& scores = rows.Scores(row);
  const double* const values = rows.Values(row, rows.ColumnOf(index));
  const Maxima maxima = MaximaOf(scores, tile);
  double o = 0;
  double l = 0;
  for (std::size_t t = 0; t < maxima.behind.size(); ++t) {
    const double m = maxima.behind[t];
    if (m == -kInfinity) continue;
    if (!factors.empty()) o *= factors[t];
    if (!sum_factors.empty()) l *= sum_factors[t];
    const std::int64_t first = static_cast<std::int64_t>(t) * tile;
    for (std::int64_t j = first; j < std::min(rows.keys(), first + tile); ++j) {
      const double e = std::exp(scores[static_cast<std::size_t>(j)] - m);
      l += e;
      o += e * values[j * rows.dim()];
    }
  }
  return o / l;
}

std::vector<double> FactorsOf(Rows& rows, std::int64_t row, std::int64_t tile) {
  const Maxima maxima = MaximaOf(rows.Scores(row), tile);
  std::vector<double> factors;
  for (std::size_t t = 0; t < maxima.behind.size(); ++t) {
    factors.push_back(Rescale(maxima.before[t], maxima.behind[t]));
  }
  return factors;
}

using Elements = std::span<const WrongElement>;

// Agreement with what `compute` gives of each element.
template <class Compute>
std::optional<Proof> AgreementWith(Elements elements, Compute&& compute) {
  return Agreement(elements, [&](std::size_t i) {
    const WrongElement& e = elements[i];
    const double value = compute(e.index);
    return Computed{value, 1.5 * e.bound + kRounding * std::abs(value)};
  });
}

// A test of every width of the tiles of keys.
template <class Compute>
Suspect OfTiles(const Scene& scene, std::string reads_as, std::string next_step, Compute compute) {
  auto test = [&scene, compute](Elements elements) -> std::optional<Proof> {
    Rows rows(scene);
    for (std::int64_t tile = 1; tile < rows.keys(); tile *= 2) {
      std::optional<Proof> proof =
          AgreementWith(elements, [&](std::int64_t index) { return compute(rows, index, tile); });
      if (!proof.has_value()) continue;
      proof->evidence += Cat(", with tiles of ", tile, tile == 1 ? " key" : " keys");
      return proof;
    }
    return std::nullopt;
  };
  return {std::move(reads_as), std::move(next_step), std::move(test)};
}

// The rescaling factor of the query that has the column's number in its tile.
Suspect WrongAxis(const Scene& scene) {
  auto test = [&scene](Elements elements) -> std::optional<Proof> {
    Rows rows(scene);
    for (std::int64_t queries = 8; queries <= 256; queries *= 2) {
      for (std::int64_t tile = 8; tile < rows.keys() && tile <= 256; tile *= 2) {
        std::optional<Proof> proof = AgreementWith(elements, [&](std::int64_t index) {
          const std::int64_t row = rows.RowOf(index);
          const std::int64_t query = rows.QueryOf(row);
          const std::int64_t first = query - query % queries;
          const std::int64_t width = std::min(queries, rows.queries() - first);
          const std::int64_t other = row - query + first + rows.ColumnOf(index) % width;
          return Online(rows, index, tile, FactorsOf(rows, other, tile),
                        FactorsOf(rows, row, tile));
        });
        if (!proof.has_value()) continue;
        proof->evidence += Cat(", with tiles of ", queries, " queries and ", tile, " keys");
        return proof;
      }
    }
    return std::nullopt;
  };
  return {
      "the running output is rescaled along the wrong axis: column d by the factor of query d, "
      "not row i by that of query i",
      "index the rescaling factor by the row of the accumulator, not by its column", test};
}

// Of one element: exp(s - max) of each key, and that and its product with the value summed
// from the first key on, so that a stretch of keys costs no pass over all.
struct KeySums {
  std::vector<double> weights;
  std::vector<double> weight_sums;
  std::vector<double> product_sums;
};

// Nothing if a row sees no key.
std::optional<std::vector<KeySums>> SumKeys(Rows& rows, Elements elements) {
  std::vector<KeySums> sums;
  sums.reserve(elements.size());
  for (const WrongElement& e : elements) {
    const std::int64_t row = rows.RowOf(e.index);
    const std::vector<double>& scores = rows.Scores(row);
    const double max = *std::max_element(scores.begin(), scores.end());
    if (max == -kInfinity) return std::nullopt;
    KeySums& of = sums.emplace_back(KeySums{{}, {0.0}, {0.0}});
    const double* const values = rows.Values(row, rows.ColumnOf(e.index));
    for (std::int64_t j = 0; j < rows.keys(); ++j) {
      const double weight = std::exp(scores[static_cast<std::size_t>(j)] - max);
      of.weights.push_back(weight);
      of.weight_sums.push_back(of.weight_sums.back() + weight);
      of.product_sums.push_back(of.product_sums.back() + weight * values[j * rows.dim()]);
    }
  }
  return sums;
}

enum class Stretch : std::uint8_t { kLeftOut, kTwice, kStale };
constexpr std::pair<Stretch, std::string_view> kStretches[] = {
    {Stretch::kLeftOut, "left out"},
    {Stretch::kTwice, "counted twice"},
    {Stretch::kStale, "given the values of the tile before"}};

// The element `index` if the keys from `first` to `end` are treated so. `tile` is the distance to
// the stretch before.
double WithStretch(Rows& rows, const KeySums& of, std::int64_t index, Stretch how,
                   std::int64_t first, std::int64_t end, std::int64_t tile) {
  const auto from = static_cast<std::size_t>(first), to = static_cast<std::size_t>(end);
  const double all = of.product_sums.back(), weight = of.weight_sums.back();
  const double inside = of.product_sums[to] - of.product_sums[from];
  const double weight_inside = of.weight_sums[to] - of.weight_sums[from];
  if (how == Stretch::kLeftOut) return (all - inside) / (weight - weight_inside);
  if (how == Stretch::kTwice) return (all + inside) / (weight + weight_inside);
  double sum = all - inside;
  const double* const values = rows.Values(rows.RowOf(index), rows.ColumnOf(index));
  for (std::int64_t k = first; k < end; ++k) {
    sum += of.weights[static_cast<std::size_t>(k)] * values[(k - tile) * rows.dim()];
  }
  return sum / weight;
}

// Whether most of the errors are gone if the elements should be what is given. Among so many
// stretches one agrees with elements by chance that are only just beyond their bounds.
bool Explained(Elements elements, std::span<const double> given) {
  double seen = 0, left = 0;
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const WrongElement& e = elements[i];
    seen += (e.actual - e.expected) * (e.actual - e.expected);
    left += (e.actual - given[i]) * (e.actual - given[i]);
  }
  return left <= kLeft * kLeft * seen;
}

// A stretch of keys that is left out, counted twice, or given the values of the
// stretch before.
Suspect WrongTile(const Scene& scene) {
  auto test = [&scene](Elements elements) -> std::optional<Proof> {
    Rows rows(scene);
    const std::optional<std::vector<KeySums>> sums = SumKeys(rows, elements);
    if (!sums.has_value()) return std::nullopt;
    for (std::int64_t tile = 128; tile >= 1; tile /= 2) {
      for (std::int64_t first = 0; first < rows.keys(); first += tile) {
        const std::int64_t end = std::min(rows.keys(), first + tile);
        if (end - first == rows.keys()) continue;
        for (const auto& [how, what] : kStretches) {
          if (how == Stretch::kStale && first == 0) continue;
          std::vector<double> given;
          std::optional<Proof> proof = AgreementWith(elements, [&, how = how](std::int64_t index) {
            given.push_back(WithStretch(rows, (*sums)[given.size()], index, how, first, end, tile));
            return given.back();
          });
          if (!proof.has_value() || !Explained(elements, given)) continue;
          proof->reads_as = tile == 1 ? Cat("key ", first, " is ", what)
                                      : Cat("the keys ", first, " to ", end - 1, " are ", what);
          return proof;
        }
      }
    }
    return std::nullopt;
  };
  return {"",
          "look at the loop over tiles of keys: its bounds, and when the buffer of a tile is "
          "filled",
          test};
}

}  // namespace

std::vector<Suspect> OnlineSoftmaxSuspects(const Scene& scene) {
  std::vector<Suspect> suspects;
  suspects.push_back(OfTiles(
      scene, "the running output is not rescaled when the running maximum grows (online softmax)",
      "multiply the accumulated output, and not the sum alone, by exp(old maximum - new maximum) "
      "before a tile is added",
      [](Rows& rows, std::int64_t index, std::int64_t tile) {
        return Online(rows, index, tile, {}, FactorsOf(rows, rows.RowOf(index), tile));
      }));
  suspects.push_back(OfTiles(
      scene, "the running sum is not rescaled when the running maximum grows (online softmax)",
      "multiply the sum l, too, by exp(old maximum - new maximum) before a tile is added",
      [](Rows& rows, std::int64_t index, std::int64_t tile) {
        return Online(rows, index, tile, FactorsOf(rows, rows.RowOf(index), tile), {});
      }));
  suspects.push_back({"the output is not divided by the sum of the exponentials",
                      "divide each row by its sum l at the end",
                      [&scene](Elements elements) -> std::optional<Proof> {
                        Rows rows(scene);
                        std::size_t at = 0;
                        return AgreementWith(elements, [&](std::int64_t index) {
                          const std::vector<double>& scores = rows.Scores(rows.RowOf(index));
                          const double max = *std::max_element(scores.begin(), scores.end());
                          double l = 0;
                          for (const double s : scores) l += std::exp(s - max);
                          return elements[at++].expected * l;
                        });
                      }});
  suspects.push_back(WrongAxis(scene));
  suspects.push_back(WrongTile(scene));
  return suspects;
}

}  // namespace assay::kernels
