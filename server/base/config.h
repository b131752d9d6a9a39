// The settings of assayd, from flags and from a TOML file in which every flag is a key.
//
//   assayd --listen 0.0.0.0:7575 --tls-cert node.pem --tls-key node.key
//
//   # /etc/assay/assayd.toml
//   listen = ["0.0.0.0:7575", "unix:/run/assay.sock"]
//   tls-cert = "/etc/assay/node.pem"
//
// A flag beats the file, and the file beats the default. One table in config_options.cc holds the
// name, the help and the reader of every option, for flags and for the file. Defaults are Config's;
// a test holds the help against them.
//
// SIGHUP makes the daemon read flags and file again. It takes over what it can change while it runs
// (ReloadableOptions), and names what needs a restart in the log.
#ifndef ASSAY_SERVER_BASE_CONFIG_H_
#define ASSAY_SERVER_BASE_CONFIG_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/base/limit.h"

namespace assay::server {

struct Config {
  std::vector<std::string> listen{"127.0.0.1:7575"};  // host:port or unix:/path
  std::string metrics_listen = "127.0.0.1:9575";      // host:port; empty: no metrics port
  std::string health_listen;                          // host:port; empty: no health port
  std::string state_dir;                              // not empty after ParseArguments
  std::string config_file;                            // the file that was read; empty: none
  std::vector<std::string> devices{"cpu:0", "cuda:*", "hip:*"};
  std::string tls_cert;        // PEM file, chain of the server
  std::string tls_key;         // PEM file
  std::string tls_client_ca;   // PEM file; if set, clients must show a certificate
  std::string tls_client_crl;  // PEM file, revoked certificates of clients
  std::string roles_file;      // TOML; empty: the roles that access.h says
  bool insecure = false;       // plaintext on any address
  bool no_reflection = false;  // the gRPC port does not list its services
  bool metrics_tls = false;    // the metrics port uses the same certificates
  std::string suites_dir;      // empty: beside the program
  std::string worker;          // path of assay-worker; empty: beside the program
  std::vector<std::string>
      worker_read;                   // files and folders that workers may read, beside the usual
  bool require_containment = false;  // without it the daemon does not start
  bool no_containment = false;       // workers keep the daemon's rights
  std::vector<std::string> user_kernels{"none"};  // none, or library, source
  std::vector<std::string> user_kernel_dirs;      // of the node, whose libraries clients may name
  std::int64_t user_kernel_bytes = std::int64_t{64} << 20;       // [bytes] of one file
  std::int64_t user_kernels_keep = 1'000;                        // kernels; 0: no limit
  std::int64_t user_kernels_keep_bytes = std::int64_t{1} << 30;  // [bytes] of all; 0: no limit
  std::string store_sync = "full";
  std::int64_t store_max_bytes = 0;                  // [bytes] 0: as the disk allows
  absl::Duration store_keep = absl::Hours(24 * 90);  // of ended jobs; 0: for ever
  std::int64_t store_keep_bytes = std::int64_t{10}
                                  << 30;  // [bytes] that jobs may take; 0: no limit
  absl::Duration case_deadline = absl::Seconds(60);
  std::int64_t arena_bytes = 0;                      // [bytes] 0: half of a device's memory
  absl::Duration idle_release = absl::Seconds(60);   // 0: arenas are kept
  absl::Duration drain_timeout = absl::Seconds(30);  // 0: running jobs are interrupted at once
  std::int64_t max_cases = 10'000;                   // in a job
  std::int64_t max_waiting_jobs = 1'000;             // queued and not begun
  ClientLimitValues limits;                          // of each client, and of all watchers
  // The transport of the gRPC ports.
  std::int64_t max_request_bytes = std::int64_t{32}
                                   << 20;                  // [bytes] a job of 10,000 cases has 3 MB
  std::int64_t transport_bytes = std::int64_t{512} << 20;  // [bytes] of all connections together
  std::int64_t max_streams = 256;                          // calls on one connection
  absl::Duration keepalive_time = absl::Seconds(60);       // of silence, then a ping
  absl::Duration keepalive_timeout = absl::Seconds(30);    // for its answer
  absl::Duration watch_stall = absl::Seconds(60);          // 0: a watcher may be silent for ever
  bool selftest_on_start = false;                          // the suite selftest, on every device
  absl::Duration probe_share = absl::ZeroDuration();  // idle check's, of each interval; 0: none
  absl::Duration probe_interval = absl::ZeroDuration();
  std::string log_level = "info";

  friend bool operator==(const Config&, const Config&) = default;
};

// The request of a command line.
struct ParsedArguments {
  Config config;
  // If this is not empty, the program prints it to stdout and ends with success (--help,
  // --version).
  std::string print;
};

// Reads flags and the file. INVALID_ARGUMENT with one line that says what is wrong and where:
// "assayd.toml:3:1: unknown key \"listne\"; did you mean \"listen\"?". NOT_FOUND if the file of
// --config cannot be read. The default file may be absent.
absl::StatusOr<ParsedArguments> ParseArguments(int argc, const char* const* argv,
                                               std::string_view version);

// Takes the options that a running daemon can change from `read` into `now`. Returns the names of
// the options that were different: those that were taken, and those that need a restart.
struct ConfigChanges {
  std::vector<std::string> taken;
  std::vector<std::string> need_restart;
};
ConfigChanges ChangesTo(const Config& read, Config& now);
// The options that ChangesTo takes.
std::vector<std::string_view> ReloadableOptions();

// Reads the keys of a TOML text into `config`. Messages call the text `name`.
absl::Status ReadToml(std::string_view text, std::string_view name, Config& config);

// Reads a time: "60s", "1m30s", "250ms", or a number of seconds. From 0 to a year.
absl::StatusOr<absl::Duration> ParseSeconds(std::string_view text);

// Reads a size: "8GiB", "512MiB", "1000000". Not negative [bytes].
absl::StatusOr<std::int64_t> ParseBytes(std::string_view text);

// Splits "host:port", "[::1]:7575" or ":7575" (any address). INVALID_ARGUMENT if the port is
// missing or above 65535.
struct HostPort {
  std::string host;
  int port = 0;
};
absl::StatusOr<HostPort> ParseHostPort(std::string_view text);

}  // namespace assay::server

#endif  // ASSAY_SERVER_BASE_CONFIG_H_
