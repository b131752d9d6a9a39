// A connection of the metrics port: one request with its answer, over TCP or TLS, in a time that
// is limited as a whole. A limit of each read alone would let a caller hold a thread for as long as
// it sends a byte now and then. The request's size is limited, too: the library limits a body of a
// stated length alone.
#ifndef ASSAY_SERVER_METRICS_HTTP_CONNECTION_H_
#define ASSAY_SERVER_METRICS_HTTP_CONNECTION_H_

#include <httplib.h>
#include <openssl/bio.h>
#include <openssl/ssl.h>

#include <chrono>
#include <memory>
#include <string>

namespace assay::server {

class HttpConnection final : public httplib::Stream {
 public:
  // Owns the accepted `socket`. With a `tls` context, the handshake is part of the first read.
  HttpConnection(int socket, SSL_CTX* tls);
  ~HttpConnection() override;  // says good-bye and closes

  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  // Null without TLS.
  const SSL* tls() const { return tls_; }

  // The bytes that were moved, 0 at the other end's end, -1 for an error, when the time is over, or
  // when the request is too large.
  ssize_t read(char* data, std::size_t size) override;
  ssize_t write(const char* data, std::size_t size) override;

  bool is_readable() const override { return true; }
  bool is_writable() const override { return true; }
  void get_remote_ip_and_port(std::string& ip, int& port) const override;
  void get_local_ip_and_port(std::string& ip, int& port) const override;
  socket_t socket() const override { return socket_; }

 private:
  using Clock = std::chrono::steady_clock;

  // Repeats `step`, which reads or writes at most `size` bytes, until it has moved something.
  template <class Step>
  ssize_t Move(Step step, std::size_t size);
  // Waits until the socket is ready for `events`. False when the time is over.
  bool Wait(short events) const;

  const int socket_;
  SSL* tls_ = nullptr;  // belongs to bio_
  const std::unique_ptr<BIO, void (*)(BIO*)> bio_;
  Clock::time_point deadline_;
  std::size_t read_ = 0;  // [bytes]
  bool answers_ = false;  // the request is complete
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_METRICS_HTTP_CONNECTION_H_
