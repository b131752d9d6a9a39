#include "server/metrics/http_server.h"

#include <httplib.h>
#include <sys/socket.h>

#include <cerrno>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "kernels/text/cat.h"
#include "server/metrics/http_connection.h"

namespace assay::server {
namespace {

constexpr std::size_t kThreads = 4;
constexpr std::size_t kRequestBytes = 8192;

// Threads with a bounded queue. While it is full, the port accepts no connection. So connections
// that never send a request cannot take the daemon's file descriptors.
class BoundedPool final : public httplib::ThreadPool {
 public:
  BoundedPool() : ThreadPool(kThreads) {}

  void enqueue(std::function<void()> serve) override {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return waiting_ < kMostWaiting; });
      ++waiting_;
    }
    ThreadPool::enqueue([this, serve = std::move(serve)] {
      {
        const std::lock_guard lock(mutex_);
        --waiting_;
      }
      changed_.notify_one();
      serve();
    });
  }

 private:
  static constexpr int kMostWaiting = 64;

  std::mutex mutex_;
  std::condition_variable changed_;
  int waiting_ = 0;  // connections that no thread serves yet
};

// The library's server over connections whose time is limited.
class HttpServer final : public httplib::Server {
 public:
  // Every connection speaks TLS from now on.
  void UseTls(std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context) { tls_ = std::move(context); }

 private:
  bool process_and_close_socket(int socket) override {
    HttpConnection connection(socket, tls_.get());
    bool closed = false;
    return process_request(
        connection, /*close_connection=*/true, closed,
        [&connection](httplib::Request& request) { request.ssl = connection.tls(); });
  }

  std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> tls_{nullptr, SSL_CTX_free};
};

class Server final : public MetricsServer {
 public:
  Server(Metrics& metrics, MetricsServerOptions options)
      : metrics_(metrics), options_(std::move(options)) {}

  ~Server() override {
    http_->stop();
    if (thread_.joinable()) thread_.join();
  }

  absl::Status Start() {
    if (options_.setup_tls) {
      std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context(SSL_CTX_new(TLS_server_method()),
                                                           SSL_CTX_free);
      if (context == nullptr || !options_.setup_tls(context.get())) {
        return absl::UnavailableError("cannot set up TLS");
      }
      http_->UseTls(std::move(context));
    }
    http_->new_task_queue = [] { return new BoundedPool; };
    // Without SO_REUSEPORT, which the library would set. A second daemon on the port must get an
    // error and not half of the scrapes.
    http_->set_socket_options([](int fd) {
      const int on = 1;
      setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    });
    http_->set_payload_max_length(kRequestBytes);
    http_->Get("/metrics", [this](const httplib::Request& request, httplib::Response& response) {
      if (!Admit("GET /metrics", request, response)) return;
      response.set_content(metrics_.Exposition(), "text/plain; version=0.0.4; charset=utf-8");
    });
    http_->Get("/healthz", [this](const httplib::Request&, httplib::Response& response) {
      const bool healthy = !options_.healthy || options_.healthy();
      response.status = healthy ? 200 : 503;
      response.set_content(healthy ? "ok\n" : "draining\n", "text/plain");
    });
    if (options_.health) {
      http_->Get("/health", [this](const httplib::Request& request, httplib::Response& response) {
        if (!Admit("GET /health", request, response)) return;
        response.set_content(options_.health(), "application/json");
      });
    }
    const std::string host = options_.host.empty() ? "0.0.0.0" : options_.host;
    errno = 0;
    port_ = options_.port;
    const bool bound =
        port_ == 0 ? (port_ = http_->bind_to_any_port(host)) > 0 : http_->bind_to_port(host, port_);
    if (!bound) {
      return absl::UnavailableError(
          Cat("cannot listen on ", host, ":", options_.port, ": ",
              errno != 0 ? std::generic_category().message(errno) : "no such address"));
    }
    thread_ = std::thread([this] { http_->listen_after_bind(); });
    // If stop() came before the loop runs, it would be lost, and the thread would never end.
    while (!http_->is_running()) std::this_thread::yield();
    return absl::OkStatus();
  }

  int port() const override { return port_; }

 private:
  // If the caller may not, answers with the reason and returns false.
  bool Admit(const std::string& call, const httplib::Request& request,
             httplib::Response& response) {
    if (!options_.admit) return true;
    const absl::Status status =
        options_.admit(call, request.ssl, request.remote_addr, request.remote_port,
                       request.get_header_value("Authorization"));
    if (status.ok()) return true;
    response.status = absl::IsUnauthenticated(status) ? 401 : 403;
    if (response.status == 401) response.set_header("WWW-Authenticate", "Bearer");
    response.set_content(Cat(status.message(), "\n"), "text/plain; charset=utf-8");
    return false;
  }

  Metrics& metrics_;
  const MetricsServerOptions options_;
  const std::unique_ptr<HttpServer> http_ = std::make_unique<HttpServer>();
  int port_ = 0;
  std::thread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsServer>> StartMetricsServer(Metrics& metrics,
                                                                  MetricsServerOptions options) {
  auto server = std::make_unique<Server>(metrics, std::move(options));
  if (absl::Status status = server->Start(); !status.ok()) return status;
  return server;
}

}  // namespace assay::server
