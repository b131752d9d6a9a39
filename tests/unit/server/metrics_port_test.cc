// The port that Prometheus scrapes: what it serves, over TLS too, and callers that are slow or
// silent.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "server/auth/credentials.h"
#include "server/metrics/http_server.h"
#include "server/metrics/metrics.h"
#include "tests/unit/server/metrics_fixture.h"
#include "tests/unit/server/test_certificates.h"

namespace assay::server {
namespace {

using ::testing::HasSubstr;

// A socket that is connected to a port of this machine, or is about to be (SOCK_NONBLOCK).
int ConnectTo(int port, int flags = 0) {
  const int fd = socket(AF_INET, SOCK_STREAM | flags, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(static_cast<std::uint16_t>(port));
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  connect(fd, reinterpret_cast<sockaddr*>(&at), sizeof at);
  return fd;
}

TEST_F(MetricsTest, ThePortServesMetricsAndHealth) {
  bool healthy = true;
  MetricsServerOptions options;
  options.healthy = [&] { return healthy; };
  auto server = StartMetricsServer(*metrics_, options);
  ASSERT_TRUE(server.ok()) << server.status();
  httplib::Client client("127.0.0.1", (*server)->port());
  const auto metrics = client.Get("/metrics");
  ASSERT_TRUE(metrics);
  EXPECT_EQ(metrics->status, 200);
  EXPECT_THAT(metrics->body, HasSubstr("assay_build_info"));
  EXPECT_THAT(metrics->get_header_value("Content-Type"), HasSubstr("version=0.0.4"));
  EXPECT_EQ(client.Get("/healthz")->status, 200);
  healthy = false;
  EXPECT_EQ(client.Get("/healthz")->status, 503);
  EXPECT_EQ(client.Get("/else")->status, 404);
  EXPECT_EQ(client.Get("/health")->status, 404) << "nobody says what it is";
}

TEST_F(MetricsTest, ThePortTellsPeopleOfTheHealth) {
  MetricsServerOptions options;
  options.healthy = [] { return false; };
  options.health = [] { return std::string("{\"status\":\"draining\"}\n"); };
  auto server = StartMetricsServer(*metrics_, options);
  ASSERT_TRUE(server.ok()) << server.status();
  httplib::Client client("127.0.0.1", (*server)->port());
  const auto health = client.Get("/health");
  ASSERT_TRUE(health);
  EXPECT_EQ(health->status, 200) << "it is told of, whatever it is";
  EXPECT_EQ(health->get_header_value("Content-Type"), "application/json");
  EXPECT_EQ(health->body, "{\"status\":\"draining\"}\n");
}

TEST_F(MetricsTest, APortInUseIsAnError) {
  auto first = StartMetricsServer(*metrics_, {});
  ASSERT_TRUE(first.ok()) << first.status();
  MetricsServerOptions options;
  options.port = (*first)->port();
  const auto second = StartMetricsServer(*metrics_, options);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("Address already in use"));
}

TEST_F(MetricsTest, ScrapersThatSayNothingDoNotStopTheOthers) {
  auto server = StartMetricsServer(*metrics_, {});
  ASSERT_TRUE(server.ok()) << server.status();
  std::vector<int> silent;
  for (int i = 0; i < 8; ++i) silent.push_back(ConnectTo((*server)->port()));
  httplib::Client client("127.0.0.1", (*server)->port());
  client.set_read_timeout(30);
  const auto metrics = client.Get("/metrics");
  ASSERT_TRUE(metrics) << "blocked by silent connections";
  EXPECT_EQ(metrics->status, 200);
  for (const int fd : silent) close(fd);
}

// A byte now and then is no silence: without a limit of the whole, each of them holds a thread for
// as long as it likes.
TEST_F(MetricsTest, RequestsThatComeByteByByteDoNotStopTheOthers) {
  auto server = StartMetricsServer(*metrics_, {});
  ASSERT_TRUE(server.ok()) << server.status();
  std::vector<int> slow;
  for (int i = 0; i < 8; ++i) slow.push_back(ConnectTo((*server)->port()));
  std::jthread drip([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      for (const int fd : slow) send(fd, "G", 1, MSG_NOSIGNAL);
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  });
  httplib::Client client("127.0.0.1", (*server)->port());
  client.set_read_timeout(60);
  const auto metrics = client.Get("/metrics");
  ASSERT_TRUE(metrics) << "blocked by requests that never end";
  EXPECT_EQ(metrics->status, 200);
  drip.request_stop();
  drip.join();
  for (const int fd : slow) close(fd);
}

// The library limits a body whose length is stated, and no other.
TEST_F(MetricsTest, ABodyWithoutALengthIsNotTaken) {
  auto server = StartMetricsServer(*metrics_, {});
  ASSERT_TRUE(server.ok()) << server.status();
  const int fd = ConnectTo((*server)->port());
  const std::string head = "POST /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
  ASSERT_EQ(send(fd, head.data(), head.size(), MSG_NOSIGNAL), static_cast<ssize_t>(head.size()));
  const std::string chunk = "4000\r\n" + std::string(0x4000, 'x') + "\r\n";
  std::size_t taken = 0;
  while (taken < std::size_t{64} << 20) {  // more than all buffers between hold
    const ssize_t sent = send(fd, chunk.data(), chunk.size(), MSG_NOSIGNAL);
    if (sent <= 0) break;
    taken += static_cast<std::size_t>(sent);
  }
  EXPECT_LT(taken, std::size_t{64} << 20);
  close(fd);
}

// A connection that no thread serves yet waits outside of the daemon once too many do.
TEST_F(MetricsTest, ConnectionsThatSayNothingDoNotTakeTheDescriptors) {
  const auto open_files = [] {
    const auto files = std::filesystem::directory_iterator("/proc/self/fd");
    return std::distance(begin(files), end(files));
  };
  auto server = StartMetricsServer(*metrics_, {});
  ASSERT_TRUE(server.ok()) << server.status();
  constexpr int kClients = 300;
  const auto before = open_files();
  std::vector<int> silent;
  for (int i = 0; i < kClients; ++i) {
    silent.push_back(ConnectTo((*server)->port(), SOCK_NONBLOCK));
  }
  auto most = open_files();
  for (int i = 0; i < 50; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    most = std::max(most, open_files());
  }
  EXPECT_LT(most - before - kClients, 100);
  for (const int fd : silent) close(fd);
}

TEST_F(MetricsTest, ThePortServesTlsAndAsksForTheClientsCertificate) {
  const TestAuthority authority;
  const PemPair own = authority.Issue(1);
  const PemPair other = authority.Issue(2);
  const std::string base = ::testing::TempDir() + "metrics_tls_";
  std::filesystem::remove(base + "key");
  std::ofstream(base + "cert") << own.cert;
  std::ofstream(base + "key") << own.key;
  std::filesystem::permissions(base + "key", std::filesystem::perms::owner_read);
  std::ofstream(base + "ca") << authority.cert();
  std::ofstream(base + "client.cert") << other.cert;
  std::ofstream(base + "client.key") << other.key;
  auto store = CertificateStore::Open({base + "cert", base + "key", base + "ca"});
  ASSERT_TRUE(store.ok()) << store.status();
  MetricsServerOptions options;
  options.setup_tls = [&](SSL_CTX* context) { return UseCertificates(**store, context); };
  auto server = StartMetricsServer(*metrics_, options);
  ASSERT_TRUE(server.ok()) << server.status();

  httplib::SSLClient stranger("127.0.0.1", (*server)->port());
  stranger.set_ca_cert_path((base + "ca").c_str());
  EXPECT_FALSE(stranger.Get("/metrics")) << "a client without a certificate was let in";
  httplib::SSLClient client("127.0.0.1", (*server)->port(), base + "client.cert",
                            base + "client.key");
  client.set_ca_cert_path((base + "ca").c_str());
  const auto metrics = client.Get("/metrics");
  ASSERT_TRUE(metrics) << httplib::to_string(metrics.error());
  EXPECT_EQ(metrics->status, 200);
}

}  // namespace
}  // namespace assay::server
