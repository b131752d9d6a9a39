// Plants the faults of a node of the simulated fleet, as the environment of its worker says:
//
//   ASSAY_FAKE_NODE="seed=7 speed=0.97 flip=gemm:fp32:1234:3 crash=softmax:fp32"
//
//   seed    of the noise of its times; without it times are the real ones
//   speed   of the made-up device its times are of, over that of its model (default 1)
//   noise   standard deviation of a case's rate on it, and of a sample's (default 0.01)
//   flip    OP:DTYPE:ELEMENT:BIT: of every output of such a kernel of provider builtin, that
//           bit of that element (modulo their number) is the other one
//   crash   OP:DTYPE: such a kernel of provider builtin ends the process with SIGSEGV
#ifndef ASSAY_TESTS_INTEGRATION_FLEET_PLANTED_FAULTS_H_
#define ASSAY_TESTS_INTEGRATION_FLEET_PLANTED_FAULTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "kernels/ops/case.h"

namespace assay::simulated {

// A kernel of provider builtin.
struct Where {
  std::string op, dtype;

  bool Is(const Case& c) const;
};

struct Faults {
  struct Flip {
    Where where;
    std::int64_t element = 0;
    int bit = 0;
  };

  std::optional<std::uint64_t> seed;
  double speed = 1;
  double noise = 0.01;
  std::optional<Flip> flip;
  std::optional<Where> crash;
};

// INVALID_ARGUMENT for what means nothing.
absl::StatusOr<Faults> ParseFaults(std::string_view text);

// Of this process's environment; a mistake there ends it.
const Faults& PlantedFaults();

}  // namespace assay::simulated

#endif  // ASSAY_TESTS_INTEGRATION_FLEET_PLANTED_FAULTS_H_
