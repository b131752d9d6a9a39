#include "client/lib/transport.h"

#include "absl/strings/match.h"
#include "client/lib/shown.h"
#include "google/rpc/status.pb.h"

namespace assay::client {
namespace {

// gRPC spells causes in its own layers of text; these are the words for them.
// Order matters: the first that occurs is the cause.
struct Cause {
  const char* text;
  const char* words;
  bool is_it_running;  // the daemon may simply not be there
};
constexpr char kNotTrusted[] =
    "its certificate is not trusted: it has expired, or no authority of --tls-ca signed it";
constexpr char kNoTls[] = "it does not speak TLS on this port (leave out --tls-ca and --tls-cert)";
constexpr Cause kCauses[] = {
    {"Connection refused", "connection refused", true},
    // The words of OpenSSL, and those of BoringSSL.
    {"certificate verify failed", kNotTrusted, false},
    {"CERTIFICATE_VERIFY_FAILED", kNotTrusted, false},
    {"wrong version number", kNoTls, false},
    {"WRONG_VERSION_NUMBER", kNoTls, false},
    {"No match found for server name", "its certificate is for another name (--tls-server-name)",
     false},
    {"Peer name", "its certificate is for another name (--tls-server-name)", false},
    // gRPC makes no connection then, and says only this.
    {"empty address list",
     "--tls-ca, --tls-cert or --tls-key is no PEM file of its kind, or the key is not the "
     "certificate's",
     false},
    {"http1.x server", "it speaks HTTP/1.1 and no gRPC: is this the port of the metrics?", false},
    {"Failed parsing HTTP/2", "it speaks no gRPC: is this the port of another program?", false},
    {"andshake", "the TLS handshake failed: it does not speak TLS, or --tls-ca does not know it",
     false},
    {"DNS resolution failed", "the host name is unknown", true},
    {"Domain name not found", "the host name is unknown", true},
    {"No route to host", "no route to the host", true},
    {"Network is unreachable", "the network is unreachable", true},
    {"No such file or directory", "the socket does not exist", true},
    {"imed out", "no answer in time", true},
    {"imeout", "no answer in time", true},
    {"eadline", "no answer in time", true},
};

// The other end closed the connection, and gRPC does not know why.
bool IsClosed(const std::string& message) {
  for (const char* text : {"onnection reset", "Socket closed", "roken pipe"}) {
    if (absl::StrContains(message, text)) return true;
  }
  return false;
}

std::string WhyClosed(Shown shown) {
  switch (shown) {
    case Shown::kPlaintext:
      return "the connection was closed: does it ask for TLS (--tls-ca)?";
    case Shown::kTls:
      return "the connection was closed: does it ask for a certificate (--tls-cert, --tls-key)?";
    case Shown::kCertificate:
      return "the connection was closed: it may not accept the certificate of --tls-cert (expired, "
             "revoked, or of an authority that it does not know)";
    case Shown::kExpired:
      return "the connection was closed: the certificate of --tls-cert has expired";
    case Shown::kUnknown:
      break;
  }
  return "the connection was closed: does it ask for TLS, or for a certificate?";
}

bool IsOfDaemon(const grpc::Status& status) { return !ErrorInfoOf(status).domain().empty(); }

}  // namespace

google::rpc::ErrorInfo ErrorInfoOf(const grpc::Status& status) {
  google::rpc::Status details;
  google::rpc::ErrorInfo info;
  if (!details.ParseFromString(status.error_details())) return info;
  for (const auto& any : details.details()) {
    if (any.UnpackTo(&info) && info.domain() == "assay") return info;
  }
  return {};
}

bool NeverConnected(const grpc::Status& status) {
  if (status.error_code() != grpc::StatusCode::UNAVAILABLE || IsOfDaemon(status)) return false;
  const std::string& message = status.error_message();
  for (const char* text : {"ailed to connect", "DNS resolution", "Domain name", "andshake",
                           "empty address list", "Connection refused", "No such file"}) {
    if (absl::StrContains(message, text)) return true;
  }
  return false;
}

bool ConnectionLost(const grpc::Status& status) {
  if (IsOfDaemon(status)) return false;
  const std::string& message = status.error_message();
  // What gRPC 1.51 makes of a peer that died in the middle of a frame.
  if (status.error_code() == grpc::StatusCode::INTERNAL) {
    return absl::StrContains(message, "RST_STREAM") || absl::StrContains(message, "GOAWAY");
  }
  if (status.error_code() != grpc::StatusCode::UNAVAILABLE || NeverConnected(status)) return false;
  for (const char* text : {"Socket closed", "onnection reset", "GOAWAY", "Broken pipe",
                           "keepalive watchdog timeout"}) {
    if (absl::StrContains(message, text)) return true;
  }
  return false;
}

bool IsTransient(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE || ConnectionLost(status);
}

std::optional<absl::Duration> RetryDelayOf(const grpc::Status& status) {
  google::rpc::Status details;
  google::rpc::RetryInfo retry;
  if (!details.ParseFromString(status.error_details())) return std::nullopt;
  for (const auto& any : details.details()) {
    if (!any.UnpackTo(&retry)) continue;
    return absl::Seconds(retry.retry_delay().seconds()) +
           absl::Nanoseconds(retry.retry_delay().nanos());
  }
  return std::nullopt;
}

bool NoSuchSocket(const grpc::Status& status) {
  return NeverConnected(status) && absl::StrContains(status.error_message(), "No such file");
}

ConnectionCause CauseOf(const grpc::Status& status) {
  const std::string& message = status.error_message();
  for (const Cause& cause : kCauses) {
    if (absl::StrContains(message, cause.text)) return {cause.words, cause.is_it_running};
  }
  if (IsClosed(message)) return {WhyClosed(ShownOf(status)), false};
  return {message, true};
}

}  // namespace assay::client
