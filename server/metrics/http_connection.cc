#include "server/metrics/http_connection.h"

#include <netdb.h>
#include <openssl/err.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <limits>

namespace assay::server {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kSilence{1000};   // a caller that says nothing is left
constexpr milliseconds kRequest{3000};   // the handshake and the request
constexpr milliseconds kAnswer{10'000};  // from its first byte to its last

constexpr std::size_t kMostBytes = 64 << 10;  // of a request; a scraper's has hundreds

BIO* MakeBio(int socket, SSL_CTX* tls) {
  BIO_socket_nbio(socket, 1);
  BIO* bio = BIO_new_socket(socket, BIO_NOCLOSE);
  return tls == nullptr ? bio : BIO_push(BIO_new_ssl(tls, /*client=*/0), bio);
}

// One end of `socket`, as `get` (getpeername, getsockname) tells it.
template <class Get>
void AddressOf(int socket, Get get, std::string& ip, int& port) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> service{};
  auto* const at = reinterpret_cast<sockaddr*>(&address);
  if (get(socket, at, &length) != 0) return;
  if (getnameinfo(at, length, host.data(), host.size(), service.data(), service.size(),
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return;
  }
  ip = host.data();
  std::from_chars(service.data(), service.data() + std::strlen(service.data()), port);
}

}  // namespace

HttpConnection::HttpConnection(int socket, SSL_CTX* tls)
    : socket_(socket),
      bio_(MakeBio(socket, tls), [](BIO* bio) { BIO_free_all(bio); }),
      deadline_(Clock::now() + kRequest) {
  ERR_clear_error();  // what an earlier connection of this thread left would be taken for this
                      // one's
  if (tls != nullptr) BIO_get_ssl(bio_.get(), &tls_);
}

HttpConnection::~HttpConnection() {
  if (tls_ != nullptr) SSL_shutdown(tls_);
  shutdown(socket_, SHUT_RDWR);
  close(socket_);
}

ssize_t HttpConnection::read(char* data, std::size_t size) {
  if (read_ >= kMostBytes) return -1;
  const ssize_t moved = Move([&](int most) { return BIO_read(bio_.get(), data, most); }, size);
  if (moved > 0) read_ += static_cast<std::size_t>(moved);
  return moved;
}

ssize_t HttpConnection::write(const char* data, std::size_t size) {
  if (!answers_) deadline_ = Clock::now() + kAnswer;
  answers_ = true;
  return Move([&](int most) { return BIO_write(bio_.get(), data, most); }, size);
}

template <class Step>
ssize_t HttpConnection::Move(Step step, std::size_t size) {
  const int most = static_cast<int>(std::min<std::size_t>(size, std::numeric_limits<int>::max()));
  if (most == 0) return 0;
  for (;;) {
    if (Clock::now() >= deadline_) return -1;
    const int moved = step(most);
    if (moved > 0) return moved;
    if (!BIO_should_retry(bio_.get())) return moved == 0 ? 0 : -1;
    if (!Wait(BIO_should_write(bio_.get()) != 0 ? POLLOUT : POLLIN)) return -1;
  }
}

bool HttpConnection::Wait(short events) const {
  const auto left = std::chrono::ceil<milliseconds>(deadline_ - Clock::now());
  const milliseconds most = answers_ ? left : std::min(left, kSilence);
  pollfd one{socket_, events, 0};
  int ready = 0;
  do {
    ready = poll(&one, 1, static_cast<int>(std::max(most, milliseconds(0)).count()));
  } while (ready < 0 && errno == EINTR);
  return ready > 0;
}

void HttpConnection::get_remote_ip_and_port(std::string& ip, int& port) const {
  AddressOf(socket_, getpeername, ip, port);
}

void HttpConnection::get_local_ip_and_port(std::string& ip, int& port) const {
  AddressOf(socket_, getsockname, ip, port);
}

}  // namespace assay::server
