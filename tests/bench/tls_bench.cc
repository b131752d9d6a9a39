// What mutual TLS with roles adds to a unary call: ListDevices of a daemon in the clear, and of one
// that knows its callers by certificate, in turn, each over a connection that is kept.
//
//   tls_bench --plain HOST:PORT --tls HOST:PORT --certificates DIR [--calls N] [--json]
//
// DIR has ca.pem, and the client's certificate and key, client.pem and client.key. Prints a line
// `name ours peer ratio`: the difference of the medians against the goal, in seconds.
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "assay/v1/service.grpc.pb.h"

namespace {

namespace v1 = assay::v1;
using Clock = std::chrono::steady_clock;
constexpr double kGoal = 0.2e-3;  // [seconds]

std::string Contents(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    std::fprintf(stderr, "tls_bench: cannot read %s\n", path.c_str());
    std::exit(1);
  }
  return {std::istreambuf_iterator<char>(file), {}};
}

double CallSeconds(v1::ValidationService::Stub& stub) {
  const Clock::time_point begin = Clock::now();
  grpc::ClientContext context;
  v1::ListDevicesResponse devices;
  const grpc::Status status = stub.ListDevices(&context, v1::ListDevicesRequest(), &devices);
  if (!status.ok()) {
    std::fprintf(stderr, "tls_bench: %s\n", status.error_message().c_str());
    std::exit(1);
  }
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double Median(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  std::map<std::string, std::string> options = {{"--calls", "5000"}};
  bool json = false;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--json") == 0) {
      json = true;
    } else if (i + 1 < argc) {
      options[argv[i]] = argv[i + 1];
      ++i;
    }
  }
  if (options["--plain"].empty() || options["--tls"].empty() || options["--certificates"].empty()) {
    std::fprintf(stderr,
                 "usage: tls_bench --plain HOST:PORT --tls HOST:PORT --certificates DIR "
                 "[--calls N] [--json]\n");
    return 2;
  }
  const std::string folder = options["--certificates"];
  grpc::SslCredentialsOptions tls;
  tls.pem_root_certs = Contents(folder + "/ca.pem");
  tls.pem_cert_chain = Contents(folder + "/client.pem");
  tls.pem_private_key = Contents(folder + "/client.key");
  const auto plain = v1::ValidationService::NewStub(
      grpc::CreateChannel(options["--plain"], grpc::InsecureChannelCredentials()));
  const auto secure = v1::ValidationService::NewStub(
      grpc::CreateChannel(options["--tls"], grpc::SslCredentials(tls)));
  for (int i = 0; i < 200; ++i) {
    CallSeconds(*plain);
    CallSeconds(*secure);
  }
  std::vector<double> without;
  std::vector<double> with;
  for (int i = 0; i < std::atoi(options["--calls"].c_str()); ++i) {
    without.push_back(CallSeconds(*plain));
    with.push_back(CallSeconds(*secure));
  }
  const double adds = Median(with) - Median(without);
  std::printf(json ? "{\"name\":\"%s\",\"ours\":%.6g,\"peer\":%.6g,\"ratio\":%.4g}\n"
                   : "%-32s %12.6g %12.6g %8.3f\n",
              "mtls_adds_to_a_call_p50_s", adds, kGoal, kGoal / adds);
  std::fprintf(stderr, "p50 of a call: %.3g s in the clear, %.3g s with mutual TLS and roles\n",
               Median(without), Median(with));
  return 0;
}
