#include "server/base/wire.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "server/base/finding.h"

namespace assay::server {
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

// "REASON_BOUND" -> "bound".
std::string WordOf(const google::protobuf::EnumDescriptor& type, int number) {
  const std::string zero = type.value(0)->name();
  std::string word = type.FindValueByNumber(number)->name().substr(zero.find("UNSPECIFIED"));
  for (char& ch : word) ch = static_cast<char>(std::tolower(ch));
  return word;
}

// The words of reports are those of the enums, so that either can be read for the other.
TEST(Wire, ReasonsBlamesAndPhasesAreThoseOfTheKernels) {
  ASSERT_EQ(v1::Reason_ARRAYSIZE, static_cast<int>(std::size(kReasons)));
  for (int i = 1; i < v1::Reason_ARRAYSIZE; ++i) {
    const v1::Finding finding = MakeFinding(static_cast<v1::Reason>(i), "why");
    EXPECT_EQ(finding.reason(), WordOf(*v1::Reason_descriptor(), i));
    EXPECT_EQ(finding.reason_code(), i);
    EXPECT_NE(finding.blame(), v1::BLAME_UNSPECIFIED) << finding.reason();
    EXPECT_EQ(finding.message(), "why");
  }
  EXPECT_EQ(static_cast<int>(Blame::kNobody), v1::BLAME_NOBODY);
  EXPECT_EQ(v1::Blame_ARRAYSIZE, v1::BLAME_NOBODY + 1);
  for (int i = 1; i < v1::Phase_ARRAYSIZE; ++i) {
    v1::Finding finding;
    SetPhase(static_cast<v1::Phase>(i), finding);
    EXPECT_EQ(finding.phase(), WordOf(*v1::Phase_descriptor(), i));
  }
}

// Reports have a phase beside each finding of a case.
TEST(Wire, AFindingSaysWhichStepFoundIt) {
  Case c;
  c.problem = GemmProblem{};
  CaseOutcome outcome;
  outcome.verdict = Verdict::kFailed;
  for (std::size_t i = 1; i < std::size(kReasons); ++i) {
    outcome.findings.push_back({static_cast<Reason>(i), "why"});
  }
  outcome.last_phase = Phase::kPrepare;
  const v1::CaseResult result = ToResult(c, outcome, "cpu:0");
  const std::map<v1::Reason, std::string> found = {{v1::REASON_BOUND, "compare"},
                                                   {v1::REASON_GUARD, "guards"},
                                                   {v1::REASON_NOISY, "bench"},
                                                   {v1::REASON_FAULT, "prepare"},
                                                   {v1::REASON_UNSUPPORTED, "prepare"}};
  for (const v1::Finding& finding : result.findings()) {
    EXPECT_NE(finding.phase_code(), v1::PHASE_UNSPECIFIED) << finding.reason();
    const auto known = found.find(finding.reason_code());
    if (known != found.end()) {
      EXPECT_EQ(finding.phase(), known->second);
    }
  }
  const v1::CaseResult skipped = ResultWithoutRun(ToProto(c), "cpu:0", v1::VERDICT_SKIPPED,
                                                  MakeFinding(v1::REASON_BUDGET, "no time"));
  EXPECT_EQ(skipped.findings(0).phase(), "") << "it never began";
}

// The death of a user's kernel, which did not end the worker.
TEST(Wire, AFindingSaysHowTheProcessOfAKernelEnded) {
  EXPECT_EQ(static_cast<int>(DeathCause::kSignal), v1::DEATH_CAUSE_SIGNAL);
  EXPECT_EQ(static_cast<int>(DeathCause::kKilled), v1::DEATH_CAUSE_KILLED);
  EXPECT_EQ(static_cast<int>(DeathCause::kExit), v1::DEATH_CAUSE_EXIT);
  EXPECT_EQ(static_cast<int>(DeathCause::kMemory), v1::DEATH_CAUSE_MEMORY);
  EXPECT_EQ(static_cast<int>(DeathCause::kDeadline), v1::DEATH_CAUSE_DEADLINE);
  Case c;
  c.problem = GemmProblem{};
  CaseOutcome outcome;
  outcome.verdict = Verdict::kError;
  outcome.loaded_libraries = {"libgomp.so.1"};
  Finding exited{Reason::kCrash, "it left"}, crashed{Reason::kCrash, "it fell"};
  exited.failure = KernelFailure{.cause = DeathCause::kExit};
  crashed.failure = KernelFailure{.cause = DeathCause::kSignal, .signal = 11, .preparing = true};
  outcome.findings = {exited, crashed, {Reason::kBound, "it is wrong"}};
  const v1::CaseResult result = ToResult(c, outcome, "cpu:0");
  ASSERT_EQ(result.findings_size(), 3);
  EXPECT_EQ(result.findings(0).death().cause(), v1::DEATH_CAUSE_EXIT);
  EXPECT_TRUE(result.findings(0).death().has_exit_code()) << "0 is a status, too";
  EXPECT_FALSE(result.findings(0).death().has_signal());
  EXPECT_EQ(result.findings(0).phase_code(), v1::PHASE_KERNEL);
  EXPECT_EQ(result.findings(1).death().signal(), 11);
  EXPECT_FALSE(result.findings(1).death().has_exit_code());
  EXPECT_EQ(result.findings(1).phase_code(), v1::PHASE_PREPARE);
  EXPECT_FALSE(result.findings(2).has_death());
  ASSERT_EQ(result.loaded_libraries_size(), 1);
  EXPECT_EQ(result.loaded_libraries(0), "libgomp.so.1");
}

std::vector<FieldError> ErrorsOf(const v1::CaseSpec& spec) {
  std::vector<FieldError> errors;
  FromProto(spec, errors);
  return errors;
}

// Without any of the fields that the proto says must be set a problem is refused, by that field's
// name; and no other field must be set.
TEST(Wire, TheFieldsThatMustBeSetAreThoseTheChecksMiss) {
  const auto* oneof = v1::CaseSpec::descriptor()->FindOneofByName("problem");
  for (int i = 0; i < oneof->field_count(); ++i) {
    const auto* problem = oneof->field(i);
    v1::CaseSpec spec;
    spec.set_dtype(v1::DTYPE_FP32);
    auto* message = spec.GetReflection()->MutableMessage(&spec, problem);
    std::vector<const google::protobuf::FieldDescriptor*> marked;
    if (FindOp(problem->name())->traits().own_reference) {
      spec.set_provider("user/0123456789ab");
      spec.set_reference("user/ba9876543210");
      spec.set_accumulations(4);
    }
    for (int n = 0; n < problem->message_type()->field_count(); ++n) {
      const auto* field = problem->message_type()->field(n);
      if (!field->options().GetExtension(v1::must_be_set)) continue;
      marked.push_back(field);
      if (field->is_repeated() &&
          field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_STRING) {
        // Its help shows one: "an input: x=64x1000, …".
        const std::string help = field->options().GetExtension(v1::help);
        const std::size_t begin = help.find(": ") + 2;
        message->GetReflection()->AddString(message, field,
                                            help.substr(begin, help.find(',') - begin));
      } else if (field->is_repeated()) {
        message->GetReflection()->AddInt64(message, field, 1);
      } else if (field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_STRING) {
        // The first word of its help is one that it takes.
        const std::string help = field->options().GetExtension(v1::help);
        const std::string word = help.substr(0, help.find_first_of(", "));
        message->GetReflection()->SetString(message, field, word);
      } else {
        message->GetReflection()->SetInt64(message, field, 4);
      }
    }
    EXPECT_FALSE(marked.empty()) << problem->name();
    for (const FieldError& e : ErrorsOf(spec)) ADD_FAILURE() << e.field << " " << e.message;
    for (const auto* field : marked) {
      v1::CaseSpec without = spec;
      auto* less = without.GetReflection()->MutableMessage(&without, problem);
      less->GetReflection()->ClearField(less, field);
      std::set<std::string> missed;
      for (const FieldError& e : ErrorsOf(without)) missed.insert(e.field);
      EXPECT_TRUE(missed.contains(problem->name() + "." + field->name())) << field->full_name();
    }
  }
}

TEST(Wire, ASpecSurvivesTheRoundTrip) {
  v1::CaseSpec spec;
  spec.mutable_conv()->set_channels(8);
  spec.mutable_conv()->set_filters(4);
  for (const int v : {14, 14}) spec.mutable_conv()->add_input(v);
  for (const int v : {3, 3}) spec.mutable_conv()->add_kernel(v);
  spec.mutable_conv()->set_layout("nhwc");
  spec.set_dtype(v1::DTYPE_FP32);
  spec.set_provider("user/0123456789ab");
  spec.set_operand_roundoff(0x1p-20);
  spec.set_flushes_subnormals(true);
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

  v1::CaseSpec rows;
  rows.mutable_softmax()->set_rows(4);
  rows.mutable_softmax()->set_cols(8);
  rows.set_dtype(v1::DTYPE_BF16);
  rows.set_provider("user/0123456789ab");
  rows.set_intermediate_dtype(v1::DTYPE_BF16);
  EXPECT_EQ(ToProto(FromProto(rows, errors)).SerializeAsString(), rows.SerializeAsString());

  v1::CaseSpec product;
  product.mutable_gemm()->set_m(8);
  product.mutable_gemm()->set_n(8);
  product.mutable_gemm()->set_k(8);
  product.set_dtype(v1::DTYPE_BF16);
  product.set_provider("user/0123456789ab");
  product.set_cuts_off_sums(true);
  EXPECT_EQ(ToProto(FromProto(product, errors)).SerializeAsString(), product.SerializeAsString());
  EXPECT_TRUE(errors.empty()) << errors[0].field << errors[0].message;
}

// A field that is set to its default is not written again, so this holds help and struct together.
TEST(Wire, HelpOfProblemsStatesTheDefaultsOfTheStructs) {
  const auto* oneof = v1::CaseSpec::descriptor()->FindOneofByName("problem");
  const std::regex form("\\(default ([a-z]+|[-0-9.e]+)[:)]");
  int found = 0;
  for (int i = 0; i < oneof->field_count(); ++i) {
    const auto* problem = oneof->field(i)->message_type();
    for (int f = 0; f < problem->field_count(); ++f) {
      const auto* field = problem->field(f);
      std::smatch stated;
      const std::string help = field->options().GetExtension(v1::help);
      if (field->is_repeated() || !std::regex_search(help, stated, form)) continue;
      ++found;
      v1::CaseSpec spec;
      auto* message = spec.GetReflection()->MutableMessage(&spec, oneof->field(i));
      const auto* reflection = message->GetReflection();
      if (field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_STRING) {
        reflection->SetString(message, field, stated[1]);
      } else if (field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_DOUBLE) {
        reflection->SetDouble(message, field, std::stod(stated[1]));
      } else {
        reflection->SetInt64(message, field, std::stoll(stated[1]));
      }
      std::vector<FieldError> errors;
      const v1::CaseSpec written = ToProto(FromProto(spec, errors));
      const auto& out = written.GetReflection()->GetMessage(written, oneof->field(i));
      EXPECT_FALSE(reflection->HasField(out, field)) << field->full_name() << ": " << help;
    }
  }
  EXPECT_GE(found, 15);
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
}  // namespace assay::server
