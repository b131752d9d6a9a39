// The built-in row kernels and copy: right within the bound of numerics.md 1 on
// awkward shapes and special values, for every format and SIMD target.
#include "tests/unit/providers/builtin_testing.h"

namespace assay {
namespace {

constexpr std::int64_t kCols[] = {1, 7, 15, 16, 17, 31, 33, 63, 65, 129, 1000, 1025};

// Depth of the kernels' sums: a quarter-row of scalar lanes at worst, and the tree.
double Depth(std::int64_t cols) { return static_cast<double>(cols) / 16 + 8; }

Case CaseOf(const Problem& problem, DType in, DType out) {
  Case c;
  c.problem = problem;
  c.dtype = in;
  c.out_dtype = out;
  return c;
}

void CheckSoftmax(TestTensor& x, TestTensor& y, std::int64_t rows, std::int64_t cols, DType in,
                  DType out) {
  const double u = AccumulatorRoundoff(in);
  for (std::int64_t r = 0; r < rows; ++r) {
    double m = -INFINITY;
    for (std::int64_t j = 0; j < cols; ++j) m = std::fmax(m, x.Get(r * cols + j));
    long double sum = 0;
    for (std::int64_t j = 0; j < cols; ++j) {
      sum += std::exp(static_cast<long double>(x.Get(r * cols + j)) - m);
    }
    for (std::int64_t j = 0; j < cols; ++j) {
      const double v = x.Get(r * cols + j);
      const auto p = static_cast<double>(std::exp(static_cast<long double>(v) - m) / sum);
      double e = p * u * (2 * std::abs(v - m) + 8 + Depth(cols)) * ReferenceShare(in);
      if (std::isnan(e)) e = 0;  // an infinite |v − m|: y is 0
      ExpectWithin(y.Get(r * cols + j), p, e, out, r * cols + j);
    }
  }
}

TEST_P(BuiltinTest, SoftmaxIsWithinItsBoundWithoutTheScaleTerm) {
  const KernelEntry entry = BuiltinSoftmaxCpu();
  for (const Form& f : kFloatForms) {
    for (const std::int64_t cols : kCols) {
      for (const double sigma : {1.0, 30.0}) {
        SCOPED_TRACE(testing::Message() << Name(f.in) << " " << Name(f.out) << " cols " << cols);
        TestTensor x = TestTensor::Dense(f.in, 3, cols);
        TestTensor y = TestTensor::Dense(f.out, 3, cols);
        x.FillNormal(rng_, sigma);
        LaunchTwice(entry, CaseOf(SoftmaxProblem{3, cols}, f.in, f.out), device_, {&x}, y);
        if (HasFatalFailure()) return;
        CheckSoftmax(x, y, 3, cols, f.in, f.out);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// −inf beside finite values gives 0, a NaN or +inf or nothing but −inf NaN
// everywhere, extremes neither overflow nor lose the small results.
TEST_P(BuiltinTest, SoftmaxTreatsSpecialRowsAsIeeeDoes) {
  const KernelEntry entry = BuiltinSoftmaxCpu();
  for (const std::int64_t cols : {1, 16, 33, 200}) {
    for (const Form& f : kFloatForms) {
      TestTensor x = TestTensor::Dense(f.in, 9, cols);
      TestTensor y = TestTensor::Dense(f.out, 9, cols);
      for (std::int64_t j = 0; j < cols; ++j) {
        const double ramp = static_cast<double>(j % 7) - 3;
        const bool last = j == cols - 1;
        x.Set(j, INFINITY);
        x.Set(cols + j, -INFINITY);
        x.Set(2 * cols + j, last ? INFINITY : ramp);
        x.Set(3 * cols + j, last ? 1.0 : -INFINITY);
        x.Set(4 * cols + j, j == cols / 2 ? NAN : ramp);
        x.Set(5 * cols + j, ramp * 1000 / 3);
        x.Set(6 * cols + j, j == 0 ? 0.0 : -88.0 - static_cast<double>(j) / 8);
        x.Set(7 * cols + j, 65504.0);
        x.Set(8 * cols + j, j == 0 ? NAN : -INFINITY);
      }
      LaunchTwice(entry, CaseOf(SoftmaxProblem{9, cols}, f.in, f.out), device_, {&x}, y);
      for (std::int64_t j = 0; j < cols; ++j) {
        for (const std::int64_t nan_row : {0, 1, 2, 4, 8}) {
          EXPECT_TRUE(std::isnan(y.Get(nan_row * cols + j))) << "row " << nan_row;
        }
        EXPECT_EQ(y.Get(3 * cols + j), j == cols - 1 ? 1.0 : 0.0);
      }
      TestTensor finite_x = TestTensor::Dense(f.in, 3, cols);
      TestTensor finite_y = TestTensor::Dense(f.out, 3, cols);
      for (std::int64_t i = 0; i < 3 * cols; ++i) {
        finite_x.Set(i, x.Get(5 * cols + i));
        finite_y.Set(i, y.Get(5 * cols + i));
      }
      CheckSoftmax(finite_x, finite_y, 3, cols, f.in, f.out);
      if (HasFatalFailure()) return;
    }
  }
}

// One term of exp(x) against the largest: the exp alone, over its whole range, to
// the 2 ulp that simd-inl.h states (and the quotient's rounding, and 0.5 η).
TEST_P(BuiltinTest, ExpIsGoodToTwoUlpOverItsRange) {
  const std::int64_t rows = 20000;
  TestTensor x = TestTensor::Dense(DType::kF32, rows, 2);
  TestTensor y = TestTensor::Dense(DType::kF32, rows, 2);
  for (std::int64_t r = 0; r < rows; ++r)
    x.Set(2 * r, 0), x.Set(2 * r + 1, -0.0053 * static_cast<double>(r));
  LaunchTwice(BuiltinSoftmaxCpu(), CaseOf(SoftmaxProblem{rows, 2}, DType::kF32, DType::kF32),
              device_, {&x}, y);
  for (std::int64_t r = 0; r < rows; ++r) {
    const double e = std::exp(x.Get(2 * r + 1));
    const double right = e / (1 + e);
    ASSERT_LE(std::abs(y.Get(2 * r + 1) - right), right * 0x1p-24 * 7 + 0x1p-150) << "row " << r;
  }
}

void CheckLayerNorm(const LayerNormProblem& p, TestTensor& x, TestTensor* w, TestTensor* b,
                    TestTensor& y, DType in, DType out) {
  const double u = AccumulatorRoundoff(in);
  const auto n = static_cast<long double>(p.cols);
  for (std::int64_t r = 0; r < p.rows; ++r) {
    long double mean = 0, mean_abs = 0, var = 0;
    for (std::int64_t j = 0; j < p.cols; ++j) {
      mean += static_cast<long double>(x.Get(r * p.cols + j)) / n;
      mean_abs += std::abs(static_cast<long double>(x.Get(r * p.cols + j))) / n;
    }
    if (p.rms) mean = 0;
    for (std::int64_t j = 0; j < p.cols; ++j) {
      const long double d = x.Get(r * p.cols + j) - mean;
      var += d * d / n;
    }
    const auto rstd = static_cast<double>(1 / std::sqrt(var + static_cast<long double>(p.eps)));
    for (std::int64_t j = 0; j < p.cols; ++j) {
      const auto hat = static_cast<double>((x.Get(r * p.cols + j) - mean) * rstd);
      const double h = Depth(p.cols);
      double e = u * ((h * static_cast<double>(mean_abs) + std::abs(static_cast<double>(mean))) *
                          rstd * (1 + std::abs(hat)) +
                      (h + 8) * std::abs(hat));
      double right = hat;
      if (w != nullptr) {
        right = hat * w->Get(j) + (b == nullptr ? 0 : b->Get(j));
        e = std::abs(w->Get(j)) * e + 2 * u * (std::abs(w->Get(j) * hat) + std::abs(right));
      }
      ExpectWithin(y.Get(r * p.cols + j), right, e * ReferenceShare(in), out, r * p.cols + j);
    }
  }
}

// Ordinary rows, large mean, near-zero variance and constant rows.
TEST_P(BuiltinTest, LayerNormIsWithinItsBound) {
  const KernelEntry entry = BuiltinLayerNormCpu();
  struct Data {
    double mean, sigma;
  };
  for (const Form& f : kFloatForms) {
    for (const std::int64_t cols : kCols) {
      for (const Data& data : {Data{0, 1}, Data{1000, 1}, Data{100, 1e-3}, Data{3, 0}}) {
        for (const int variant : {0, 1, 2, 3, 5, 7}) {
          LayerNormProblem p{5, cols, 1e-5, (variant & 1) != 0, (variant & 2) != 0};
          if ((variant & 4) != 0) p.weight_format = "input";
          SCOPED_TRACE(testing::Message() << Name(f.in) << " " << Name(f.out) << " cols " << cols
                                          << " variant " << variant << " mean " << data.mean);
          TestTensor x = TestTensor::Dense(f.in, 5, cols);
          TestTensor w = TestTensor::Dense(p.columns(f.in), 1, cols);
          TestTensor b = TestTensor::Dense(p.columns(f.in), 1, cols);
          TestTensor y = TestTensor::Dense(f.out, 5, cols);
          x.FillNormal(rng_, data.sigma, data.mean);
          w.FillNormal(rng_, 0.2, 1.0);
          b.FillNormal(rng_);
          std::vector<TestTensor*> inputs{&x};
          if (p.affine) inputs.push_back(&w);
          if (p.affine && !p.rms) inputs.push_back(&b);
          LaunchTwice(entry, CaseOf(p, f.in, f.out), device_, inputs, y);
          if (HasFatalFailure()) return;
          CheckLayerNorm(p, x, p.affine ? &w : nullptr, p.affine && !p.rms ? &b : nullptr, y, f.in,
                         f.out);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

// The second pass repairs the mean: on a long row far from 0 the error is some units
// of |μ|, not of n·|μ|, which is what the bound would let through.
TEST_P(BuiltinTest, LayerNormMeanDoesNotLoseBitsToLength) {
  const std::int64_t cols = 100001;
  TestTensor x = TestTensor::Dense(DType::kF32, 1, cols);
  TestTensor y = TestTensor::Dense(DType::kF32, 1, cols);
  x.FillNormal(rng_, 0.25, 1000.0);
  LaunchTwice(BuiltinLayerNormCpu(), CaseOf(LayerNormProblem{1, cols}, DType::kF32, DType::kF32),
              device_, {&x}, y);
  const std::vector<double> values = x.Values();
  double mean = 0, var = 0;
  for (const double v : values) mean += v / static_cast<double>(cols);
  for (const double v : values) var += (v - mean) * (v - mean) / static_cast<double>(cols);
  const double rstd = 1 / std::sqrt(var + 1e-5);
  for (std::int64_t j = 0; j < cols; ++j) {
    const double right = (values[static_cast<std::size_t>(j)] - mean) * rstd;
    ASSERT_LE(std::abs(y.Get(j) - right), 0x1p-24 * (0.02 * mean * rstd + 200)) << j;
  }
}

// With squares that vanish beside eps = 1 the RMS form is x·w exactly, rounded once:
// ties go to even and subnormals survive, in vectors and in the tail.
TEST_P(BuiltinTest, LayerNormRoundsBf16ToNearestEven) {
  for (const std::int64_t cols : {3, 40, 100}) {
    TestTensor x = TestTensor::Dense(DType::kBF16, 5, cols);
    TestTensor w = TestTensor::Dense(DType::kF32, 1, cols);
    TestTensor y = TestTensor::Dense(DType::kBF16, 5, cols);
    for (std::int64_t j = 0; j < cols; ++j) {
      w.Set(j, j % 3 == 0 ? 1 + 0x1p-8 : j % 3 == 1 ? 1 + 0x1.8p-7 : 1);
      for (std::int64_t r = 0; r < 5; ++r) {
        // Some rows hold subnormals: 3·2^-133.
        x.Set(r * cols + j, j % 3 == 2 && r > 1 ? 0x1.8p-132 : -0x1p-100);
      }
    }
    const LayerNormProblem p{5, cols, 1.0, true, true};
    LaunchTwice(BuiltinLayerNormCpu(), CaseOf(p, DType::kBF16, DType::kBF16), device_, {&x, &w}, y);
    for (std::int64_t i = 0; i < 5 * cols; ++i) {
      const double scale = i % cols % 3 == 1 ? 1 + 0x1p-6 : 1;
      EXPECT_EQ(y.Get(i), x.Get(i) * scale) << i;
    }
  }
}

// A NaN or an infinity makes its row NaN and no other.
TEST_P(BuiltinTest, LayerNormKeepsNonFiniteRowsApart) {
  TestTensor x = TestTensor::Dense(DType::kF32, 3, 100);
  TestTensor y = TestTensor::Dense(DType::kF32, 3, 100);
  x.FillNormal(rng_);
  x.Set(105, NAN);
  x.Set(290, INFINITY);
  LaunchTwice(BuiltinLayerNormCpu(), CaseOf(LayerNormProblem{3, 100}, DType::kF32, DType::kF32),
              device_, {&x}, y);
  for (std::int64_t j = 0; j < 300; ++j) EXPECT_EQ(std::isnan(y.Get(j)), j >= 100) << j;
}

// Rows around the caches: the same bits as rows through them, at any alignment.
TEST_P(BuiltinTest, StreamingStoresChangeNothing) {
  for (const Form& f : kFloatForms) {
    for (const std::int64_t cols : {1, 31, 64, 128, 160, 1024, 1056}) {  // most are whole lines
      HeapDevice streaming;
      streaming.SetLastLevel("1");
      TestTensor x = TestTensor::Dense(f.in, 5, cols);
      x.FillNormal(rng_);
      TestTensor cached = TestTensor::Dense(f.out, 5, cols);
      TestTensor around = TestTensor::Dense(f.out, 5, cols);
      LaunchTwice(BuiltinSoftmaxCpu(), CaseOf(SoftmaxProblem{5, cols}, f.in, f.out), device_, {&x},
                  cached);
      LaunchTwice(BuiltinSoftmaxCpu(), CaseOf(SoftmaxProblem{5, cols}, f.in, f.out), streaming,
                  {&x}, around);
      EXPECT_EQ(cached.bytes(), around.bytes()) << Name(f.in) << " softmax " << cols;
      LaunchTwice(BuiltinLayerNormCpu(), CaseOf(LayerNormProblem{5, cols}, f.in, f.out), device_,
                  {&x}, cached);
      LaunchTwice(BuiltinLayerNormCpu(), CaseOf(LayerNormProblem{5, cols}, f.in, f.out), streaming,
                  {&x}, around);
      EXPECT_EQ(cached.bytes(), around.bytes()) << Name(f.in) << " layer_norm " << cols;
    }
  }
}

// A threaded launch, rows taken together, gives the bits that a row alone gives.
TEST_P(BuiltinTest, RowsDoNotDependOnTheirNeighbours) {
  const std::int64_t rows = 303;
  const std::int64_t cols = 333;
  TestTensor x = TestTensor::Dense(DType::kF32, rows, cols);
  TestTensor y = TestTensor::Dense(DType::kF32, rows, cols);
  TestTensor x1 = TestTensor::Dense(DType::kF32, 1, cols);
  TestTensor y1 = TestTensor::Dense(DType::kF32, 1, cols);
  x.FillNormal(rng_);
  const auto check = [&](const KernelEntry& entry, const Problem& all, const Problem& one) {
    LaunchTwice(entry, CaseOf(all, DType::kF32, DType::kF32), device_, {&x}, y);
    for (const std::int64_t r : {std::int64_t{0}, rows / 2, rows - 2, rows - 1}) {
      for (std::int64_t j = 0; j < cols; ++j) x1.Set(j, x.Get(r * cols + j));
      LaunchTwice(entry, CaseOf(one, DType::kF32, DType::kF32), device_, {&x1}, y1);
      for (std::int64_t j = 0; j < cols; ++j) ASSERT_EQ(y.Get(r * cols + j), y1.Get(j)) << r;
    }
  };
  check(BuiltinSoftmaxCpu(), SoftmaxProblem{rows, cols}, SoftmaxProblem{1, cols});
  check(BuiltinLayerNormCpu(), LayerNormProblem{rows, cols}, LayerNormProblem{1, cols});
}

TEST_P(BuiltinTest, CopyMovesEveryByteAndNoOther) {
  for (const char* last_level : {"1", "1000000000"}) {
    HeapDevice device;
    device.SetLastLevel(last_level);
    for (const DType t : {DType::kF64, DType::kF32, DType::kBF16, DType::kI8, DType::kE2M1}) {
      for (const std::int64_t count : {1, 7, 63, 64, 65, 1000, 1025, 300001}) {
        TestTensor x = TestTensor::Dense(t, 1, count);
        TestTensor y = TestTensor::Dense(t, 1, count);
        x.FillBytes(0);
        const TensorView view = x.view();
        for (std::int64_t i = 0; i < view.bytes(); ++i) {
          view.as<unsigned char>()[i] = static_cast<unsigned char>(rng_());
        }
        Plan plan;
        plan.output.dtype = t;
        plan.output.extents = y.view().extents;
        auto kernel = BuiltinCopyCpu().make(CaseOf(CopyProblem{count}, t, t), plan, device);
        ASSERT_TRUE(kernel.ok()) << kernel.status();
        ASSERT_TRUE((*kernel)->Launch(std::vector<TensorView>{view}, y.view()).ok());
        EXPECT_EQ(x.bytes(), y.bytes()) << Name(t) << " " << count;
      }
    }
  }
}

// What a kernel cannot do is refused with the reason.
TEST_P(BuiltinTest, FormsThatDoNotExistAreUnimplemented) {
  Plan plan;
  plan.output.dtype = DType::kF16;
  const auto kernel = BuiltinSoftmaxCpu().make(
      CaseOf(SoftmaxProblem{1, 8}, DType::kE2M1, DType::kF16), plan, device_);
  EXPECT_EQ(kernel.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(kernel.status().message()), testing::HasSubstr("e2m1 to fp16"));
}

INSTANTIATE_TEST_SUITE_P(Targets, BuiltinTest, testing::ValuesIn(Targets()), TargetOf);

}  // namespace
}  // namespace assay
