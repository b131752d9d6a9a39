// `assay compare` against a daemon of the test's making: what is sent, what is refused
// before anything is, and what is said of the answer.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "client/lib/operands.h"
#include "nlohmann/json.hpp"
#include "tests/unit/client/command.h"
#include "tests/unit/client/npy_files.h"

namespace assay::client::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Keeps what was sent; answers PASSED, or as it is told.
class CompareService final : public v1::ValidationService::Service {
 public:
  CompareService() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~CompareService() override { server_->Shutdown(); }

  grpc::Status CompareTensors(grpc::ServerContext*,
                              grpc::ServerReader<v1::CompareTensorsRequest>* reader,
                              v1::CaseResult* response) override {
    v1::CompareTensorsRequest request;
    ++calls;
    if (!reader->Read(&request) || !request.has_header()) return {grpc::INVALID_ARGUMENT, "header"};
    header = request.header();
    tensors.assign(static_cast<std::size_t>(2 + header.inputs_size()), "");
    if (!status.ok()) return status;
    while (reader->Read(&request)) {
      largest = std::max(largest, request.chunk().data().size());
      tensors.at(static_cast<std::size_t>(request.chunk().tensor())) += request.chunk().data();
    }
    *response = result;
    response->set_device("cpu:0");
    return grpc::Status::OK;
  }

  Output Run(std::vector<std::string> args) const {
    args.insert(args.begin(), "compare");
    args.insert(args.end(), {"--target", "127.0.0.1:" + std::to_string(port_)});
    return Assay(std::move(args));
  }

  grpc::Status status;
  v1::CaseResult result;
  v1::CompareHeader header;
  std::vector<std::string> tensors;
  std::size_t largest = 0;
  int calls = 0;

 private:
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

class CompareCommand : public ::testing::Test {
 protected:
  CompareCommand() {
    service_.result.set_verdict(v1::VERDICT_PASSED);
    service_.result.set_criterion(v1::CRITERION_DERIVED);
    service_.result.mutable_stats()->set_count(6);
    a_ = folder_.Array<float>("a.npy", "<f4", {2, 3}, {1, 2, 3, 4, 5, 6});
    b_ = folder_.Array<double>("b.npy", "<f8", {3, 2}, {1, 2, 3, 4, 5, 6});
  }

  // Refused before a daemon is asked.
  void Refused(std::vector<std::string> args, const std::string& said) {
    const int before = service_.calls;
    const Output run = service_.Run(std::move(args));
    EXPECT_EQ(run.code, 2) << run.err;
    EXPECT_THAT(run.err, HasSubstr(said));
    EXPECT_THAT(run.err, StartsWith("assay: "));
    EXPECT_EQ(run.out, "");
    EXPECT_EQ(service_.calls, before);
  }

  template <class T>
  std::vector<T> Sent(std::size_t tensor) const {
    std::vector<T> values(service_.tensors[tensor].size() / sizeof(T));
    std::memcpy(values.data(), service_.tensors[tensor].data(), values.size() * sizeof(T));
    return values;
  }

  NpyFolder folder_;
  CompareService service_;
  std::string a_, b_;
};

TEST_F(CompareCommand, TwoFilesOfDifferentTypesAndOrders) {
  // [[1, 2, 3], [4, 5, 6]] by columns.
  const std::string f = folder_.Array<double>("f.npy", "<f8", {2, 3}, {1, 4, 2, 5, 3, 6}, true);
  const Output run = service_.Run({a_, f, "--accumulations", "64"});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("passed"));
  EXPECT_THAT(run.out, HasSubstr("a.npy against f.npy, derived"));
  EXPECT_EQ(service_.header.actual().dtype(), v1::DTYPE_FP32);
  EXPECT_EQ(service_.header.expected().dtype(), v1::DTYPE_FP64);
  EXPECT_THAT(service_.header.expected().shape(), ElementsAre(2, 3));
  EXPECT_EQ(service_.header.accumulations(), 64);
  EXPECT_EQ(service_.header.criterion(), v1::CRITERION_UNSPECIFIED);
  EXPECT_THAT(Sent<float>(0), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(Sent<double>(1), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST_F(CompareCommand, PiecesAreAtMostAMebibyte) {
  const std::vector<float> many(1'000'001, 0.5f);
  const std::string x = folder_.Array("x.npy", "<f4", {1'000'001}, many);
  EXPECT_EQ(service_.Run({x, x}).code, 0);
  EXPECT_EQ(service_.largest, std::size_t{1} << 20);
  EXPECT_EQ(Sent<float>(0), many);
  EXPECT_EQ(Sent<float>(1), many);
}

TEST_F(CompareCommand, RawWordsTakeTheFormatThatIsNamed) {
  const std::string u2 = folder_.Array<std::uint16_t>("u2.npy", "<u2", {2, 3}, {1, 2, 3, 4, 5, 6});
  const std::string u1 = folder_.Array<std::uint8_t>("u1.npy", "|u1", {2, 3}, {1, 2, 3, 4, 5, 6});
  const std::string half =
      folder_.Array<std::uint8_t>("h.npy", "|u1", {2, 6}, std::vector<std::uint8_t>(12));
  Refused({u2, a_},
          "u2.npy: holds raw words of 16 bits; say which format they are: --dtype (fp16, bf16)");
  Refused({u2, a_, "--dtype", "e4m3fn"}, "u2.npy: its elements of 16 bits cannot be e4m3fn");
  Refused({a_, a_, "--dtype", "bf16"}, "dtype: no file can hold bf16");
  Refused({a_, a_, "--expected-dtype", "fp16"},
          "a.npy: its elements of 32 bits cannot be fp16; --expected-dtype may be fp32, tf32");
  Refused({u2, a_, "--dtype", "fp15"}, "fp15");

  EXPECT_EQ(service_.Run({u2, a_, "--dtype", "bf16"}).code, 0);
  EXPECT_EQ(service_.header.actual().dtype(), v1::DTYPE_BF16);
  EXPECT_EQ(service_.header.expected().dtype(), v1::DTYPE_FP32) << "its own";
  EXPECT_EQ(service_.Run({u1, u2, "--actual-dtype", "e5m2", "--dtype", "fp16"}).code, 0);
  EXPECT_EQ(service_.header.actual().dtype(), v1::DTYPE_E5M2);
  EXPECT_EQ(service_.header.expected().dtype(), v1::DTYPE_FP16);
  EXPECT_EQ(service_.Run({a_, a_, "--dtype", "tf32"}).code, 0);
  EXPECT_EQ(service_.header.actual().dtype(), v1::DTYPE_TF32);
  // Two e2m1 to a byte.
  EXPECT_EQ(service_.Run({u1, half, "--actual-dtype", "e2m1", "--expected-dtype", "e4m3fn"}).code,
            0);
  EXPECT_THAT(service_.header.actual().shape(), ElementsAre(2, 6));
}

TEST_F(CompareCommand, BadInputIsRefusedByName) {
  Refused({}, "ACTUAL is required");
  Refused({a_}, "nothing to hold ACTUAL against");
  Refused({a_, b_},
          b_ + ": its shape is [3,2], that of " + a_ + " is [2,3]; they must be the same");
  Refused({a_, "/nowhere.npy"}, "/nowhere.npy: cannot be read");
  Refused({a_, a_, "--atol", "-1"}, "atol: must be a finite number, 0 (exact) or more, got -1");
  Refused({a_, a_, "--rtol", "nan"}, "rtol");
  Refused({a_, a_, "--atol", "inf"}, "atol: must be a finite number");
  Refused({a_, a_, "--max-ulp", "-0.5"}, "max-ulp");
  Refused({a_, a_, "--accumulations", "0"}, "accumulations: must be from 1");
  Refused({a_, a_, "--split-k", "-3"}, "split-k: must be from 1");
  Refused({a_, a_, "--criterion", "bonud"}, "did you mean \"bound\"?");
  Refused({a_, a_, "--criterion", "bound"}, "--inputs A.npy,B.npy --op gemm");
  Refused({a_, "--expected-digest", "12"}, "32 hexadecimal digits");
  Refused({a_, a_, "--expected-digest", std::string(32, 'a')}, "too much to hold ACTUAL against");
  Refused({a_, "--inputs", a_ + "," + b_}, "inputs: need the operation");
  Refused({a_, a_, "--op", "gemm"}, "op: needs the operands");
  Refused({a_, a_, "--trans-a"}, "trans-a: needs --op");
  Refused({a_, a_, "--deadline", "10s"}, "deadline: needs --op");
  Refused({a_, a_, "third.npy"}, "third.npy");
  Refused({a_, a_, "--formt", "json"}, "--format");
}

TEST_F(CompareCommand, AllThatIsWrongIsSaidAtOnce) {
  const Output run = service_.Run({a_, "--atol", "-1", "--criterion", "x"});
  EXPECT_EQ(run.code, 2);
  EXPECT_THAT(run.err, HasSubstr("atol"));
  EXPECT_THAT(run.err, HasSubstr("criterion"));
  EXPECT_THAT(run.err, HasSubstr("nothing to hold"));
}

TEST_F(CompareCommand, ExplicitZerosAreSent) {
  EXPECT_EQ(service_.Run({a_, a_, "--atol", "0", "--rtol", "0"}).code, 0);
  EXPECT_TRUE(service_.header.has_atol());
  EXPECT_TRUE(service_.header.has_rtol());
  EXPECT_FALSE(service_.header.has_max_ulp());
}

TEST_F(CompareCommand, OperandsGiveTheExtents) {
  const std::string c = folder_.Array<float>("c.npy", "<f4", {2, 2}, {22, 28, 49, 64});
  const std::string b = folder_.Array<float>("bf.npy", "<f4", {3, 2}, {1, 2, 3, 4, 5, 6});
  const Output run = service_.Run({c, "--inputs", a_ + "," + b, "--op", "gemm", "--alpha", "2"});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_FALSE(service_.header.has_expected());
  const v1::CaseSpec& spec = service_.header.operation();
  EXPECT_EQ(spec.gemm().m(), 2);
  EXPECT_EQ(spec.gemm().n(), 2);
  EXPECT_EQ(spec.gemm().k(), 3);
  EXPECT_EQ(spec.gemm().alpha(), 2);
  EXPECT_EQ(spec.dtype(), v1::DTYPE_FP32);
  EXPECT_EQ(spec.out_dtype(), v1::DTYPE_FP32);
  EXPECT_THAT(Sent<float>(2), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(Sent<float>(3), ElementsAre(1, 2, 3, 4, 5, 6));
  Refused({c, "--inputs", a_ + "," + a_, "--op", "gemm"},
          "do not multiply: k is 3 in the one and 2 in the other");
  Refused({c, "--inputs", a_, "--op", "gemm"}, "inputs: must be at least A,B, got 1");
  Refused({c, "--inputs", a_, "--op", "softmax", "--trans-a"}, "trans-a: is no option of softmax");
  Refused({c, "--inputs", a_, "--op", "sofmax"}, "softmax");
}

TEST_F(CompareCommand, TheDaemonsRefusalNamesTheFile) {
  service_.status = BadRequest({{"header.inputs[1].shape", "b must be [3,2], got [2,3]"},
                                {"header.actual.dtype", "d is fp16 here, got fp32"},
                                {"header.operation.gemm.m", "must be at least 1, got 0"}});
  const Output run = service_.Run({a_, "--inputs", a_ + "," + b_, "--op", "gemm"});
  EXPECT_EQ(run.code, 2);
  EXPECT_THAT(run.err, HasSubstr(b_ + ": shape: b must be [3,2], got [2,3]"));
  EXPECT_THAT(run.err, HasSubstr(a_ + ": dtype: d is fp16 here"));
  EXPECT_THAT(run.err, HasSubstr("assay: gemm.m: must be at least 1"));
  service_.status = {grpc::StatusCode::RESOURCE_EXHAUSTED, "the arena of cpu:0 has 7"};
  EXPECT_EQ(service_.Run({a_, a_}).code, 3);
}

TEST_F(CompareCommand, TheVerdictIsTheExitCode) {
  const std::pair<v1::Verdict, int> codes[] = {{v1::VERDICT_PASSED, 0},
                                               {v1::VERDICT_FAILED, 1},
                                               {v1::VERDICT_ERROR, 1},
                                               {v1::VERDICT_INCONCLUSIVE, 4}};
  for (const auto& [verdict, code] : codes) {
    service_.result.set_verdict(verdict);
    EXPECT_EQ(service_.Run({a_, a_}).code, code) << verdict;
  }
}

TEST_F(CompareCommand, TheReportAndTheLineThatRepeatsIt) {
  service_.result = MakeResult(0, v1::VERDICT_FAILED);
  service_.result.mutable_spec()->clear_problem();
  const Output run =
      service_.Run({a_, a_, "--atol", "1e-3", "--device", "cpu:0", "--format", "json"});
  EXPECT_EQ(run.code, 1);
  const auto json = nlohmann::json::parse(run.out);
  EXPECT_EQ(json["schema"], "assay.report/v1");
  EXPECT_EQ(json["verdict"], "FAILED");
  const auto& test = json["tests"][0];
  EXPECT_EQ(test["op"], "compare");
  EXPECT_EQ(test["name"], "a.npy against a.npy, bound");
  EXPECT_EQ(test["repro"], "assay compare " + a_ + " " + a_ + " --atol 1e-3 --device cpu:0");
  EXPECT_TRUE(test.contains("first_mismatch"));
  const Output table = service_.Run({a_, a_, "--atol", "1e-3"});
  EXPECT_THAT(table.out, HasSubstr("FAILED"));
  EXPECT_THAT(table.out, HasSubstr("repro     assay compare"));
}

TEST_F(CompareCommand, HelpSaysEveryOption) {
  const Output help = Assay({"compare", "--help"});
  EXPECT_EQ(help.code, 0);
  for (const char* word : {"ACTUAL", "EXPECTED", "--dtype", "--actual-dtype", "--expected-dtype",
                           "--criterion", "--accumulations", "--split-k", "--atol", "--rtol",
                           "--max-ulp", "--expected-digest", "--inputs", "--op", "--trans-a",
                           "--device", "--deadline", "assay compare out.npy ref.npy"}) {
    EXPECT_THAT(help.out, HasSubstr(word));
  }
  // What a word means in each operator that has it.
  EXPECT_THAT(help.out,
              ContainsRegex("--kind WORD +reduce: sum, max or argmax; elementwise: add,"));
}

v1::CaseSpec Filled(v1::CaseSpec spec, const std::vector<std::vector<std::int64_t>>& shapes) {
  std::vector<NamedShape> operands;
  for (const auto& shape : shapes)
    operands.push_back({"x" + std::to_string(operands.size()), shape});
  const absl::Status status = FillExtents(operands, spec);
  EXPECT_TRUE(status.ok()) << status;
  return spec;
}

TEST(Operands, GemmTransposedBatchedAndBroadcast) {
  v1::CaseSpec spec;
  spec.mutable_gemm()->set_trans_a(true);
  spec.mutable_gemm()->set_trans_b(true);
  v1::GemmProblem p = Filled(spec, {{5, 3, 2}, {5, 4, 3}}).gemm();
  EXPECT_EQ(p.batch(), 5);
  EXPECT_EQ(p.m(), 2);
  EXPECT_EQ(p.n(), 4);
  EXPECT_EQ(p.k(), 3);
  v1::CaseSpec plain;
  plain.mutable_gemm();
  p = Filled(plain, {{5, 7, 3}, {3, 4}}).gemm();
  EXPECT_EQ(p.m(), 35) << "one B serves all rows";
  EXPECT_FALSE(p.has_batch());
}

TEST(Operands, OtherOperators) {
  v1::CaseSpec attention;
  attention.mutable_attention();
  const v1::AttentionProblem a =
      Filled(attention, {{2, 8, 16, 64}, {2, 4, 32, 64}, {2, 4, 32, 64}, {16, 32}}).attention();
  EXPECT_EQ(a.batch(), 2);
  EXPECT_EQ(a.heads(), 8);
  EXPECT_EQ(a.kv_heads(), 4);
  EXPECT_EQ(a.seq(), 16);
  EXPECT_EQ(a.kv_seq(), 32);
  EXPECT_EQ(a.dim(), 64);
  EXPECT_GT(a.mask_density(), 0);
  v1::CaseSpec softmax;
  softmax.mutable_softmax();
  EXPECT_EQ(Filled(softmax, {{2, 3, 7}}).softmax().rows(), 6);
  v1::CaseSpec norm;
  norm.mutable_layer_norm();
  EXPECT_FALSE(Filled(norm, {{2, 7}}).layer_norm().affine());
  EXPECT_TRUE(Filled(norm, {{2, 7}, {7}, {7}}).layer_norm().affine());
  v1::CaseSpec conv;
  conv.mutable_conv()->set_layout("nhwc");
  const v1::ConvProblem c = Filled(conv, {{2, 9, 8, 6}, {4, 3, 2, 3}}).conv();
  EXPECT_EQ(c.batch(), 2);
  EXPECT_EQ(c.channels(), 6);
  EXPECT_EQ(c.filters(), 4);
  EXPECT_EQ(c.groups(), 2);
  EXPECT_THAT(c.input(), ElementsAre(9, 8));
  EXPECT_THAT(c.kernel(), ElementsAre(3, 2));
  v1::CaseSpec copy;
  copy.mutable_copy();
  EXPECT_EQ(Filled(copy, {{2, 3}}).copy().count(), 6);
  v1::CaseSpec dequant;
  dequant.mutable_dequant_softmax();
  const v1::DequantSoftmaxProblem d = Filled(dequant, {{2, 3, 7}, {7, 5}, {5}}).dequant_softmax();
  EXPECT_EQ(d.m(), 6);
  EXPECT_EQ(d.n(), 5);
  EXPECT_EQ(d.k(), 7);
  EXPECT_FALSE(FillExtents({{"a", {3, 7}}, {"w", {5, 7}}, {"s", {5}}}, dequant).ok());
  dequant.mutable_dequant_softmax()->set_transpose_w(true);
  EXPECT_EQ(Filled(dequant, {{3, 7}, {5, 7}, {5}}).dequant_softmax().n(), 5);
  EXPECT_FALSE(FillExtents({{"a", {3, 7}}, {"w", {5, 7}}}, dequant).ok()) << "no scales";
  EXPECT_FALSE(FillExtents({{"x", {4}}, {"w", {4}}}, conv).ok());
  EXPECT_FALSE(FillExtents({}, softmax).ok());
}

}  // namespace
}  // namespace assay::client::testing
