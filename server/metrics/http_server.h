// The metrics port: it serves GET /metrics over HTTP or HTTPS, for scrapers, GET /healthz for load
// balancers (200 or 503), and GET /health for people. /healthz is open to everybody.
//
// It has a few threads of its own, one connection for each request, and a limit of each
// connection's whole time. A slow or dead scraper holds one thread for seconds and nothing else.
#ifndef ASSAY_SERVER_METRICS_HTTP_SERVER_H_
#define ASSAY_SERVER_METRICS_HTTP_SERVER_H_

#include <openssl/ssl.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/metrics/metrics.h"

namespace assay::server {

struct MetricsServerOptions {
  std::string host = "127.0.0.1";  // empty: every address
  int port = 0;                    // 0: any free one
  // If set, the port serves HTTPS. It gives the context its certificates and returns false if it
  // cannot.
  std::function<bool(SSL_CTX*)> setup_tls;
  // Says who may read /metrics and /health. `call` is such as "GET /metrics"; `connection` is null
  // without TLS; `authorization` is the header, or empty. UNAUTHENTICATED is answered with 401,
  // every other error with 403. If it is not set, everybody may.
  std::function<absl::Status(const std::string& call, const SSL* connection,
                             const std::string& address, int port,
                             const std::string& authorization)>
      admit;
  // If it returns false, /healthz answers 503.
  std::function<bool()> healthy;
  // The answer of /health, in JSON.
  std::function<std::string()> health;
};

class MetricsServer {
 public:
  virtual ~MetricsServer() = default;  // stops serving
  virtual int port() const = 0;
};

// Serves at once. `metrics` must outlive the server. UNAVAILABLE, with the reason, if the address
// cannot be used.
absl::StatusOr<std::unique_ptr<MetricsServer>> StartMetricsServer(Metrics& metrics,
                                                                  MetricsServerOptions options);

}  // namespace assay::server

#endif  // ASSAY_SERVER_METRICS_HTTP_SERVER_H_
