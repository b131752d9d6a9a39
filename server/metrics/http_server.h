// The metrics port: GET /metrics and /healthz over HTTP or HTTPS, for scrapers.
//
// A few threads of its own, a connection a request, and short time limits: a
// scraper that is slow or dead holds one thread for seconds and nothing else.
#ifndef ASSAY_SERVER_METRICS_HTTP_SERVER_H_
#define ASSAY_SERVER_METRICS_HTTP_SERVER_H_

#include <openssl/ssl.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/metrics/metrics.h"

namespace assay {

struct MetricsServerOptions {
  std::string host = "127.0.0.1";  // empty: every address
  int port = 0;                    // 0: any free one
  // Set: HTTPS; gives the context its certificates. False: cannot.
  std::function<bool(SSL_CTX*)> setup_tls;
  // False: /healthz answers 503.
  std::function<bool()> healthy;
};

class MetricsServer {
 public:
  virtual ~MetricsServer() = default;  // stops serving
  virtual int port() const = 0;
};

// Serves at once. `metrics` must outlive the server. UNAVAILABLE where the address
// cannot be used, with the reason.
absl::StatusOr<std::unique_ptr<MetricsServer>> StartMetricsServer(Metrics& metrics,
                                                                  MetricsServerOptions options);

}  // namespace assay

#endif  // ASSAY_SERVER_METRICS_HTTP_SERVER_H_
