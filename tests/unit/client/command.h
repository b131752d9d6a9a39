// Runs a command line in this process and keeps what it wrote.
#ifndef ASSAY_TESTS_UNIT_CLIENT_COMMAND_H_
#define ASSAY_TESTS_UNIT_CLIENT_COMMAND_H_

#include <sstream>
#include <string>
#include <vector>

#include "client/cli/app.h"
#include "tests/unit/client/fake_service.h"

namespace assay::client::testing {

struct Output {
  int code = -1;
  std::string out;
  std::string err;
};

// `live`: as on a terminal of 120 columns.
inline Output Assay(std::vector<std::string> args, bool live = false) {
  std::ostringstream out, err;
  Streams streams{out, err};
  streams.live = live;
  streams.width = live ? 120 : 0;
  Output output;
  output.code = RunCommandLine(args, streams);
  output.out = out.str();
  output.err = err.str();
  return output;
}

inline Output Assay(const FakeService& service, std::vector<std::string> args, bool live = false) {
  args.insert(args.end(), {"--target", service.target()});
  return Assay(std::move(args), live);
}

// A run of one gemm against the service.
inline Output RunGemm(const FakeService& service, std::vector<std::string> more = {},
                      bool live = false) {
  std::vector<std::string> args = {"run", "gemm", "--m", "64",      "--n",
                                   "32",  "--k",  "16",  "--dtype", "bf16"};
  args.insert(args.end(), more.begin(), more.end());
  return Assay(service, std::move(args), live);
}

}  // namespace assay::client::testing

#endif  // ASSAY_TESTS_UNIT_CLIENT_COMMAND_H_
