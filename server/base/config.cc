#include "server/base/config.h"

#include <toml++/toml.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <functional>
#include <optional>
#include <sstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "kernels/text/cat.h"
#include "kernels/text/near_name.h"

namespace assay::server {
namespace {

constexpr std::string_view kDefaultFile = "/etc/assay/assayd.toml";

using Values = std::vector<std::string>;
using Read = std::function<absl::Status(const Values& values, Config& config)>;

// What an option sets.
struct Field {
  Read read;
  std::function<bool(const Config& a, const Config& b)> same;
  std::function<void(const Config& from, Config& to)> copy;
};

template <class... Member>
Field FieldOf(Read read, Member Config::*... members) {
  return {std::move(read),
          [=](const Config& a, const Config& b) { return ((a.*members == b.*members) && ...); },
          [=](const Config& from, Config& to) { ((to.*members = from.*members), ...); }};
}

enum class Kind { kText, kList, kSwitch };

struct Option {
  std::string_view name;  // --name, and the key
  Kind kind = Kind::kText;
  std::string_view placeholder;
  std::string_view help;
  Field field;
};

absl::Status Invalid(const std::string& message) { return absl::InvalidArgumentError(message); }

Field Text(std::string Config::*member) {
  return FieldOf(
      [member](const Values& v, Config& c) {
        c.*member = v.back();
        return absl::OkStatus();
      },
      member);
}

Field List(std::vector<std::string> Config::*member) {
  return FieldOf(
      [member](const Values& v, Config& c) {
        Values& out = c.*member;
        out.clear();
        for (const std::string& value : v) {
          for (const auto& part : absl::StrSplit(value, ',', absl::SkipWhitespace())) {
            out.emplace_back(absl::StripAsciiWhitespace(part));
          }
        }
        return out.empty() ? Invalid("must name at least one, got none") : absl::OkStatus();
      },
      member);
}

Field Switch(bool Config::*member) {
  return FieldOf(
      [member](const Values& v, Config& c) {
        if (v.back() != "true" && v.back() != "false") {
          return Invalid(Cat("must be true or false, got \"", v.back(), "\""));
        }
        c.*member = v.back() == "true";
        return absl::OkStatus();
      },
      member);
}

Field Time(absl::Duration Config::*member, bool zero_allowed) {
  return FieldOf(
      [=](const Values& v, Config& c) {
        const absl::StatusOr<absl::Duration> d = ParseSeconds(v.back());
        if (!d.ok()) return d.status();
        if (!zero_allowed && *d == absl::ZeroDuration()) {
          return Invalid(Cat("must be above 0, got \"", v.back(), "\""));
        }
        c.*member = *d;
        return absl::OkStatus();
      },
      member);
}

Field Bytes(std::int64_t Config::*member) {
  return FieldOf(
      [member](const Values& v, Config& c) {
        const absl::StatusOr<std::int64_t> bytes = ParseBytes(v.back());
        if (!bytes.ok()) return bytes.status();
        c.*member = *bytes;
        return absl::OkStatus();
      },
      member);
}

Field BytesFrom(std::int64_t Config::*member, std::int64_t low, std::int64_t high) {
  return FieldOf(
      [=](const Values& v, Config& c) {
        const absl::StatusOr<std::int64_t> bytes = ParseBytes(v.back());
        if (!bytes.ok()) return bytes.status();
        if (*bytes < low || *bytes > high) {
          return Invalid(Cat("must be from ", low, " to ", high, " bytes, got \"", v.back(), "\""));
        }
        c.*member = *bytes;
        return absl::OkStatus();
      },
      member);
}

Field Count(std::int64_t Config::*member, std::int64_t low, std::int64_t high) {
  return FieldOf(
      [=](const Values& v, Config& c) {
        std::int64_t n = 0;
        if (!absl::SimpleAtoi(v.back(), &n) || n < low || n > high) {
          return Invalid(
              Cat("must be a number from ", low, " to ", high, ", got \"", v.back(), "\""));
        }
        c.*member = n;
        return absl::OkStatus();
      },
      member);
}

// At most `high`; 0 means no limit.
Field LimitOf(std::int64_t ClientLimitValues::*member) {
  Field field;
  field.read = [member](const Values& v, Config& c) {
    std::int64_t n = 0;
    if (!absl::SimpleAtoi(v.back(), &n) || n < 0 || n > 1'000'000'000) {
      return Invalid(
          Cat("must be a number from 0 (no limit) to 1000000000, got \"", v.back(), "\""));
    }
    c.limits.*member = n;
    return absl::OkStatus();
  };
  field.same = [member](const Config& a, const Config& b) {
    return a.limits.*member == b.limits.*member;
  };
  field.copy = [member](const Config& from, Config& to) {
    to.limits.*member = from.limits.*member;
  };
  return field;
}

Field OneOf(std::string Config::*member, std::vector<std::string> words) {
  return FieldOf(
      [member, words = std::move(words)](const Values& v, Config& c) {
        if (std::find(words.begin(), words.end(), v.back()) == words.end()) {
          return Invalid(
              Cat("must be one of ", absl::StrJoin(words, ", "), ", got \"", v.back(), "\""));
        }
        c.*member = v.back();
        return absl::OkStatus();
      },
      member);
}

absl::Status ReadListen(const Values& values, Config& config) {
  if (absl::Status status = List(&Config::listen).read(values, config); !status.ok()) return status;
  for (const std::string& address : config.listen) {
    if (address.starts_with("unix:")) {
      if (address.size() == 5) return Invalid("must be unix:/path, got \"unix:\"");
    } else if (const auto parsed = ParseHostPort(address); !parsed.ok()) {
      return parsed.status();
    }
  }
  return absl::OkStatus();
}

// Absolute paths, none of them the root.
Field Paths(std::vector<std::string> Config::*member) {
  return FieldOf(
      [member](const Values& values, Config& config) {
        if (absl::Status status = List(member).read(values, config); !status.ok()) return status;
        for (const std::string& path : config.*member) {
          if (!path.starts_with('/') || path.find_first_not_of('/') == path.npos) {
            return Invalid(Cat("must be absolute paths below the root, got \"", path, "\""));
          }
        }
        return absl::OkStatus();
      },
      member);
}

absl::Status ReadUserKernels(const Values& values, Config& config) {
  if (absl::Status status = List(&Config::user_kernels).read(values, config); !status.ok())
    return status;
  for (const std::string& word : config.user_kernels) {
    if (word == "code-object") {
      return Invalid(
          "code-object: this build takes no code objects yet; known: none, library, "
          "source");
    }
    if (word != "none" && word != "library" && word != "source") {
      return Invalid(Cat("must be none, library or source, got \"", word, "\""));
    }
    if (word == "none" && config.user_kernels.size() > 1) {
      return Invalid("none stands alone; leave it out beside other words");
    }
  }
  return absl::OkStatus();
}

absl::Status ReadHealthListen(const Values& values, Config& config) {
  config.health_listen = values.back() == "off" ? "" : values.back();
  return config.health_listen.empty() ? absl::OkStatus()
                                      : ParseHostPort(config.health_listen).status();
}

absl::Status ReadMetricsListen(const Values& values, Config& config) {
  config.metrics_listen = values.back() == "off" ? "" : values.back();
  return config.metrics_listen.empty() ? absl::OkStatus()
                                       : ParseHostPort(config.metrics_listen).status();
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
                            ? absl::StatusOr<absl::Duration>(Invalid("no interval"))
                            : ParseSeconds(std::string_view(text).substr(slash + 1));
  if (!share.ok() || !interval.ok() || *share <= absl::ZeroDuration() || *interval <= *share) {
    return Invalid(
        Cat("must be a time and a longer interval, such as 5ms/10s, or off, got \"", text, "\""));
  }
  config.probe_share = *share;
  config.probe_interval = *interval;
  return absl::OkStatus();
}

// Every option, in the order of --help.
const std::vector<Option>& Options() {
  static const auto* options = new std::vector<Option>{
      {"listen", Kind::kList, "ADDRESS",
       "address that serves gRPC: HOST:PORT or unix:/PATH; port 0 means any free port; may be "
       "repeated (default 127.0.0.1:7575)",
       FieldOf(ReadListen, &Config::listen)},
      {"metrics-listen", Kind::kText, "ADDRESS",
       "address that serves /metrics and /healthz: HOST:PORT, or off; addresses other than "
       "loopback need --metrics-tls or --insecure (default 127.0.0.1:9575)",
       FieldOf(ReadMetricsListen, &Config::metrics_listen)},
      {"health-listen", Kind::kText, "ADDRESS",
       "address that serves grpc.health.v1 alone, without TLS, for health checks that have no TLS: "
       "HOST:PORT, or off; addresses other than loopback need --insecure (default off)",
       FieldOf(ReadHealthListen, &Config::health_listen)},
      {"state-dir", Kind::kText, "DIR",
       "folder of the store; it is made if it does not exist (default $STATE_DIRECTORY, else "
       "/var/lib/assay for root, else ~/.local/state/assay)",
       Text(&Config::state_dir)},
      {"devices", Kind::kList, "LIST",
       "devices to use, with commas between them; * means all devices of a backend (default "
       "cpu:0,cuda:*,hip:*)",
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
       "which kernels of their own clients may send: library (a shared library), source (C and "
       "C++, which this node compiles), or none; each runs in a contained process of its own "
       "(default none)",
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
       Time(&Config::store_keep, true)},
      {"store-keep-bytes", Kind::kText, "BYTES",
       "if the store is larger, the jobs that ended first are deleted; it is at most nine tenths "
       "of "
       "--store-max-bytes; 0 means no limit (default 10GiB)",
       Bytes(&Config::store_keep_bytes)},
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
       Time(&Config::drain_timeout, true)},
      {"max-cases", Kind::kText, "N", "most cases in a job (default 10000)",
       Count(&Config::max_cases, 1, 1'000'000)},
      {"max-waiting-jobs", Kind::kText, "N",
       "most jobs that may wait; the daemon refuses more (default 1000)",
       Count(&Config::max_waiting_jobs, 1, 1'000'000)},
      {"client-max-waiting-jobs", Kind::kText, "N",
       "most jobs of one client that may wait; a client is a certificate, a token, a user of a "
       "Unix "
       "socket, or else an address; 0 means no limit (default 500)",
       LimitOf(&ClientLimitValues::waiting_jobs)},
      {"client-cases-per-minute", Kind::kText, "N",
       "most cases that one client may send a minute; a larger job is taken if the client has sent "
       "nothing before, and counts for several minutes; 0 means no limit (default 200000)",
       LimitOf(&ClientLimitValues::cases_per_minute)},
      {"client-max-watchers", Kind::kText, "N",
       "most jobs that one client may watch at the same time; 0 means no limit (default 1000)",
       LimitOf(&ClientLimitValues::watchers)},
      {"max-watchers", Kind::kText, "N",
       "most watchers of all clients; 0 means no limit (default 2000)",
       LimitOf(&ClientLimitValues::all_watchers)},
      {"client-max-connections", Kind::kText, "N",
       "most connections of one client, which is an address or a user of a Unix socket here; 0 "
       "means "
       "no limit (default 1000)",
       LimitOf(&ClientLimitValues::connections)},
      {"client-max-uploads", Kind::kText, "N",
       "most kernels that one client may send at the same time; 0 means no limit (default 4)",
       LimitOf(&ClientLimitValues::uploads)},
      {"watch-stall", Kind::kText, "TIME",
       "how long a watcher may take no event although there are some; then the daemon ends its "
       "stream, and the client resumes it; 0 means for ever (default 60s)",
       Time(&Config::watch_stall, true)},
      {"max-request-bytes", Kind::kText, "BYTES", "largest request, at least 4MiB (default 32MiB)",
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
       OneOf(&Config::log_level, {"debug", "info", "warn", "error"})},
  };
  return *options;
}

// The options that a running daemon takes over.
constexpr std::string_view kReloadable[] = {"store-keep",
                                            "store-keep-bytes",
                                            "drain-timeout",
                                            "client-max-waiting-jobs",
                                            "client-cases-per-minute",
                                            "client-max-watchers",
                                            "max-watchers",
                                            "client-max-connections",
                                            "client-max-uploads",
                                            "watch-stall",
                                            "log-level"};

// "; did you mean "listen"?", or nothing if no option is near.
std::string NearName(std::string_view key) {
  std::vector<std::string_view> known;
  for (const Option& option : Options()) known.push_back(option.name);
  const std::string_view near = NearestName(key, known);
  return near.empty() ? "" : Cat("; did you mean \"", near, "\"?");
}

const Option* FindOption(std::string_view name) {
  for (const Option& option : Options()) {
    if (option.name == name) return &option;
  }
  return nullptr;
}

// "FILE:3:7: ".
std::string At(std::string_view file, const toml::source_region& where) {
  return Cat(file, ":", where.begin.line, ":", where.begin.column, ": ");
}

// A scalar of the file, as the text that a flag would have. Nothing for tables and arrays.
std::optional<std::string> Scalar(const toml::node& node) {
  if (const auto* s = node.as_string()) return s->get();
  if (const auto* i = node.as_integer()) return std::to_string(i->get());
  if (const auto* f = node.as_floating_point()) return Cat(f->get());
  if (const auto* b = node.as_boolean()) return b->get() ? "true" : "false";
  return std::nullopt;
}

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string DefaultStateDir() {
  // systemd's StateDirectory= may name several folders. The first is the main one.
  if (const std::string dirs = Environment("STATE_DIRECTORY"); !dirs.empty()) {
    return dirs.substr(0, dirs.find(':'));
  }
  if (geteuid() == 0) return "/var/lib/assay";
  if (const std::string state = Environment("XDG_STATE_HOME"); !state.empty()) {
    return state + "/assay";
  }
  const std::string home = Environment("HOME");
  return home.empty() ? "/var/lib/assay" : home + "/.local/state/assay";
}

absl::Status ReadFile(const std::string& path, bool required, Config& config) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  if (!file.is_open() || !file) {
    if (!required && access(path.c_str(), F_OK) != 0) return absl::OkStatus();
    return absl::NotFoundError(Cat("cannot read the configuration file ", path));
  }
  config.config_file = path;
  return ReadToml(text.str(), path, config);
}

absl::Status CheckTogether(const Config& config) {
  if (config.tls_cert.empty() != config.tls_key.empty()) {
    return Invalid(Cat("--tls-cert and --tls-key belong together; --tls-",
                       config.tls_cert.empty() ? "cert" : "key", " is missing"));
  }
  if (config.tls_cert.empty() && !config.tls_client_ca.empty()) {
    return Invalid("--tls-client-ca needs --tls-cert and --tls-key");
  }
  if (config.tls_client_ca.empty() && !config.tls_client_crl.empty()) {
    return Invalid("--tls-client-crl needs --tls-client-ca");
  }
  if (config.require_containment && config.no_containment) {
    return Invalid("--require-containment and --no-containment contradict each other; remove one");
  }
  const bool takes_libraries = std::find(config.user_kernels.begin(), config.user_kernels.end(),
                                         "library") != config.user_kernels.end();
  if (!config.user_kernel_dirs.empty() && !takes_libraries) {
    return Invalid("--user-kernel-dirs needs library among --user-kernels");
  }
  if (config.tls_cert.empty() && config.metrics_tls) {
    return Invalid("--metrics-tls needs --tls-cert and --tls-key");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<absl::Duration> ParseSeconds(std::string_view text) {
  const std::string word(text);
  double seconds = 0;
  absl::Duration d;
  if (absl::SimpleAtod(word, &seconds)) {
    d = absl::Seconds(seconds);
  } else if (!absl::ParseDuration(word, &d)) {
    return Invalid(Cat("must be a time such as 60s, 1m30s or 250ms, got \"", text, "\""));
  }
  // Written so that NaN is refused.
  if (!(d >= absl::ZeroDuration() && d <= absl::Hours(24 * 365))) {
    return Invalid(Cat("must be a time from 0s to a year, got \"", text, "\""));
  }
  return d;
}

absl::StatusOr<std::int64_t> ParseBytes(std::string_view text) {
  static constexpr std::pair<std::string_view, std::int64_t> kUnits[] = {
      {"KiB", std::int64_t{1} << 10},
      {"MiB", std::int64_t{1} << 20},
      {"GiB", std::int64_t{1} << 30},
      {"TiB", std::int64_t{1} << 40},
      {"kB", 1'000},
      {"MB", 1'000'000},
      {"GB", 1'000'000'000},
      {"TB", 1'000'000'000'000}};
  std::string_view digits = text;
  std::int64_t unit = 1;
  for (const auto& [suffix, bytes] : kUnits) {
    if (!text.ends_with(suffix)) continue;
    digits.remove_suffix(suffix.size());
    unit = bytes;
    break;
  }
  std::int64_t count = 0;
  std::int64_t bytes = 0;
  if (!absl::SimpleAtoi(std::string(digits), &count) || count < 0 ||
      __builtin_mul_overflow(count, unit, &bytes)) {
    return Invalid(Cat("must be a size such as 8GiB, 512MiB or 1000000, got \"", text, "\""));
  }
  return bytes;
}

absl::StatusOr<HostPort> ParseHostPort(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  HostPort parsed;
  if (colon != std::string_view::npos) {
    parsed.host = text.substr(0, colon);
    const std::string port(text.substr(colon + 1));
    const bool digits = !port.empty() && port.find_first_not_of("0123456789") == port.npos;
    const bool bracketed = parsed.host.starts_with('[') && parsed.host.ends_with(']');
    if (bracketed) parsed.host = parsed.host.substr(1, parsed.host.size() - 2);
    const bool plain = bracketed || parsed.host.find(':') == std::string::npos;
    if (digits && plain && absl::SimpleAtoi(port, &parsed.port) && parsed.port <= 65535) {
      return parsed;
    }
  }
  return Invalid(Cat("must be HOST:PORT with a port from 0 to 65535 ([HOST]:PORT for IPv6), got \"",
                     text, "\""));
}

absl::Status ReadToml(std::string_view text, std::string_view name, Config& config) {
  toml::table table;
  try {
    table = toml::parse(text, name);
  } catch (const toml::parse_error& e) {
    return Invalid(Cat(At(name, e.source()), e.description()));
  }
  for (const auto& [toml_key, node] : table) {
    const std::string key(toml_key.str());
    const Option* option = FindOption(key);
    if (option == nullptr) {
      return Invalid(Cat(At(name, toml_key.source()), "unknown key \"", key, "\"", NearName(key)));
    }
    Values values;
    bool readable = true;
    const auto add = [&](const toml::node& n) {
      const std::optional<std::string> scalar = Scalar(n);
      readable = readable && scalar.has_value();
      if (scalar) values.push_back(*scalar);
    };
    if (const toml::array* array = node.as_array(); array != nullptr) {
      readable = option->kind == Kind::kList;
      for (const toml::node& element : *array) add(element);
    } else {
      add(node);
    }
    if (!readable || (values.empty() && option->kind != Kind::kList)) {
      return Invalid(Cat(At(name, node.source()), key, " must be ",
                         option->kind == Kind::kList ? "a string or an array of strings"
                                                     : "one value, not a table or an array"));
    }
    if (const absl::Status status = option->field.read(values, config); !status.ok()) {
      return Invalid(Cat(At(name, node.source()), key, " ", std::string(status.message())));
    }
  }
  return absl::OkStatus();
}

ConfigChanges ChangesTo(const Config& read, Config& now) {
  ConfigChanges changes;
  for (const Option& option : Options()) {
    if (option.field.same(read, now)) continue;
    const bool taken = std::find(std::begin(kReloadable), std::end(kReloadable), option.name) !=
                       std::end(kReloadable);
    if (taken) option.field.copy(read, now);
    (taken ? changes.taken : changes.need_restart).emplace_back(option.name);
  }
  return changes;
}

std::span<const std::string_view> ReloadableOptions() { return kReloadable; }

absl::StatusOr<ParsedArguments> ParseArguments(int argc, const char* const* argv,
                                               std::string_view version) {
  CLI::App app("Validates and benchmarks compute kernels on the devices of this node.", "assayd");
  app.set_version_flag("--version", Cat("assayd ", version));
  std::string file;
  app.add_option("--config", file,
                 Cat("TOML file in which every option is a key without the dashes (default ",
                     kDefaultFile, " if it exists)"))
      ->type_name("FILE");
  // The elements must not move, because CLI11 writes into them.
  std::deque<std::pair<const Option*, Values>> given;
  std::deque<bool> switches;
  std::vector<std::pair<const Option*, const CLI::Option*>> made;
  for (const Option& option : Options()) {
    const std::string flag = Cat("--", option.name);
    if (option.kind == Kind::kSwitch) {
      switches.push_back(false);
      made.emplace_back(&option, app.add_flag(flag, switches.back(), std::string(option.help)));
    } else {
      given.emplace_back(&option, Values{});
      CLI::Option* o = app.add_option(flag, given.back().second, std::string(option.help));
      o->type_name(std::string(option.placeholder));
      if (option.kind == Kind::kList) {
        o->allow_extra_args(false);  // --listen A --listen B, never --listen A B
      } else {
        o->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
      }
      made.emplace_back(&option, o);
    }
  }
  ParsedArguments parsed;
  app.allow_extras();  // refused below, with a suggestion
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    parsed.print = app.help();
    return parsed;
  } catch (const CLI::CallForVersion& e) {
    parsed.print = Cat(e.what(), "\n");
    return parsed;
  } catch (const CLI::ParseError& e) {
    return Invalid(Cat(e.what(), "; see assayd --help"));
  }
  if (const std::vector<std::string> rest = app.remaining(); !rest.empty()) {
    const std::string word = rest.front().substr(0, rest.front().find('='));
    if (!word.starts_with("--")) {
      return Invalid(Cat("unknown word \"", word, "\"; see assayd --help"));
    }
    std::string near = NearName(word.substr(2));
    if (near.empty()) near = "; see assayd --help";
    return Invalid(Cat("unknown option \"", word, "\"", near));
  }

  if (absl::Status status =
          ReadFile(file.empty() ? std::string(kDefaultFile) : file, !file.empty(), parsed.config);
      !status.ok()) {
    return status;
  }
  for (const auto& [option, cli] : made) {
    if (cli->count() == 0) continue;
    const Values values = option->kind == Kind::kSwitch ? Values{"true"} : cli->results();
    if (const absl::Status status = option->field.read(values, parsed.config); !status.ok()) {
      return Invalid(Cat("--", option->name, " ", std::string(status.message())));
    }
  }
  if (parsed.config.state_dir.empty()) parsed.config.state_dir = DefaultStateDir();
  if (absl::Status status = CheckTogether(parsed.config); !status.ok()) return status;
  return parsed;
}

}  // namespace assay::server
