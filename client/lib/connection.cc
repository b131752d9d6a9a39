#include "client/lib/connection.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "client/lib/certificate.h"
#include "client/lib/parse.h"
#include "client/lib/shown.h"
#include "client/lib/targets_file.h"
#include "client/lib/text.h"
#include "client/lib/transport.h"
#include "client/lib/visible_message.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/client_interceptor.h"

namespace assay::client {
namespace {

constexpr char kDefaultTarget[] = "127.0.0.1:7575";
constexpr char kDefaultPort[] = "7575";
constexpr char kKeyFlag[] = "--tls-key";

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string DefaultFile() {
  if (std::string file = Environment("ASSAY_TARGETS"); !file.empty()) return file;
  std::string base = Environment("XDG_CONFIG_HOME");
  if (base.empty()) {
    const std::string home = Environment("HOME");
    if (home.empty()) return "";
    base = home + "/.config";
  }
  const std::string file = base + "/assay/targets.toml";
  return std::ifstream(file).good() ? file : "";
}

absl::Status CheckPort(std::string_view target, std::string_view port) {
  int number = 0;
  if (absl::SimpleAtoi(View(port), &number) && number >= 1 && number <= 65535) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "target: \"", View(target), "\": the port must be 1 to 65535, got \"", View(port), "\""));
}

// "a07" -> "a07:7575"; "[::1]" -> "[::1]:7575"; others as they are.
absl::StatusOr<std::string> WithPort(const std::string& text) {
  if (text == "unix:") {
    return absl::InvalidArgumentError("target: \"unix:\" names no socket; write unix:/PATH");
  }
  if (absl::StartsWith(text, "unix:")) return text;
  if (absl::StrContains(text, "://") || absl::StrContains(text, "/") || text.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("target: \"", text, "\" is no address; write HOST:PORT"));
  }
  const std::size_t bracket = text.rfind(']');
  const std::size_t colon = text.rfind(':');
  const bool many_colons = colon != std::string::npos && text.find(':') != colon;
  if (many_colons && bracket == std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("target: \"", text, "\": write an IPv6 address as [", text, "]:PORT"));
  }
  if (colon == std::string::npos || (bracket != std::string::npos && colon < bracket)) {
    return absl::StrCat(text, ":", kDefaultPort);
  }
  if (absl::Status status = CheckPort(text, std::string_view(text).substr(colon + 1));
      !status.ok()) {
    return status;
  }
  return text;
}

bool IsIpv4(std::string_view host) {
  return !host.empty() && host.find_first_not_of("0123456789.") == std::string_view::npos;
}

// gRPC's own name for an address. Literal addresses bypass its resolver: no
// name lookup stands between the user and a daemon on this machine.
std::string GrpcAddress(const std::string& address) {
  if (absl::StartsWith(address, "unix:")) return address;
  if (address.front() == '[') return absl::StrCat("ipv6:", address);
  if (IsIpv4(std::string_view(address).substr(0, address.rfind(':')))) {
    return absl::StrCat("ipv4:", address);
  }
  return absl::StrCat("dns:///", address);
}

absl::StatusOr<std::string> ReadPem(const char* flag, const std::string& path) {
  if (path.empty()) return std::string();
  struct stat about {};
  if (std::string_view(flag) == kKeyFlag && stat(path.c_str(), &about) == 0 &&
      (about.st_mode & (S_IROTH | S_IWOTH)) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(flag, ": ", path, " may be read or changed by others: chmod 0600 ", path));
  }
  absl::StatusOr<std::string> text = ReadFile(path);
  if (text.ok() && !text->empty()) return text;
  const std::string why =
      text.ok() ? absl::StrCat(path, " is empty") : std::string(text.status().message());
  return absl::InvalidArgumentError(absl::StrCat(flag, ": ", why));
}

// Whether only this machine sees what is sent to an address: a Unix socket, or loopback. A name may
// be anyone's, "127.example" too.
bool IsLocal(std::string_view address) {
  const std::string_view host = address.substr(0, address.rfind(':'));
  return address.starts_with("unix:") || host == "localhost" || host == "[::1]" ||
         (host.starts_with("127.") && IsIpv4(host));
}

absl::StatusOr<std::string> ReadToken(const Target& target) {
  const std::string& path = target.token_file;
  if (path.empty()) return std::string();
  const auto refuse = [](std::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("--token-file: ", View(what)));
  };
  struct stat about {};
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) return refuse(std::string(text.status().message()));
  if (stat(path.c_str(), &about) != 0) return refuse(absl::StrCat("cannot read ", path));
  if ((about.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return refuse(absl::StrCat(path, " may be read or changed by others: chmod 0600 ", path));
  }
  std::string token(absl::StripAsciiWhitespace(*text));
  const auto printable = [](char c) { return c > ' ' && c <= '~'; };
  if (token.empty() || !std::all_of(token.begin(), token.end(), printable)) {
    return refuse(absl::StrCat(path, " must hold one token: printable characters without spaces"));
  }
  if (!target.tls.enabled() && !IsLocal(target.address)) {
    return refuse(
        absl::StrCat("the token is not sent to ", target.address, " in plaintext; give --tls-ca"));
  }
  return token;
}

// What a connection presents to a daemon.
struct Presented {
  std::string token;  // empty: none
  Shown shown = Shown::kPlaintext;
  absl::Time expires = absl::InfiniteFuture();  // of the certificate, if one is shown
};

Presented PresentedBy(const TlsOptions& tls, const std::string& cert, std::string token) {
  if (!tls.enabled()) return {std::move(token)};
  if (tls.cert.empty()) return {std::move(token), Shown::kTls};
  return {std::move(token), Shown::kCertificate, ExpiryOf(cert)};
}

// Shows the token with every call, makes visible what the daemon says, and notes in the status of a
// call that found no connection how the client presented itself.
class Presenter final : public grpc::experimental::Interceptor {
 public:
  explicit Presenter(const Presented& presented) : presented_(presented) {}

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    using Point = grpc::experimental::InterceptionHookPoints;
    if (!presented_.token.empty() &&
        methods->QueryInterceptionHookPoint(Point::PRE_SEND_INITIAL_METADATA)) {
      methods->GetSendInitialMetadata()->emplace("authorization", "Bearer " + presented_.token);
    }
    if (methods->QueryInterceptionHookPoint(Point::POST_RECV_MESSAGE)) {
      // Null at the end of a stream.
      auto* const message = static_cast<google::protobuf::MessageLite*>(methods->GetRecvMessage());
      if (auto* const said = dynamic_cast<google::protobuf::Message*>(message)) MakeVisible(*said);
    }
    if (methods->QueryInterceptionHookPoint(Point::POST_RECV_STATUS)) {
      grpc::Status& status = *methods->GetRecvStatus();
      status = {status.error_code(), VisibleLines(status.error_message()), status.error_details()};
      const bool expired = presented_.expires <= absl::Now();
      if (NeverConnected(status)) NoteShown(expired ? Shown::kExpired : presented_.shown, status);
    }
    methods->Proceed();
  }

 private:
  const Presented presented_;
};

class Presenters final : public grpc::experimental::ClientInterceptorFactoryInterface {
 public:
  explicit Presenters(Presented presented) : presented_(std::move(presented)) {}
  grpc::experimental::Interceptor* CreateClientInterceptor(
      grpc::experimental::ClientRpcInfo*) override {
    return new Presenter(presented_);
  }

 private:
  const Presented presented_;
};

void Override(const std::string& value, std::string& field) {
  if (!value.empty()) field = value;
}

TlsOptions Merge(TlsOptions base, const TlsOptions& over) {
  Override(over.ca, base.ca);
  Override(over.cert, base.cert);
  Override(over.key, base.key);
  Override(over.server_name, base.server_name);
  return base;
}

}  // namespace

absl::StatusOr<std::vector<Target>> ResolveTargets(const TargetOptions& options) {
  std::string list = options.targets;
  if (list.empty()) list = Environment("ASSAY_TARGET");
  if (list.empty()) list = kDefaultTarget;
  const std::string path = options.file.empty() ? DefaultFile() : options.file;
  TargetsFile named;
  if (!path.empty()) {
    auto read = ReadTargetsFile(path);
    if (!read.ok()) return read.status();
    named = *std::move(read);
  }
  std::vector<Target> targets;
  for (absl::string_view word : absl::StrSplit(list, ',', absl::SkipWhitespace())) {
    const std::string text(absl::StripAsciiWhitespace(word));
    std::vector<Target> meant = {{text, {}, {}}};
    if (const auto it = named.find(text); it != named.end()) meant = it->second;
    for (Target& target : meant) {
      auto address = WithPort(target.address);
      if (!address.ok()) return address.status();
      std::string token = options.token_file;
      if (token.empty()) token = target.token_file;
      if (token.empty()) token = Environment("ASSAY_TOKEN_FILE");
      targets.push_back({*std::move(address), Merge(target.tls, options.tls), std::move(token)});
      const TlsOptions& tls = targets.back().tls;
      if (tls.cert.empty() != tls.key.empty()) {
        return absl::InvalidArgumentError(tls.key.empty() ? "--tls-cert also needs --tls-key"
                                                          : "--tls-key also needs --tls-cert");
      }
    }
  }
  if (targets.empty()) return absl::InvalidArgumentError("target: the list is empty");
  return targets;
}

Connection::Connection(std::string target, MakeChannel make)
    : target_(std::move(target)), make_(std::move(make)) {
  Renew();
}

void Connection::Renew() {
  const std::lock_guard lock(mutex_);
  stubs_.push_back(v1::ValidationService::NewStub(make_()));
  stub_ = stubs_.back().get();
}

absl::StatusOr<std::unique_ptr<Connection>> Connection::Open(const Target& target) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  // One attempt may take 5 s; a daemon that restarts is found again within one.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  // A host that vanished without a word is noticed within 20 s of a silent stream.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 0);
  arguments.SetMaxReceiveMessageSize(-1);
  std::shared_ptr<grpc::ChannelCredentials> credentials;
  grpc::SslCredentialsOptions ssl;
  if (target.tls.enabled()) {
    struct {
      const char* flag;
      const std::string& path;
      std::string& pem;
    } const files[] = {{"--tls-ca", target.tls.ca, ssl.pem_root_certs},
                       {"--tls-cert", target.tls.cert, ssl.pem_cert_chain},
                       {kKeyFlag, target.tls.key, ssl.pem_private_key}};
    for (const auto& file : files) {
      auto pem = ReadPem(file.flag, file.path);
      if (!pem.ok()) return pem.status();
      file.pem = *std::move(pem);
    }
    credentials = grpc::SslCredentials(ssl);
    if (!target.tls.server_name.empty()) {
      arguments.SetSslTargetNameOverride(target.tls.server_name);
    }
  } else {
    credentials = grpc::InsecureChannelCredentials();
  }
  const absl::StatusOr<std::string> token = ReadToken(target);
  if (!token.ok()) return token.status();
  // Else channels to one address share what they know of it.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  const Presented presented = PresentedBy(target.tls, ssl.pem_cert_chain, *token);
  return std::unique_ptr<Connection>(new Connection(
      target.address, [address = GrpcAddress(target.address), credentials, arguments, presented] {
        std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> makers;
        makers.push_back(std::make_unique<Presenters>(presented));
        return grpc::experimental::CreateCustomChannelWithInterceptors(
            address, credentials, arguments, std::move(makers));
      }));
}

void SetDeadline(grpc::ClientContext& context, absl::Duration wait) {
  context.set_deadline(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(wait));
}

}  // namespace assay::client
