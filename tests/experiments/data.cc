#include "tests/experiments/data.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>

#include "kernels/numerics/convert.h"
#include "kernels/numerics/normal.h"
#include "tests/experiments/lanes.h"

namespace assay::experiment {
namespace {

// SplitMix64.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t Word() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  // In [0, 1), multiples of 2^-24.
  float Uniform() { return static_cast<float>(Word() >> 40) * 0x1p-24F; }
  float Normal() { return NormalFromWord(static_cast<std::uint32_t>(Word() >> 32)); }

 private:
  std::uint64_t state_;
};

template <class Value>
void Each(std::uint64_t seed, std::span<float> values, Value value) {
  Random random(seed);
  for (float& v : values) v = value(random);
}

void Normal(std::uint64_t seed, bool, std::span<float> values) {
  Each(seed, values, [](Random& r) { return r.Normal(); });
}
void UniformBoth(std::uint64_t seed, bool, std::span<float> values) {
  Each(seed, values, [](Random& r) { return 2 * r.Uniform() - 1; });
}
void UniformPositive(std::uint64_t seed, bool, std::span<float> values) {
  Each(seed, values, [](Random& r) { return r.Uniform(); });
}
void Shifted(std::uint64_t seed, bool, std::span<float> values) {
  Each(seed, values, [](Random& r) { return r.Normal() + 0.5F; });
}
void FarShifted(std::uint64_t seed, bool, std::span<float> values) {
  Each(seed, values, [](Random& r) { return r.Normal() + 4; });
}
void UniformNearOne(std::uint64_t seed, bool, std::span<float> values) {
  Each(seed, values, [](Random& r) { return 0.75F + 0.25F * r.Uniform(); });
}
void Student(std::uint64_t seed, bool, std::span<float> values) {
  Each(seed, values, [](Random& r) {
    const float x = r.Normal();
    const float y = r.Normal();
    const float z = r.Normal();
    return r.Normal() / std::sqrt((x * x + y * y + z * z) / 3 + 1e-30F);
  });
}
void Positive(std::uint64_t seed, bool, std::span<float> values) {
  Each(seed, values, [](Random& r) { return std::abs(r.Normal()); });
}
void ConstantRows(std::uint64_t seed, bool of_a, std::span<float> values) {
  if (!of_a) return Normal(seed, of_a, values);
  std::fill(values.begin(), values.end(), Random(seed).Normal());
}
void SmallIntegers(std::uint64_t seed, bool, std::span<float> values) {
  Each(seed, values, [](Random& r) { return static_cast<float>(r.Word() % 7) - 3; });
}
void Sparse(std::uint64_t seed, bool, std::span<float> values) {
  Each(seed, values, [](Random& r) {
    const bool kept = r.Uniform() < 0.2F;
    return kept ? r.Normal() : 0.0F;
  });
}
void Sorted(std::uint64_t seed, bool of_a, std::span<float> values) {
  Normal(seed, of_a, values);
  std::sort(values.begin(), values.end());
}
void Falling(std::uint64_t seed, bool of_a, std::span<float> values) {
  Positive(seed, of_a, values);
  std::sort(values.begin(), values.end(), std::greater<>());
}
void Ramp(std::uint64_t, bool of_a, std::span<float> values) {
  const auto count = static_cast<float>(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = (of_a ? 1.0F : 0.7F) * (static_cast<float>(i) / count - (of_a ? 0.5F : 0));
  }
}
// Products whose signs alternate.
void Alternating(std::uint64_t seed, bool of_a, std::span<float> values) {
  Positive(seed, of_a, values);
  for (std::size_t i = 1; i < values.size() && of_a; i += 2) values[i] = -values[i];
}
void Smooth(std::uint64_t seed, bool, std::span<float> values) {
  Random random(seed);
  const float phase = 6.2831853F * random.Uniform();
  const float waves = 1 + 3 * random.Uniform();
  const auto count = static_cast<float>(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = std::sin(phase + 6.2831853F * waves * static_cast<float>(i) / count);
  }
}
void NearConstant(std::uint64_t seed, bool, std::span<float> values) {
  Each(seed, values, [](Random& r) { return 1 + 1e-3F * r.Normal(); });
}
void Extremes(std::uint64_t seed, bool, std::span<float> values) {
  Each(seed, values, [](Random& r) {
    const float centre = (r.Word() & 1) != 0 ? 80.0F : -80.0F;
    return centre + r.Normal();
  });
}
// Rows and columns that differ in size by up to 2^10.
void Scaled(std::uint64_t seed, bool of_a, std::span<float> values) {
  Normal(seed, of_a, values);
  const float scale = std::exp2(10 * Random(~seed).Uniform() - 5);
  for (float& v : values) v *= scale;
}
// The same place of every row and column is large: a and b are large together.
void Channels(std::uint64_t seed, bool of_a, std::span<float> values) {
  Normal(seed, of_a, values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (Random(i).Uniform() < 0.01F) values[i] *= 30;
  }
}
// Each row and column is large in one eighth of k, so some pairs of them are and most are not.
void Classes(std::uint64_t seed, bool of_a, std::span<float> values) {
  Normal(seed, of_a, values);
  const std::uint64_t mine = Random(~seed).Word() % 8;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i % 8 == mine) values[i] *= 30;
  }
}
void Constant(std::uint64_t, bool of_a, std::span<float> values) {
  std::fill(values.begin(), values.end(), of_a ? 1.3F : 0.7F);
}

constexpr Data kData[] = {
    {"normal", true, "normal", Normal},
    {"uniform(-1,1)", true, "uniform:-1:1", UniformBoth},
    {"uniform(0,1)", true, "uniform:0:1", UniformPositive},
    {"normal + 0.5", true, "normal:1:0.5", Shifted},
    {"Student t, 3", true, "", Student},
    {"abs(normal)", true, "all-positive", Positive},
    {"constant rows of A", true, "", ConstantRows},
    {"small integers", true, "", SmallIntegers},
    {"sparse 20 %", true, "", Sparse},
    {"scaled rows", true, "", Scaled},
    {"1 % of k large", true, "", Channels},
    {"classes of rows", true, "", Classes},
    {"+-80 + normal", true, "", Extremes},
    {"nearly constant", false, "", NearConstant},
    {"sorted", false, "", Sorted},
    {"abs(normal), falling", false, "", Falling},
    {"smooth", false, "", Smooth},
    {"ramp", false, "", Ramp},
    {"alternating signs", false, "", Alternating},
    {"constant x constant", false, "", Constant},
    // DataOfAlarms alone.
    {"normal + 4", true, "normal:1:4", FarShifted},
    {"uniform(3/4,1)", true, "uniform:0.75:1", UniformNearOne},
};
constexpr std::size_t kOfAlarmsAlone = 2;

}  // namespace

std::span<const Data> AllData() {
  return std::span(kData).first(std::size(kData) - kOfAlarmsAlone);
}
std::span<const Data> DataOfAlarms() { return kData; }

Operands Draw(const Data& data, const Shape& shape, std::uint64_t seed) {
  const auto k = static_cast<std::size_t>(shape.k);
  const auto m = static_cast<std::size_t>(shape.m);
  const auto n = static_cast<std::size_t>(shape.n);
  Operands o{shape, std::vector<float>(m * k), std::vector<float>(n * k)};
  Random seeds(seed);
  for (std::size_t i = 0; i < m; ++i) {
    data.line(seeds.Word(), true, std::span(o.a).subspan(i * k, k));
  }
  std::vector<float> column(k);
  for (std::size_t j = 0; j < n; ++j) {
    data.line(seeds.Word(), false, column);
    float* to = o.b.data() + (j / kPanel) * k * kPanel + j % kPanel;
    for (std::size_t i = 0; i < k; ++i) to[i * kPanel] = column[i];
  }
  return o;
}

Operands Rounded(const Operands& operands, DType format) {
  Operands o = operands;
  if (format == DType::kF32) return o;
  for (std::vector<float>* values : {&o.a, &o.b}) {
    for (float& v : *values) v = static_cast<float>(Quantise(v, format, Overflow::kSat));
  }
  return o;
}

}  // namespace assay::experiment
