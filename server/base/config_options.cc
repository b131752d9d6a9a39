#include "server/base/config_options.h"

#include "absl/status/statusor.h"
#include "kernels/text/cat.h"
#include "proto/near_name.h"

namespace assay::server::options {
namespace {

absl::Status Refused(const std::string& message) { return absl::InvalidArgumentError(message); }

absl::Status ReadListen(const Values& values, Config& config) {
  if (absl::Status status = List(&Config::listen).read(values, config); !status.ok()) return status;
  for (const std::string& address : config.listen) {
    if (address.starts_with("unix:")) {
      if (address.size() == 5) return Refused("must be unix:/path, got \"unix:\"");
    } else if (const auto parsed = ParseHostPort(address); !parsed.ok()) {
      return parsed.status();
    }
  }
  return absl::OkStatus();
}

absl::Status ReadUserKernels(const Values& values, Config& config) {
  if (absl::Status status = List(&Config::user_kernels).read(values, config); !status.ok())
    return status;
  for (const std::string& word : config.user_kernels) {
    if (word != "none" && word != "library" && word != "source" && word != "code-object") {
      return Refused(Cat("must be none, library, source or code-object, got \"", word, "\""));
    }
    if (word == "none" && config.user_kernels.size() > 1) {
      return Refused("none stands alone; leave it out beside other words");
    }
  }
  return absl::OkStatus();
}

// "5ms/10s", "off".
absl::Status ReadProbe(const Values& values, Config& config) {
  const std::string& text = values.back();
  if (text == "off") {
    config.probe_share = absl::ZeroDuration();
    return absl::OkStatus();
  }
  const std::size_t slash = text.find('/');
  const auto share = ParseSeconds(std::string_view(text).substr(0, slash));
  const auto interval = slash == std::string::npos
                            ? absl::StatusOr<absl::Duration>(Refused("no interval"))
                            : ParseSeconds(std::string_view(text).substr(slash + 1));
  if (!share.ok() || !interval.ok() || *share <= absl::ZeroDuration() || *interval <= *share) {
    return Refused(
        Cat("must be a time and a longer interval, such as 5ms/10s, or off, got \"", text, "\""));
  }
  config.probe_share = *share;
  config.probe_interval = *interval;
  return absl::OkStatus();
}

}  // namespace

const std::vector<Option>& Table() {
  static const auto* table = new std::vector<Option>{
      {"listen", Kind::kList, "ADDRESS",
       "address that serves gRPC: HOST:PORT or unix:/PATH; port 0 means any free port; may be "
       "repeated (default 127.0.0.1:7575)",
       FieldOf(ReadListen, &Config::listen)},
      {"metrics-listen", Kind::kText, "ADDRESS",
       "address that serves /metrics and /healthz: HOST:PORT, or off; addresses other than "
       "loopback need --metrics-tls or --insecure (default 127.0.0.1:9575)",
       AddressOrOff(&Config::metrics_listen)},
      {"health-listen", Kind::kText, "ADDRESS",
       "address that serves grpc.health.v1 alone, without TLS, for health checks that have no TLS: "
       "HOST:PORT, or off; addresses other than loopback need --insecure (default off)",
       AddressOrOff(&Config::health_listen)},
      {"state-dir", Kind::kText, "DIR",
       "folder of the store; it is made if it does not exist (default $STATE_DIRECTORY, else "
       "/var/lib/assay for root, else ~/.local/state/assay)",
       Text(&Config::state_dir)},
      {"devices", Kind::kList, "LIST",
       "devices to use, with commas between them; * means all devices of a backend; simt:0 is the "
       "emulator that runs users' CUDA source (default cpu:0,cuda:*,hip:*)",
       List(&Config::devices)},
      {"tls-cert", Kind::kText, "FILE",
       "certificate chain of the server, PEM; the daemon reads the file again when it changes",
       Text(&Config::tls_cert)},
      {"tls-key", Kind::kText, "FILE", "private key of the certificate, PEM",
       Text(&Config::tls_key)},
      {"tls-client-ca", Kind::kText, "FILE",
       "certificate authorities of the clients, PEM; if it is set, every client must show a "
       "certificate",
       Text(&Config::tls_client_ca)},
      {"tls-client-crl", Kind::kText, "FILE",
       "lists of the clients' revoked certificates (CRL), PEM, signed by authorities of "
       "--tls-client-ca; the daemon reads the file again when it changes",
       Text(&Config::tls_client_crl)},
      {"insecure", Kind::kSwitch, "",
       "serve ports that have no TLS on addresses other than loopback and unix sockets: health, "
       "and without --tls-cert also gRPC and metrics",
       Switch(&Config::insecure)},
      {"roles-file", Kind::kText, "FILE",
       "who may do what, TOML: [[client]] with name and role, [[token]] with sha256 and role; a "
       "role is viewer, operator or admin; the daemon reads the file again when it changes "
       "(default: callers from this node without TLS are admin, all others operator)",
       Text(&Config::roles_file)},
      {"no-reflection", Kind::kSwitch, "", "do not list the services of the gRPC port to clients",
       Switch(&Config::no_reflection)},
      {"metrics-tls", Kind::kSwitch, "",
       "serve the metrics port over HTTPS, with the same certificates",
       Switch(&Config::metrics_tls)},
      {"suites-dir", Kind::kText, "DIR",
       "folder of the suites, *.toml (default ../share/assay/suites beside the program)",
       Text(&Config::suites_dir)},
      {"worker", Kind::kText, "FILE",
       "the assay-worker program (default ../libexec/assay/assay-worker beside the program)",
       Text(&Config::worker)},
      {"worker-read", Kind::kList, "LIST",
       "files and folders that workers may read, with commas between them, beside the system's and "
       "Assay's own, such as a library in an unusual place (default: none)",
       Paths(&Config::worker_read)},
      {"user-kernels", Kind::kList, "LIST",
       "which kernels of their own clients may send: library (a shared library), source (C, C++, "
       "CUDA and HIP, which this node compiles), code-object (PTX, cubins and code objects of "
       "AMD's), "
       "or none; code for the "
       "processor runs in a contained process of its own (default none)",
       FieldOf(ReadUserKernels, &Config::user_kernels)},
      {"user-kernel-dirs", Kind::kList, "LIST",
       "folders of this node, with commas between them, whose libraries clients may name as "
       "--kernel node:/PATH; needs library among --user-kernels (default: none)",
       Paths(&Config::user_kernel_dirs)},
      {"user-kernel-bytes", Kind::kText, "BYTES", "largest file of a user's kernel (default 64MiB)",
       BytesFrom(&Config::user_kernel_bytes, 1, std::int64_t{4} << 30)},
      {"user-kernels-keep", Kind::kText, "N",
       "most users' kernels that the daemon keeps; the one that was not used for the longest time "
       "goes first, and one that a kept job names stays; 0 means no limit (default 1000)",
       Count(&Config::user_kernels_keep, 0, 1'000'000)},
      {"user-kernels-keep-bytes", Kind::kText, "BYTES",
       "most bytes of all users' kernels that the daemon keeps; 0 means no limit (default 1GiB)",
       Bytes(&Config::user_kernels_keep_bytes)},
      {"require-containment", Kind::kSwitch, "",
       "do not start if this platform lacks a measure that keeps workers from the rest of the "
       "node; assay devices --verbose lists the measures",
       Switch(&Config::require_containment)},
      {"no-containment", Kind::kSwitch, "",
       "let workers do all that the daemon may do; only for a driver that does not work otherwise",
       Switch(&Config::no_containment)},
      {"store-sync", Kind::kText, "WORD",
       "full: a result survives a loss of power; normal: a result survives the daemon's death "
       "(default full)",
       OneOf(&Config::store_sync, {"full", "normal"})},
      {"store-max-bytes", Kind::kText, "BYTES",
       "largest size of the store's file, such as 10GiB; 0 means no limit but the disk (default 0)",
       Bytes(&Config::store_max_bytes)},
      {"store-keep", Kind::kText, "TIME",
       "how long the store keeps ended jobs and their results; 0 means for ever (default 2160h)",
       Time(&Config::store_keep, true), /*reloadable=*/true},
      {"store-keep-bytes", Kind::kText, "BYTES",
       "if the store is larger, the jobs that ended first are deleted; it is at most nine tenths "
       "of "
       "--store-max-bytes; 0 means no limit (default 10GiB)",
       Bytes(&Config::store_keep_bytes), /*reloadable=*/true},
      {"case-deadline", Kind::kText, "TIME",
       "longest time for a case that has no deadline of its own (default 60s)",
       Time(&Config::case_deadline, false)},
      {"arena-bytes", Kind::kText, "BYTES",
       "most memory that the cases may take on a device, such as 8GiB; 0 means half of the "
       "device's memory (default 0)",
       Bytes(&Config::arena_bytes)},
      {"idle-release", Kind::kText, "TIME",
       "how long a device keeps its memory without a case; 0 means always (default 60s)",
       Time(&Config::idle_release, true)},
      {"drain-timeout", Kind::kText, "TIME",
       "how long running jobs may take to end after SIGTERM; 0 interrupts them at once (default "
       "30s)",
       Time(&Config::drain_timeout, true), /*reloadable=*/true},
      {"max-cases", Kind::kText, "N", "most cases in a job (default 10000)",
       Count(&Config::max_cases, 1, 1'000'000)},
      {"max-waiting-jobs", Kind::kText, "N",
       "most jobs that may wait; the daemon refuses more (default 1000)",
       Count(&Config::max_waiting_jobs, 1, 1'000'000)},
      {"client-max-waiting-jobs", Kind::kText, "N",
       "most jobs of one client that may wait; a client is a certificate, a token, a user of a "
       "Unix "
       "socket, or else an address; 0 means no limit (default 500)",
       LimitOf(&ClientLimitValues::waiting_jobs), /*reloadable=*/true},
      {"client-cases-per-minute", Kind::kText, "N",
       "most cases that one client may send a minute; a larger job is taken if the client has sent "
       "nothing before, and counts for several minutes; 0 means no limit (default 200000)",
       LimitOf(&ClientLimitValues::cases_per_minute), /*reloadable=*/true},
      {"client-max-watchers", Kind::kText, "N",
       "most jobs that one client may watch at the same time; 0 means no limit (default 1000)",
       LimitOf(&ClientLimitValues::watchers), /*reloadable=*/true},
      {"max-watchers", Kind::kText, "N",
       "most watchers of all clients; 0 means no limit (default 2000)",
       LimitOf(&ClientLimitValues::all_watchers), /*reloadable=*/true},
      {"client-max-connections", Kind::kText, "N",
       "most connections of one client, which is an address or a user of a Unix socket here; 0 "
       "means "
       "no limit (default 1000)",
       LimitOf(&ClientLimitValues::connections), /*reloadable=*/true},
      {"client-max-uploads", Kind::kText, "N",
       "most kernels that one client may send at the same time; 0 means no limit (default 4)",
       LimitOf(&ClientLimitValues::uploads), /*reloadable=*/true},
      {"client-max-comparisons", Kind::kText, "N",
       "most comparisons of tensors that one client may have at the same time; 0 means no limit "
       "(default 16)",
       LimitOf(&ClientLimitValues::comparisons), /*reloadable=*/true},
      {"watch-stall", Kind::kText, "TIME",
       "how long a watcher may take no event although there are some; then the daemon ends its "
       "stream, and the client resumes it; 0 means for ever (default 60s)",
       Time(&Config::watch_stall, true), /*reloadable=*/true},
      {"max-request-bytes", Kind::kText, "BYTES",
       "largest request, at least 4MiB; in memory a request may take eight times as much, or a "
       "128th if it holds no cases and no results; the waiting requests of one client may have "
       "twice as many bytes together, those of all clients four times as many (default 32MiB)",
       BytesFrom(&Config::max_request_bytes, std::int64_t{4} << 20, std::int64_t{1} << 30)},
      {"transport-bytes", Kind::kText, "BYTES",
       "most memory that all connections together may take for what they receive, at least 64MiB "
       "(default 512MiB)",
       BytesFrom(&Config::transport_bytes, std::int64_t{64} << 20, std::int64_t{1} << 40)},
      {"max-streams", Kind::kText, "N",
       "most calls at the same time on one connection; more wait in the client (default 256)",
       Count(&Config::max_streams, 1, 1'000'000)},
      {"keepalive-time", Kind::kText, "TIME",
       "how long a connection may be silent before the daemon asks whether the client is there "
       "(default 60s)",
       Time(&Config::keepalive_time, false)},
      {"keepalive-timeout", Kind::kText, "TIME",
       "how long the client may take to answer that; then the connection is closed (default 30s)",
       Time(&Config::keepalive_timeout, false)},
      {"selftest-on-start", Kind::kSwitch, "",
       "run the suite selftest on every device when the daemon is ready; the score is a metric",
       Switch(&Config::selftest_on_start)},
      {"probe", Kind::kText, "TIME/TIME",
       "idle check: time for tiny exact cases on an idle device, in each interval, such as "
       "5ms/10s, or off (default off)",
       FieldOf(ReadProbe, &Config::probe_share, &Config::probe_interval)},
      {"log-level", Kind::kText, "WORD", "debug, info, warn or error (default info)",
       OneOf(&Config::log_level, {"debug", "info", "warn", "error"}), /*reloadable=*/true},
  };
  return *table;
}

std::string Near(std::string_view name) {
  std::vector<std::string_view> known;
  for (const Option& option : Table()) known.push_back(option.name);
  const std::string_view near = NearestName(name, known);
  return near.empty() ? "" : Cat("; did you mean \"", near, "\"?");
}

const Option* Find(std::string_view name) {
  for (const Option& option : Table()) {
    if (option.name == name) return &option;
  }
  return nullptr;
}

}  // namespace assay::server::options
