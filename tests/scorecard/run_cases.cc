// Runs cases as assay-worker does, several in one process: on the CPU, or on the emulated GPU.
//
//   scorecard_cases [options of GoogleTest]
//   scorecard_gpu_cases [options of GoogleTest]
//
// SCORECARD_CASES names a file with a case on each line: its name, a tab, a CaseSpec as JSON.
// SCORECARD_RESULTS names the file to which a line is added for each result: the case's name, a
// tab, a CaseResult as JSON. Each case is a test, so that the switch of the mutants
// (tests/mutants/mutant_switch.h) tells which mutants a case reaches. A case's verdict fails no
// test, unless SCORECARD_STOP is set.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <string>

#include "google/protobuf/util/json_util.h"
#include "kernels/backends/backend.h"
#include "kernels/bench/ceilings.h"
#include "kernels/ops/criterion.h"
#include "kernels/providers/provider.h"
#include "kernels/runtime/device.h"
#include "server/base/wire.h"
#include "server/worker/kept_ceilings.h"
#include "server/worker/memory_limit.h"
#include "server/worker/worker_service.h"
#include "tests/scorecard/device.h"

namespace assay::server {
namespace {

struct Worker {
  std::unique_ptr<Device> device;
  Registry registry;
  std::unique_ptr<KnownCeilings> ceilings;
  std::string results;

  v1::CaseResult Run(const v1::CaseSpec& spec) {
    MemoryLimit limit(
        0, MemoryLimit::KernelAllowance(device->info().memory_bytes, device->info().compute_units));
    return RunCaseSpec(spec, *device, registry, ceilings.get(), nullptr, &limit);
  }
};

class CaseTest : public testing::Test {
 public:
  CaseTest(Worker& worker, std::string name, std::string json)
      : worker_(worker), name_(std::move(name)), json_(std::move(json)) {}

  void TestBody() override {
    v1::CaseSpec spec;
    ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(json_, &spec).ok()) << json_;
    spec.set_mode(v1::MODE_VALIDATE);
    if (spec.repeats() == 0) spec.set_repeats(1);
    if (!spec.has_seed()) spec.set_seed(1);
    google::protobuf::util::JsonPrintOptions print;
    print.preserve_proto_field_names = true;
    std::string json;
    const v1::CaseResult result = worker_.Run(spec);
    ASSERT_TRUE(google::protobuf::util::MessageToJsonString(result, &json, print).ok());
    std::ofstream(worker_.results, std::ios::app) << name_ << '\t' << json << '\n';
    if (std::getenv("SCORECARD_STOP") == nullptr) return;
    EXPECT_EQ(result.verdict(), v1::VERDICT_PASSED);
  }

 private:
  Worker& worker_;
  const std::string name_;
  const std::string json_;
};

int Main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const char* cases = std::getenv("SCORECARD_CASES");
  const char* results = std::getenv("SCORECARD_RESULTS");
  if (cases == nullptr || results == nullptr) {
    std::fputs("scorecard_cases: SCORECARD_CASES and SCORECARD_RESULTS must name files\n", stderr);
    return 2;
  }
  const Backend& backend = scorecard::TheBackend();
  absl::StatusOr<std::unique_ptr<Device>> device = scorecard::MakeDevice();
  if (!device.ok()) return 2;
  Worker worker;
  worker.device = *std::move(device);
  worker.results = results;
  backend.Register(worker.registry);
  worker.ceilings = KeepCeilings(backend.MakeCeilings(*worker.device), "scorecard");
  std::ifstream file(cases);
  for (std::string line; std::getline(file, line);) {
    const std::size_t tab = line.find('\t');
    if (tab == std::string::npos) continue;
    const std::string name = line.substr(0, tab), json = line.substr(tab + 1);
    testing::RegisterTest(
        "Case", name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
        [&worker, name, json]() -> testing::Test* { return new CaseTest(worker, name, json); });
  }
  return RUN_ALL_TESTS();
}

}  // namespace
}  // namespace assay::server

int main(int argc, char** argv) { return assay::server::Main(argc, argv); }
