// Which ports may be plain, and certificates that change under a serving daemon.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/auth/credentials.h"
#include "server/auth/roles_file.h"
#include "server/base/log.h"
#include "tests/unit/server/test_certificates.h"

namespace assay::server {
namespace {

using ::testing::HasSubstr;

class AuthTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    SetLogLevel("error");
    gpr_set_log_verbosity(GPR_LOG_SEVERITY_ERROR);
  }

  void SetUp() override {
    const std::string folder = ::testing::TempDir() + "auth_test_";
    const std::string name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    files_ = {folder + name + ".cert", folder + name + ".key", folder + name + ".ca"};
    Install(authority_.Issue(100));
    Write(files_.client_ca, authority_.cert());
  }

  static void Write(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::trunc) << text;
    chmod(path.c_str(), 0600);
  }

  void Install(const PemPair& pair) {
    Write(files_.cert, pair.cert);
    Write(files_.key, pair.key);
  }

  // A server on a free port, with the files.
  void Serve() {
    auto store = CertificateStore::Open(files_);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *store;
    auto credentials = PortCredentials("127.0.0.1:0", store_, false);
    ASSERT_TRUE(credentials.ok()) << credentials.status();
    grpc::ServerBuilder builder;
    service_ = std::make_unique<grpc::AsyncGenericService>();
    builder.RegisterAsyncGenericService(service_.get());
    queue_ = builder.AddCompletionQueue();
    builder.AddListeningPort("127.0.0.1:0", *credentials, &port_);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    // Handshakes are made by threads that wait for work.
    poller_ = std::thread([this] {
      void* tag = nullptr;
      bool ok = false;
      while (queue_->Next(&tag, &ok)) {
      }
    });
  }

  void TearDown() override {
    if (server_ == nullptr) return;
    server_->Shutdown(std::chrono::system_clock::now());
    queue_->Shutdown();
    poller_.join();
  }

  // Serial number of the certificate the server shows; -1: no handshake.
  long ServedSerial() const {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(static_cast<std::uint16_t>(port_));
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    long serial = -1;
    SSL_CTX* context = SSL_CTX_new(TLS_client_method());
    SSL* ssl = SSL_new(context);
    if (connect(fd, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0) {
      SSL_set_fd(ssl, fd);
      const unsigned char alpn[] = "\x02h2";
      SSL_set_alpn_protos(ssl, alpn, 3);
      if (SSL_connect(ssl) == 1) {
        X509* cert = SSL_get1_peer_certificate(ssl);
        serial = ASN1_INTEGER_get(X509_get0_serialNumber(cert));
        X509_free(cert);
      }
    }
    SSL_free(ssl);
    SSL_CTX_free(context);
    close(fd);
    return serial;
  }

  std::shared_ptr<grpc::Channel> Channel(const PemPair& own) const {
    grpc::SslCredentialsOptions options;
    options.pem_root_certs = authority_.cert();
    options.pem_cert_chain = own.cert;
    options.pem_private_key = own.key;
    return grpc::CreateChannel("127.0.0.1:" + std::to_string(port_), grpc::SslCredentials(options));
  }
  static std::chrono::system_clock::time_point Soon() {
    return std::chrono::system_clock::now() + std::chrono::seconds(120);
  }
  // Whether a client with this certificate (or none) gets through.
  bool Connects(const PemPair& own) const { return Channel(own)->WaitForConnected(Soon()); }
  // Whether it tried and did not.
  bool IsRefused(const PemPair& own) const {
    const std::shared_ptr<grpc::Channel> channel = Channel(own);
    for (const auto deadline = Soon();;) {
      const grpc_connectivity_state state = channel->GetState(/*try_to_connect=*/true);
      if (state == GRPC_CHANNEL_TRANSIENT_FAILURE) return true;
      if (state == GRPC_CHANNEL_READY) return false;
      if (!channel->WaitForStateChange(state, deadline)) return false;
    }
  }

  TestAuthority authority_;
  TlsFiles files_;
  std::shared_ptr<CertificateStore> store_;
  std::unique_ptr<grpc::AsyncGenericService> service_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
  std::thread poller_;
  int port_ = 0;
};

TEST_F(AuthTest, OnlyLoopbackAndUnixSocketsAreLocal) {
  for (const char* local : {"127.0.0.1:1", "127.9.9.9:0", "localhost:7", "[::1]:7", "unix:/a"}) {
    EXPECT_TRUE(IsLocalAddress(local)) << local;
  }
  for (const char* open :
       {"0.0.0.0:1", ":1", "[::]:1", "10.0.0.1:1", "127.evil.example:1", "node7:1", "nonsense"}) {
    EXPECT_FALSE(IsLocalAddress(open)) << open;
  }
}

TEST_F(AuthTest, PlaintextBeyondTheNodeNeedsTheWordInsecure) {
  EXPECT_TRUE(PortCredentials("127.0.0.1:0", nullptr, false).ok());
  const absl::Status refused = PortCredentials("0.0.0.0:7575", nullptr, false).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("--listen 0.0.0.0:7575"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("--insecure"));
  EXPECT_TRUE(PortCredentials("0.0.0.0:7575", nullptr, true).ok());
}

TEST_F(AuthTest, ASetThatIsNotWholeIsRefusedWithTheFile) {
  const auto error = [&] { return std::string(CertificateStore::Open(files_).status().message()); };
  EXPECT_EQ(error(), "");
  Write(files_.key, authority_.Issue(7).key);
  EXPECT_THAT(error(), HasSubstr("is not the key of the certificate in " + files_.cert));
  Write(files_.key, "garbage");
  EXPECT_THAT(error(), HasSubstr("--tls-key: " + files_.key));
  Write(files_.cert, "");
  EXPECT_THAT(error(), HasSubstr("--tls-cert: " + files_.cert + " holds no PEM certificate"));
  Install(authority_.Issue(8));
  Write(files_.client_ca, "garbage");
  EXPECT_THAT(error(), HasSubstr("--tls-client-ca: " + files_.client_ca));
  unlink(files_.cert.c_str());
  EXPECT_THAT(error(), HasSubstr("--tls-cert: cannot read " + files_.cert));
}

TEST_F(AuthTest, AKeyThatOthersReadIsRefused) {
  for (const mode_t mode : {0644, 0602, 0666, 0660}) {
    chmod(files_.key.c_str(), mode);
    const absl::Status refused = CertificateStore::Open(files_).status();
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << std::oct << mode;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("chmod 0640 " + files_.key));
  }
  chmod(files_.key.c_str(), 0640);
  EXPECT_TRUE(CertificateStore::Open(files_).ok());
}

// Reading a pipe would wait for somebody to write into it.
TEST_F(AuthTest, APipeIsNotRead) {
  unlink(files_.cert.c_str());
  ASSERT_EQ(mkfifo(files_.cert.c_str(), 0600), 0);
  EXPECT_THAT(std::string(CertificateStore::Open(files_).status().message()),
              HasSubstr("--tls-cert: cannot read " + files_.cert + ": it is no plain file"));
  EXPECT_THAT(std::string(ReadRolesFile(files_.cert).status().message()),
              HasSubstr("--roles-file: cannot read " + files_.cert + ": it is no plain file"));
  EXPECT_TRUE(absl::IsNotFound(ReadRolesFile("/dev/zero").status()));
}

TEST_F(AuthTest, RolesOfAnotherUserAreRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root gives files to others";
  const std::string file = files_.key + ".roles";
  Write(file, "");
  chmod(file.c_str(), 0640);
  EXPECT_TRUE(ReadRolesFile(file).ok());
  ASSERT_EQ(chown(file.c_str(), 1234, 0), 0);
  EXPECT_THAT(std::string(ReadRolesFile(file).status().message()),
              HasSubstr("belongs to the user 1234"));
}

TEST_F(AuthTest, WhenItExpiresIsKnownAndOnceItHasItIsRefused) {
  const auto now = [] { return absl::ToUnixSeconds(absl::Now()); };
  Install(authority_.Issue(101, 7 * 24 * 3600));
  const std::int64_t before = now();
  const auto store = CertificateStore::Open(files_);
  ASSERT_TRUE(store.ok()) << store.status();
  std::vector<std::int64_t> told;
  (*store)->TellOfNew([&](const TlsMaterial& set) { told.push_back(set.expires); });
  ASSERT_EQ(told.size(), 1u);
  EXPECT_GE(told[0], before + 7 * 24 * 3600 - 1);
  EXPECT_LE(told[0], now() + 7 * 24 * 3600);
  Install(authority_.Issue(102, -1));
  const absl::Status expired = CertificateStore::Open(files_).status();
  EXPECT_TRUE(absl::IsInvalidArgument(expired));
  EXPECT_THAT(std::string(expired.message()),
              HasSubstr(files_.cert + " holds a certificate that expired on 20"));
}

// The files have not changed since they were refused, so nothing but another try takes them.
TEST_F(AuthTest, ASetThatCouldNotBeReadForAMomentIsTakenLater) {
  const auto opened = CertificateStore::Open(files_);
  ASSERT_TRUE(opened.ok()) << opened.status();
  const std::shared_ptr<CertificateStore> store = *opened;
  const auto before = store->Current();
  Install(authority_.Issue(101));
  rlimit files{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  const rlimit none{0, files.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  store->LookNow();
  EXPECT_EQ(store->Current(), before) << "no file can be opened";
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  while (store->Current() == before && absl::Now() < deadline)
    absl::SleepFor(absl::Milliseconds(5));
  EXPECT_NE(store->Current(), before);
}

TEST_F(AuthTest, WithAnAuthorityOnlyItsClientsGetThrough) {
  Serve();
  EXPECT_TRUE(Connects(authority_.Issue(200)));
  EXPECT_TRUE(IsRefused({})) << "a client without a certificate was let in";
  const TestAuthority stranger;
  EXPECT_TRUE(IsRefused(stranger.Issue(201))) << "a stranger's client was let in";
}

TEST_F(AuthTest, WithoutAnAuthorityClientsNeedNoCertificate) {
  files_.client_ca.clear();
  Serve();
  EXPECT_TRUE(Connects({}));
}

TEST_F(AuthTest, NewCertificatesAreServedAndBrokenOnesAreNot) {
  files_.client_ca.clear();
  Serve();
  EXPECT_EQ(ServedSerial(), 100);
  const auto await = [&](long serial) {
    const absl::Time deadline = absl::Now() + absl::Seconds(120);
    long served = 0;
    while (served != serial && absl::Now() < deadline) served = ServedSerial();
    return served;
  };
  Install(authority_.Issue(101));
  EXPECT_EQ(await(101), 101);
  // Half of a new pair: the set before serves on.
  Write(files_.cert, authority_.Issue(102).cert);
  for (const absl::Time end = absl::Now() + absl::Milliseconds(1300); absl::Now() < end;) {
    ASSERT_EQ(ServedSerial(), 101);
  }
  Install(authority_.Issue(103));
  EXPECT_EQ(await(103), 103);
}

TEST(CredentialsTest, MetricsArePlainOnLocalAddressesOnly) {
  EXPECT_TRUE(CheckMetricsPort("127.0.0.1:9575", false, false).ok());
  EXPECT_TRUE(CheckMetricsPort("0.0.0.0:9575", true, false).ok());
  EXPECT_TRUE(CheckMetricsPort("0.0.0.0:9575", false, true).ok());
  for (const char* address : {"0.0.0.0:9575", ":9575", "[::]:9575", "node7:9575"}) {
    const absl::Status refused = CheckMetricsPort(address, false, false);
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << address;
    EXPECT_THAT(std::string(refused.message()), testing::HasSubstr("--metrics-tls")) << address;
  }
}

TEST(CredentialsTest, TheHealthPortHasNoTlsSoOthersReachItOnlyWhereSomebodySaysSo) {
  EXPECT_TRUE(CheckHealthPort("127.0.0.1:7577", false).ok());
  EXPECT_TRUE(CheckHealthPort("0.0.0.0:7577", true).ok());
  for (const char* address : {"0.0.0.0:7577", ":7577", "[::]:7577", "node7:7577"}) {
    const absl::Status refused = CheckHealthPort(address, false);
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << address;
    EXPECT_THAT(std::string(refused.message()), testing::HasSubstr("--insecure")) << address;
  }
}

}  // namespace
}  // namespace assay::server
