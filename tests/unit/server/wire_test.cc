#include "server/base/wire.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

namespace assay {
namespace {

template <class P>
void ExpectSameFields(const google::protobuf::Descriptor* message) {
  std::set<std::string> in_table, in_message;
  for (const Field<P>& f : P::Fields()) in_table.insert(std::string(f.name));
  for (int i = 0; i < message->field_count(); ++i) in_message.insert(message->field(i)->name());
  EXPECT_EQ(in_table, in_message) << message->full_name();
}

// A field that is in the proto and not in the table would be ignored in silence.
TEST(Wire, ProblemTablesAndMessagesNameTheSameFields) {
  ExpectSameFields<GemmProblem>(v1::GemmProblem::descriptor());
  ExpectSameFields<ConvProblem>(v1::ConvProblem::descriptor());
  ExpectSameFields<AttentionProblem>(v1::AttentionProblem::descriptor());
  ExpectSameFields<SoftmaxProblem>(v1::SoftmaxProblem::descriptor());
  ExpectSameFields<LayerNormProblem>(v1::LayerNormProblem::descriptor());
  ExpectSameFields<CopyProblem>(v1::CopyProblem::descriptor());
  ExpectSameFields<DequantSoftmaxProblem>(v1::DequantSoftmaxProblem::descriptor());
}

TEST(Wire, TheOneofNamesEveryOp) {
  const auto* oneof = v1::CaseSpec::descriptor()->FindOneofByName("problem");
  ASSERT_EQ(static_cast<std::size_t>(oneof->field_count()), AllOps().size());
  for (int i = 0; i < oneof->field_count(); ++i) {
    EXPECT_EQ(oneof->field(i)->name(), AllOps()[static_cast<std::size_t>(i)]->name());
  }
}

TEST(Wire, EnumsOfTheWireAndOfTheKernelsHaveTheSameValues) {
  const auto* dtypes = v1::DType_descriptor();
  ASSERT_EQ(dtypes->value_count(), kDTypeCount);
  for (int i = 1; i < kDTypeCount; ++i) {
    std::string name = dtypes->FindValueByNumber(i)->name().substr(std::string("DTYPE_").size());
    for (char& ch : name) ch = static_cast<char>(std::tolower(ch));
    EXPECT_EQ(name, Name(static_cast<DType>(i)));
  }
  EXPECT_EQ(static_cast<int>(Verdict::kPassed), v1::VERDICT_PASSED);
  EXPECT_EQ(static_cast<int>(Verdict::kFailed), v1::VERDICT_FAILED);
  EXPECT_EQ(static_cast<int>(Verdict::kInconclusive), v1::VERDICT_INCONCLUSIVE);
  EXPECT_EQ(static_cast<int>(Verdict::kUnsupported), v1::VERDICT_UNSUPPORTED);
  EXPECT_EQ(static_cast<int>(Verdict::kError), v1::VERDICT_ERROR);
  EXPECT_EQ(static_cast<int>(Verdict::kSkipped), v1::VERDICT_SKIPPED);
  EXPECT_EQ(static_cast<int>(Criterion::kLegacy), v1::CRITERION_LEGACY);
  EXPECT_EQ(static_cast<int>(Criterion::kUlp), v1::CRITERION_ULP);
  EXPECT_EQ(static_cast<int>(Mode::kBoth), v1::MODE_BOTH);
}

TEST(Wire, ASpecSurvivesTheRoundTrip) {
  v1::CaseSpec spec;
  spec.mutable_conv()->set_channels(8);
  spec.mutable_conv()->set_filters(4);
  for (const int v : {14, 14}) spec.mutable_conv()->add_input(v);
  for (const int v : {3, 3}) spec.mutable_conv()->add_kernel(v);
  spec.mutable_conv()->set_layout("nhwc");
  spec.set_dtype(v1::DTYPE_FP32);
  spec.set_provider("builtin");
  spec.set_seed(0);
  spec.set_atol(0.0);
  spec.mutable_deadline()->set_nanos(500'000'000);
  spec.mutable_published()->set_name("One-hot pattern");
  spec.mutable_published()->set_max_abs_error(1.82);
  spec.mutable_published()->set_limit(0.5);
  spec.mutable_published()->set_source("lessons");
  std::vector<FieldError> errors;
  const Case c = FromProto(spec, errors);
  ASSERT_TRUE(errors.empty()) << errors[0].field << errors[0].message;
  EXPECT_EQ(ToProto(c).SerializeAsString(), spec.SerializeAsString());
}

TEST(Wire, EveryBadFieldIsNamed) {
  v1::CaseSpec spec;
  spec.mutable_gemm()->set_n(-3);
  spec.mutable_gemm()->set_batch(0);
  spec.set_dtype(static_cast<v1::DType>(99));
  spec.set_rtol(-1);
  std::vector<FieldError> errors;
  FromProto(spec, errors);
  std::set<std::string> fields;
  for (const FieldError& e : errors) fields.insert(e.field);
  EXPECT_THAT(fields, ::testing::IsSupersetOf(
                          {"gemm.m", "gemm.n", "gemm.k", "gemm.batch", "dtype", "rtol"}));
}

TEST(Wire, AMissingProblemIsAnError) {
  std::vector<FieldError> errors;
  FromProto(v1::CaseSpec(), errors);
  ASSERT_FALSE(errors.empty());
  EXPECT_EQ(errors[0].field, "problem");
}

TEST(Wire, ATimeComesWithItsNoiseAndItsConditions) {
  Case c;
  c.problem = GemmProblem{.m = 2, .n = 2, .k = 2};
  c.dtype = DType::kF32;
  CaseOutcome outcome;
  outcome.verdict = Verdict::kPassed;
  outcome.bench = BenchStats{};
  outcome.bench->median_seconds = 1e-3;
  outcome.bench->samples = 12;
  outcome.bench->noisy = true;
  outcome.bench->conditions = BenchConditions{};
  EXPECT_FALSE(ToResult(c, outcome, "cpu:0").bench().has_conditions()) << "nothing was told";
  EXPECT_FALSE(ToResult(c, outcome, "cpu:0").bench().has_launches_per_sample()) << "each by itself";
  outcome.bench->launches_per_sample = 64;
  outcome.bench->replayed = true;
  outcome.bench->conditions->min_clock_hertz = 2e9;
  outcome.bench->conditions->throttle_reasons = {"thermal"};
  outcome.bench->conditions->waiting_ratio = 0.25;
  const v1::BenchStats bench = ToResult(c, outcome, "cpu:0").bench();
  EXPECT_TRUE(bench.noisy());
  EXPECT_EQ(bench.launches_per_sample(), 64);
  EXPECT_EQ(bench.conditions().min_clock_hertz(), 2e9);
  EXPECT_FALSE(bench.conditions().has_mean_power_watts());
  EXPECT_EQ(bench.conditions().waiting_ratio(), 0.25);
  ASSERT_EQ(bench.conditions().throttle_reasons_size(), 1);
  EXPECT_EQ(bench.conditions().throttle_reasons(0), "thermal");
}

// What was not measured must be absent on the wire, never 0.
TEST(Wire, AnUnmeasuredValueIsAbsent) {
  Case c;
  c.problem = GemmProblem{.m = 2, .n = 2, .k = 2};
  c.dtype = DType::kF32;
  CaseOutcome outcome;
  outcome.verdict = Verdict::kFailed;
  outcome.plan = Plan{};
  outcome.plan->output.dims = {1, 2, 2};
  outcome.plan->output.dtype = DType::kF32;
  outcome.compare = CompareResult{};
  outcome.compare->count = 4;
  outcome.compare->nan_count = 4;
  const v1::CaseResult result = ToResult(c, outcome, "cpu:0");
  EXPECT_FALSE(result.stats().has_rho());
  EXPECT_FALSE(result.stats().has_max_abs_error());
  EXPECT_FALSE(result.stats().has_cosine());
  EXPECT_FALSE(result.stats().has_bias_z());
  EXPECT_FALSE(result.has_bench());
  EXPECT_FALSE(result.has_deterministic());
}

}  // namespace
}  // namespace assay
