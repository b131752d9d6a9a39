// The built-in gemm, conv and attention: right within the bound of numerics.md 1
// against plain loops, for every format and SIMD target.
#include "kernels/numerics/convert.h"
#include "tests/unit/providers/builtin_testing.h"

namespace assay {
namespace {

using BuiltinProductTest = BuiltinTest;

constexpr Form kProductForms[] = {
    {DType::kF32, DType::kF32},   {DType::kF64, DType::kF64}, {DType::kF16, DType::kF16},
    {DType::kBF16, DType::kBF16}, {DType::kF16, DType::kF32}, {DType::kBF16, DType::kF32},
    {DType::kI8, DType::kI32},
};

Case CaseOf(const Problem& problem, const Form& f) {
  Case c;
  c.problem = problem;
  c.dtype = f.in;
  c.out_dtype = f.out;
  return c;
}

void Randomise(TestTensor& t, std::mt19937_64& rng) {
  const DType type = t.view().dtype;
  Info(type).is_integer ? t.FillIntegers(rng, -128, 127) : t.FillNormal(rng);
}

// 8·√k·u·(|A||B|), the probabilistic bound that zero-mean data is held to.
double SumAllowance(DType in, double terms, double absolute) {
  return ReferenceShare(in) * 8 * std::sqrt(terms) * AccumulatorRoundoff(in) * absolute;
}

void CheckGemm(const GemmProblem& p, const Form& f, TestTensor& a, TestTensor& b, TestTensor* c,
               TestTensor& d) {
  const std::vector<double> va = a.Values();
  const std::vector<double> vb = b.Values();
  const auto at = [](const std::vector<double>& v, std::int64_t i) {
    return static_cast<long double>(v[static_cast<std::size_t>(i)]);
  };
  for (std::int64_t i = 0; i < p.batch * p.m * p.n; ++i) {
    const std::int64_t batch = i / (p.m * p.n);
    const std::int64_t row = i / p.n % p.m;
    const std::int64_t col = i % p.n;
    long double sum = 0, absolute = 0;
    for (std::int64_t k = 0; k < p.k; ++k) {
      const long double product =
          at(va, batch * p.m * p.k + (p.trans_a ? k * p.m + row : row * p.k + k)) *
          at(vb, batch * p.k * p.n + (p.trans_b ? col * p.k + k : k * p.n + col));
      sum += product;
      absolute += std::abs(product);
    }
    const double u = AccumulatorRoundoff(f.in);
    const double scaled = p.alpha * static_cast<double>(sum);
    const double added = c == nullptr ? 0 : p.beta * c->Get(i);
    double e = std::abs(p.alpha) *
               SumAllowance(f.in, static_cast<double>(p.k), static_cast<double>(absolute));
    if (p.alpha != 1 || p.beta != 0) {
      e += u * (std::abs(scaled) + std::abs(added) + std::abs(scaled + added));
    }
    ExpectWithin(d.Get(i), scaled + added, e, f.out, i);
    if (testing::Test::HasFatalFailure()) return;
  }
}

void RunGemmCase(const GemmProblem& p, const Form& f, HeapDevice& device, std::mt19937_64& rng,
                 std::int64_t padding) {
  SCOPED_TRACE(testing::Message() << Name(f.in) << " " << Name(f.out) << " " << p.m << "x" << p.n
                                  << "x" << p.k << " trans " << p.trans_a << p.trans_b);
  const auto operand = [&](DType t, std::int64_t rows, std::int64_t cols) {
    Extents e{p.batch, rows, cols, cols + padding, rows * (cols + padding) + padding};
    return TestTensor(t, e);
  };
  TestTensor a = operand(f.in, p.trans_a ? p.k : p.m, p.trans_a ? p.m : p.k);
  TestTensor b = operand(f.in, p.trans_b ? p.n : p.k, p.trans_b ? p.k : p.n);
  TestTensor c = operand(f.out, p.m, p.n);
  TestTensor d = operand(f.out, p.m, p.n);
  Randomise(a, rng);
  Randomise(b, rng);
  Info(f.out).is_integer ? c.FillIntegers(rng, -1000, 1000) : c.FillNormal(rng);
  std::vector<TestTensor*> inputs{&a, &b};
  if (p.beta != 0) inputs.push_back(&c);
  LaunchTwice(BuiltinGemmCpu(), CaseOf(p, f), device, inputs, d);
  if (testing::Test::HasFatalFailure()) return;
  CheckGemm(p, f, a, b, p.beta != 0 ? &c : nullptr, d);
}

TEST_P(BuiltinProductTest, GemmIsWithinItsBoundOnAwkwardShapes) {
  constexpr std::int64_t kShapes[][3] = {{1, 1, 1},     {7, 15, 31},  {16, 16, 16}, {17, 33, 65},
                                         {1, 100, 300}, {63, 1, 257}, {50, 33, 513}};
  for (const Form& f : kProductForms) {
    for (const auto& s : kShapes) {
      for (const int trans : {0, 1, 2, 3}) {
        GemmProblem p{.m = s[0], .n = s[1], .k = s[2]};
        p.trans_a = (trans & 1) != 0;
        p.trans_b = (trans & 2) != 0;
        RunGemmCase(p, f, device_, rng_, 0);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// More than one tile each way, several threads, more than one block of k (256, 512 of int8).
TEST_P(BuiltinProductTest, GemmTilesMeet) {
  RunGemmCase(GemmProblem{.m = 250, .n = 270, .k = 260}, kProductForms[0], device_, rng_, 0);
  for (const Form& f : {kProductForms[1], kProductForms[3], kProductForms[6]}) {
    if (HasFatalFailure()) return;
    RunGemmCase(GemmProblem{.m = 110, .n = 130, .k = 520}, f, device_, rng_, 0);
  }
}

TEST_P(BuiltinProductTest, GemmTakesBatchesPaddingAlphaAndBeta) {
  for (const Form& f : kProductForms) {
    for (const bool trans : {false, true}) {
      GemmProblem p{.m = 19, .n = 35, .k = 21, .batch = 3};
      p.trans_a = trans;
      p.trans_b = !trans;
      p.alpha = f.in == DType::kI8 ? -3 : -1.25;
      p.beta = f.in == DType::kI8 ? 2 : 0.75;
      RunGemmCase(p, f, device_, rng_, 5);
      p.beta = 0;
      RunGemmCase(p, f, device_, rng_, 5);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(BuiltinProductTest, GemmPassesSpecialValuesThrough) {
  const GemmProblem p{.m = 14, .n = 40, .k = 20};
  TestTensor a = TestTensor::Dense(DType::kF32, p.m, p.k);
  TestTensor b = TestTensor::Dense(DType::kF32, p.k, p.n);
  TestTensor d = TestTensor::Dense(DType::kF32, p.m, p.n);
  a.FillNormal(rng_);
  b.FillNormal(rng_);
  a.Set(3 * p.k + 2, NAN);        // row 3
  b.Set(5 * p.n + 39, INFINITY);  // column 39
  LaunchTwice(BuiltinGemmCpu(), CaseOf(p, kProductForms[0]), device_, {&a, &b}, d);
  for (std::int64_t i = 0; i < p.m * p.n; ++i) {
    if (i / p.n == 3) {
      EXPECT_TRUE(std::isnan(d.Get(i)));
    } else {
      EXPECT_EQ(std::isinf(d.Get(i)), i % p.n == 39) << i;
    }
  }
}

// D = A·[1]: every code, in every lane and in the tail, along rows and along columns,
// from even and odd elements on.
TEST_P(BuiltinProductTest, GemmDecodesEveryCode) {
  for (const DType t :
       {DType::kE4M3FN, DType::kE4M3FNUZ, DType::kE5M2, DType::kE5M2FNUZ, DType::kE2M1}) {
    for (const bool trans : {false, true}) {
      GemmProblem p{.m = 301, .n = 1, .k = 1};
      p.trans_a = trans;
      const std::int64_t ld = trans ? p.m : 3;
      TestTensor a(t, Extents{1, trans ? 1 : p.m, trans ? p.m : 1, ld, ld * (trans ? 1 : p.m)});
      TestTensor b = TestTensor::Dense(t, 1, 1);
      TestTensor d = TestTensor::Dense(DType::kF32, p.m, 1);
      const auto code = [&](std::int64_t i) { return static_cast<std::uint64_t>(i * 7) & 0xff; };
      for (std::int64_t i = 0; i < p.m; ++i) {
        StoreBits(t, a.view().data, trans ? i : i * ld, code(i));
      }
      StoreBits(t, b.view().data, 0, RoundToFormat(1.0, t));
      LaunchTwice(BuiltinGemmCpu(), CaseOf(p, {t, DType::kF32}), device_, {&a, &b}, d);
      for (std::int64_t i = 0; i < p.m; ++i) {
        const double want = ToDouble(t, code(i) & (t == DType::kE2M1 ? 0xf : 0xff));
        ASSERT_TRUE(std::isnan(want) ? std::isnan(d.Get(i)) : d.Get(i) == want)
            << Name(t) << " code " << code(i) << ": " << d.Get(i) << ", is " << want;
      }
    }
  }
}

// Ties, subnormals and the overflow threshold of 16-bit outputs, in every lane of a
// vector and in the tail: sums of two exact terms, rounded to nearest even.
TEST_P(BuiltinProductTest, OutputsRoundToNearestEven) {
  struct Sum {
    double first, second, rounded;
  };
  const auto check = [&](DType t, const std::vector<Sum>& sums) {
    const auto n = static_cast<std::int64_t>(7 * sums.size());
    TestTensor a = TestTensor::Dense(t, 1, 2);
    TestTensor b = TestTensor::Dense(t, 2, n);
    TestTensor d = TestTensor::Dense(t, 1, n);
    const double one = t == DType::kF16 ? 0x1p-12 : 1;
    a.Set(0, one);
    a.Set(1, one);
    for (std::int64_t j = 0; j < n; ++j) {
      const Sum& sum = sums[static_cast<std::size_t>(j) % sums.size()];
      b.Set(j, sum.first);
      b.Set(n + j, sum.second);
    }
    GemmProblem p{.m = 1, .n = n, .k = 2};
    LaunchTwice(BuiltinGemmCpu(), CaseOf(p, {t, t}), device_, {&a, &b}, d);
    for (std::int64_t j = 0; j < n; ++j) {
      EXPECT_EQ(d.Get(j), sums[static_cast<std::size_t>(j) % sums.size()].rounded)
          << Name(t) << " " << j;
    }
  };
  check(DType::kBF16, {{1, 0x1p-8, 1},
                       {1 + 0x1p-7, 0x1p-8, 1 + 0x1p-6},
                       {-1, -0x1p-8, -1},
                       {0x1.fep127, 0x1p119, INFINITY},
                       {0x1.fep127, 0x1.fep118, 0x1.fep127},
                       {0x1p-133, 0x1p-133, 0x1p-132},
                       {-INFINITY, 1, -INFINITY}});
  // Scaled by 2^-12 in a: subnormals of fp16 from normal factors.
  check(DType::kF16, {{0x1p-12, 0x1p-13, 0x1p-23},
                      {0x1p-13, 0, 0},
                      {0x1p-11, 0x1p-13, 0x1p-23},
                      {0x1.8p-13, 0, 0x1p-24},
                      {1, 0x1p-11, 0x1p-12},
                      {1 + 0x1p-10, 0x1p-11, 0x1p-12 + 0x1p-21},
                      {-INFINITY, 1, -INFINITY}});
}

TEST_P(BuiltinProductTest, Fp16OverflowsWhereRoundingSaysSo) {
  TestTensor a = TestTensor::Dense(DType::kF16, 1, 2);
  TestTensor b = TestTensor::Dense(DType::kF16, 2, 33);
  TestTensor d = TestTensor::Dense(DType::kF16, 1, 33);
  a.Set(0, 1);
  a.Set(1, 1);
  for (std::int64_t j = 0; j < 33; ++j) {
    b.Set(j, 65504);
    b.Set(33 + j, j % 2 == 0 ? 16 : 15.9921875);
  }
  LaunchTwice(BuiltinGemmCpu(), CaseOf(GemmProblem{.m = 1, .n = 33, .k = 2}, kProductForms[2]),
              device_, {&a, &b}, d);
  for (std::int64_t j = 0; j < 33; ++j) EXPECT_EQ(d.Get(j), j % 2 == 0 ? INFINITY : 65504.0);
}

// int8 gemm has no fraction to scale by.
TEST_P(BuiltinProductTest, IntegerGemmRefusesAFractionalAlpha) {
  Plan plan;
  plan.output.dtype = DType::kI32;
  const auto kernel = BuiltinGemmCpu().make(
      CaseOf(GemmProblem{.m = 1, .n = 1, .k = 1, .alpha = 0.5}, kProductForms[6]), plan, device_);
  EXPECT_EQ(kernel.status().code(), absl::StatusCode::kUnimplemented);
}

// Offset of (image, channel, position) in either layout.
std::int64_t Place(bool nhwc, std::int64_t image, std::int64_t channel, std::int64_t channels,
                   std::int64_t pixel, std::int64_t pixels) {
  return nhwc ? (image * pixels + pixel) * channels + channel
              : (image * channels + channel) * pixels + pixel;
}

// A plain loop over output positions and taps, spatial dimensions flattened by a
// mixed-radix counter; none of the kernel's indexing.
void CheckConv(const ConvProblem& p, const Form& f, TestTensor& x, TestTensor& w, TestTensor& y) {
  const bool nhwc = p.layout == "nhwc";
  const auto dims = static_cast<std::size_t>(p.spatial());
  std::int64_t in_pixels = 1, taps = 1, out_pixels = 1;
  for (std::size_t d = 0; d < dims; ++d) {
    in_pixels *= p.input[d];
    taps *= p.kernel[d];
    out_pixels *= p.Output(static_cast<int>(d));
  }
  const std::int64_t group_channels = p.channels / p.groups;
  const std::vector<double> vx = x.Values();
  const std::vector<double> vw = w.Values();
  for (std::int64_t image = 0; image < p.batch; ++image) {
    for (std::int64_t filter = 0; filter < p.filters; ++filter) {
      const std::int64_t group = filter / (p.filters / p.groups);
      for (std::int64_t out = 0; out < out_pixels; ++out) {
        long double sum = 0, absolute = 0;
        for (std::int64_t tap = 0; tap < taps; ++tap) {
          std::int64_t o = out, t = tap, pixel = 0, scale = 1;
          bool inside = true;
          for (std::size_t d = dims; d-- > 0;) {
            const int axis = static_cast<int>(d);
            const std::int64_t at = o % p.Output(axis) * p.Stride(axis) - p.Padding(axis) +
                                    t % p.kernel[d] * p.Dilation(axis);
            o /= p.Output(axis);
            t /= p.kernel[d];
            inside = inside && at >= 0 && at < p.input[d];
            pixel += at * scale;
            scale *= p.input[d];
          }
          if (!inside) continue;
          for (std::int64_t c = 0; c < group_channels; ++c) {
            const std::int64_t in =
                Place(nhwc, image, group * group_channels + c, p.channels, pixel, in_pixels);
            const std::int64_t weight = Place(nhwc, filter, c, group_channels, tap, taps);
            const long double product = static_cast<long double>(vx[static_cast<std::size_t>(in)]) *
                                        vw[static_cast<std::size_t>(weight)];
            sum += product;
            absolute += std::abs(product);
          }
        }
        const std::int64_t i = Place(nhwc, image, filter, p.filters, out, out_pixels);
        ExpectWithin(y.Get(i), static_cast<double>(sum),
                     SumAllowance(f.in, static_cast<double>(taps * group_channels),
                                  static_cast<double>(absolute)),
                     f.out, i);
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(BuiltinProductTest, ConvIsWithinItsBound) {
  std::vector<ConvProblem> problems;
  const auto add = [&](std::int64_t batch, std::int64_t channels, std::int64_t filters,
                       IntList input, IntList kernel, IntList stride, IntList padding,
                       IntList dilation, std::int64_t groups) {
    for (const char* layout : {"nchw", "nhwc"}) {
      problems.push_back(ConvProblem{batch, channels, filters, input, kernel, stride, padding,
                                     dilation, groups, layout});
    }
  };
  add(1, 1, 1, {5}, {3}, {}, {}, {}, 1);
  add(2, 3, 17, {33}, {5}, {2}, {2}, {}, 1);
  add(2, 5, 33, {9, 11}, {3, 3}, {}, {1}, {}, 1);
  add(1, 8, 12, {13, 10}, {3, 2}, {2, 3}, {1, 0}, {2, 1}, 4);
  add(1, 6, 6, {8, 8}, {3, 3}, {}, {2}, {2}, 6);
  add(1, 3, 8, {17, 19}, {7, 7}, {2}, {3}, {}, 1);
  add(1, 40, 20, {7, 7}, {1, 1}, {}, {}, {}, 1);
  add(1, 4, 7, {5, 6, 7}, {3, 3, 2}, {1, 2, 1}, {1, 0, 1}, {}, 1);
  add(1, 2, 3, {4, 3}, {3, 3}, {3}, {4}, {}, 1);     // whole rows of padding
  add(1, 40, 24, {24, 24}, {3, 3}, {}, {1}, {}, 1);  // several tiles and blocks of taps
  for (const Form& f : kProductForms) {
    for (const ConvProblem& p : problems) {
      const auto spatial = [&](auto&& extent) {
        std::int64_t n = 1;
        for (int d = 0; d < p.spatial(); ++d) n *= extent(d);
        return n;
      };
      const std::int64_t in = spatial([&](int d) { return p.input[static_cast<std::size_t>(d)]; });
      const std::int64_t taps =
          spatial([&](int d) { return p.kernel[static_cast<std::size_t>(d)]; });
      const std::int64_t out = spatial([&](int d) { return p.Output(d); });
      SCOPED_TRACE(testing::Message() << Name(f.in) << " " << Name(f.out) << " " << p.layout
                                      << " channels " << p.channels << " in " << in);
      TestTensor x = TestTensor::Dense(f.in, p.batch, p.channels * in);
      TestTensor w = TestTensor::Dense(f.in, p.filters, p.channels / p.groups * taps);
      TestTensor y = TestTensor::Dense(f.out, p.batch, p.filters * out);
      Randomise(x, rng_);
      Randomise(w, rng_);
      LaunchTwice(BuiltinConvCpu(), CaseOf(p, f), device_, {&x, &w}, y);
      if (HasFatalFailure()) return;
      CheckConv(p, f, x, w, y);
      if (HasFatalFailure()) return;
    }
  }
}

bool Visible(const AttentionProblem& p, TestTensor* mask, std::int64_t i, std::int64_t j) {
  if (p.causal && j > i + p.KvSeq() - p.seq) return false;
  return mask == nullptr || mask->Get(i * p.KvSeq() + j) != 0;
}

// Against the definition, every score at once in long double; E of numerics.md 1
// with FP32 (FP64) probabilities.
void CheckAttention(const AttentionProblem& p, const Form& f, TestTensor& q, TestTensor& k,
                    TestTensor& v, TestTensor* mask, TestTensor& o) {
  const double u = AccumulatorRoundoff(f.in);
  const auto dim = static_cast<std::size_t>(p.dim);
  const std::int64_t keys = p.KvSeq();
  const std::vector<double> vq = q.Values(), vk = k.Values(), vv = v.Values();
  const auto value_of = [](const std::vector<double>& values, std::int64_t i) {
    return static_cast<long double>(values[static_cast<std::size_t>(i)]);
  };
  std::vector<long double> s(static_cast<std::size_t>(keys)), ds(s.size()), e(s.size());
  for (std::int64_t row = 0; row < p.batch * p.heads * p.seq; ++row) {
    const std::int64_t i = row % p.seq;
    const std::int64_t head = row / p.seq;
    const std::int64_t kv = head / (p.heads / p.KvHeads()) * keys;
    long double max = -INFINITY;
    std::int64_t visible = 0, top = 0;
    for (std::int64_t j = 0; j < keys; ++j) {
      const auto at = static_cast<std::size_t>(j);
      long double dot = 0, absolute = 0;
      for (std::int64_t c = 0; c < p.dim; ++c) {
        const long double t = value_of(vq, row * p.dim + c) * value_of(vk, (kv + j) * p.dim + c);
        dot += t;
        absolute += std::abs(t);
      }
      s[at] = dot * p.Scale(f.in);
      ds[at] = 8 * std::sqrt(static_cast<double>(p.dim)) * u * absolute * p.Scale(f.in) +
               u * std::abs(s[at]);
      if (!Visible(p, mask, i, j)) continue;
      ++visible;
      if (s[at] > max) max = s[at], top = j;
    }
    long double sum = 0;
    std::vector<long double> out(dim), first(dim), second(dim);
    long double spread = 0;
    for (std::int64_t j = 0; j < keys; ++j) {
      const auto at = static_cast<std::size_t>(j);
      if (!Visible(p, mask, i, j)) continue;
      e[at] = std::exp(s[at] - max);
      sum += e[at];
      const long double eps =
          u + u * (8 + 2 * std::abs(s[at] - max) + 8 * std::sqrt(static_cast<double>(visible))) +
          ds[at] + ds[static_cast<std::size_t>(top)];
      spread += e[at] * eps;
      for (std::size_t c = 0; c < dim; ++c) {
        const long double value = value_of(vv, (kv + j) * p.dim + static_cast<std::int64_t>(c));
        out[c] += e[at] * value;
        first[c] += e[at] * eps * std::abs(value);
      }
    }
    for (std::size_t c = 0; c < dim; ++c) {
      const std::int64_t at = row * p.dim + static_cast<std::int64_t>(c);
      const double got = o.Get(at);
      if (visible == 0) {
        ASSERT_TRUE(p.masked_rows == "nan" ? std::isnan(got) : got == 0) << got;
        continue;
      }
      const auto right = static_cast<double>(out[c] / sum);
      const long double allowance = first[c] / sum + std::abs(right) * spread / sum;
      ExpectWithin(got, right, ReferenceShare(f.in) * static_cast<double>(allowance), f.out, at);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

struct AttentionData {
  AttentionData(const AttentionProblem& p, const Form& f, std::mt19937_64& rng, double sigma)
      : q(TestTensor::Dense(f.in, p.seq, p.dim, p.batch * p.heads)),
        k(TestTensor::Dense(f.in, p.KvSeq(), p.dim, p.batch * p.KvHeads())),
        v(TestTensor::Dense(f.in, p.KvSeq(), p.dim, p.batch * p.KvHeads())),
        mask(TestTensor::Dense(DType::kI8, p.seq, p.KvSeq())),
        o(TestTensor::Dense(f.out, p.seq, p.dim, p.batch * p.heads)) {
    q.FillNormal(rng, sigma);
    k.FillNormal(rng, sigma);
    v.FillNormal(rng, sigma);
    std::bernoulli_distribution keep(p.mask_density);
    for (std::int64_t i = 0; i < mask.count(); ++i) mask.Set(i, keep(rng) ? 1 : 0);
  }
  std::vector<TestTensor*> Inputs(bool masked) {
    std::vector<TestTensor*> all{&q, &k, &v};
    if (masked) all.push_back(&mask);
    return all;
  }
  TestTensor q, k, v, mask, o;
};

TEST_P(BuiltinProductTest, AttentionIsWithinItsBound) {
  std::vector<AttentionProblem> problems = {
      {.heads = 1, .seq = 1, .dim = 1},
      {.heads = 2, .seq = 17, .dim = 33},
      {.batch = 2, .heads = 4, .kv_heads = 2, .seq = 15, .kv_seq = 140, .dim = 16},
      {.heads = 1, .seq = 130, .dim = 64, .causal = true},
      {.heads = 1, .seq = 7, .kv_seq = 300, .dim = 31, .causal = true},
      // The first queries see nothing.
      {.heads = 1, .seq = 65, .kv_seq = 40, .dim = 8, .causal = true},
      {.heads = 1, .seq = 65, .kv_seq = 40, .dim = 8, .causal = true, .masked_rows = "nan"},
      {.heads = 2, .seq = 31, .kv_seq = 150, .dim = 16, .mask_density = 0.5},
      {.heads = 2, .seq = 40, .kv_seq = 3, .dim = 16, .mask_density = 0.2, .masked_rows = "nan"},
      {.heads = 1, .seq = 20, .kv_seq = 260, .dim = 20, .causal = true, .mask_density = 0.1},
      {.heads = 1, .seq = 5, .kv_seq = 9, .dim = 300},
      {.heads = 1, .seq = 16, .dim = 16, .scale = 1.5},
  };
  for (const Form& f : kFloatForms) {
    for (const AttentionProblem& p : problems) {
      for (const double sigma : {1.0, 3.0}) {
        SCOPED_TRACE(testing::Message() << Name(f.in) << " " << Name(f.out) << " seq " << p.seq
                                        << " kv " << p.KvSeq() << " dim " << p.dim);
        AttentionData data(p, f, rng_, sigma);
        LaunchTwice(BuiltinAttentionCpu(), CaseOf(p, f), device_, data.Inputs(p.masked()), data.o);
        if (HasFatalFailure()) return;
        CheckAttention(p, f, data.q, data.k, data.v, p.masked() ? &data.mask : nullptr, data.o);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// An infinite V behind the mask contributes nothing; in sight it shows.
TEST_P(BuiltinProductTest, AttentionKeepsMaskedValuesOut) {
  const AttentionProblem p{.heads = 1, .seq = 20, .dim = 16, .causal = true};
  AttentionData data(p, kFloatForms[0], rng_, 1.0);
  for (std::int64_t c = 0; c < p.dim; ++c) data.v.Set(15 * p.dim + c, INFINITY);
  LaunchTwice(BuiltinAttentionCpu(), CaseOf(p, kFloatForms[0]), device_, data.Inputs(false),
              data.o);
  for (std::int64_t i = 0; i < data.o.count(); ++i) {
    EXPECT_EQ(data.o.Get(i) == INFINITY, i / p.dim >= 15) << i;
    EXPECT_FALSE(std::isnan(data.o.Get(i))) << i;
  }
}

// Scores of −inf only, or a NaN among them, make the row NaN, even where the
// running maximum meets them before anything finite; −inf beside finite does not.
TEST_P(BuiltinProductTest, AttentionTreatsSpecialScoresAsIeeeDoes) {
  const AttentionProblem p{.heads = 1, .seq = 4, .kv_seq = 300, .dim = 1, .scale = 1.0};
  AttentionData data(p, kFloatForms[0], rng_, 1.0);
  for (std::int64_t i = 0; i < 4; ++i) data.q.Set(i, 1);
  const auto row = [&](auto&& score) {
    for (std::int64_t j = 0; j < 300; ++j) data.k.Set(j, score(j));
    LaunchTwice(BuiltinAttentionCpu(), CaseOf(p, kFloatForms[0]), device_, data.Inputs(false),
                data.o);
    return data.o.Get(0);
  };
  EXPECT_TRUE(std::isnan(row([](std::int64_t) { return -INFINITY; })));
  EXPECT_TRUE(std::isnan(row([](std::int64_t j) { return j == 3 ? NAN : -INFINITY; })));
  EXPECT_TRUE(
      std::isnan(row([](std::int64_t j) { return j < 200 ? j == 3 ? NAN : -INFINITY : 1; })));
  EXPECT_TRUE(std::isnan(row([](std::int64_t j) { return j == 250 ? NAN : 1.0; })));
  EXPECT_TRUE(std::isnan(row([](std::int64_t j) { return j == 250 ? INFINITY : 1.0; })));
  EXPECT_EQ(row([](std::int64_t j) { return j == 299 ? 1.0 : -INFINITY; }), data.v.Get(299));
}

INSTANTIATE_TEST_SUITE_P(Targets, BuiltinProductTest, testing::ValuesIn(Targets()), TargetOf);

}  // namespace
}  // namespace assay
