#include "server/auth/credentials.h"

#include <arpa/inet.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <openssl/x509_vfy.h>

#include <cstddef>
#include <vector>

#include "kernels/text/cat.h"
#include "server/base/config.h"

namespace assay::server {
namespace {

using openssl::Certificate;
using openssl::Certificates;
using openssl::Key;
using openssl::PrivateKey;

// gRPC's core asserts that there are authorities, even if no client is asked for a certificate. It
// then gets the server's own chain, and never looks at it.
grpc_ssl_server_certificate_config* MakeConfig(const TlsMaterial& material) {
  const grpc_ssl_pem_key_cert_pair pair{material.key.c_str(), material.cert.c_str()};
  const std::string& roots = material.client_ca.empty() ? material.cert : material.client_ca;
  return grpc_ssl_server_certificate_config_create(roots.c_str(), &pair, 1);
}

// The part of a port that gRPC's core keeps as long as the server lives. The C++ credentials are
// gone when the server is built.
struct Port {
  CertificateStore* certificates;
  int index;
};

// The bridge to gRPC's C interface. It has credentials that ask for their certificates at each
// handshake, and the C++ interface has none.
class FetchingCredentials final : public grpc::ServerCredentials {
 public:
  explicit FetchingCredentials(CertificateStore& certificates) {
    const bool mutual = !certificates.files().client_ca.empty();
    // The store keeps it, because core does not say when it has asked for the last time.
    const auto port = std::make_shared<Port>(Port{&certificates, certificates.AddPort()});
    certificates.Keep(port);
    credentials_ = grpc_ssl_server_credentials_create_with_options(
        grpc_ssl_server_credentials_create_options_using_config_fetcher(
            mutual ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                   : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE,
            &FetchingCredentials::Fetch, port.get()));
  }
  ~FetchingCredentials() override { grpc_server_credentials_release(credentials_); }

  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  static grpc_ssl_certificate_config_reload_status Fetch(
      void* user, grpc_ssl_server_certificate_config** config) {
    const auto& port = *static_cast<const Port*>(user);
    const std::shared_ptr<const TlsMaterial> changed = port.certificates->NewFor(port.index);
    if (changed == nullptr) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    *config = MakeConfig(*changed);
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
  }

  grpc_server_credentials* credentials_ = nullptr;
};

// Where a connection of the metrics port keeps its CertificateStore.
int StoreIndex() {
  static const int index = SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
  return index;
}

// OpenSSL's question about each certificate of a client's chain.
int VerifyNotRevoked(int trusted, X509_STORE_CTX* context) {
  if (trusted != 1) return trusted;
  const auto* ssl = static_cast<const SSL*>(
      X509_STORE_CTX_get_ex_data(context, SSL_get_ex_data_X509_STORE_CTX_idx()));
  auto* store = static_cast<CertificateStore*>(SSL_get_ex_data(ssl, StoreIndex()));
  const std::shared_ptr<const TlsMaterial> now = store->Current();
  if (now->revocations == nullptr ||
      !now->revocations->Cover(X509_STORE_CTX_get_current_cert(context))) {
    return 1;
  }
  X509_STORE_CTX_set_error(context, X509_V_ERR_CERT_REVOKED);
  return 0;
}

}  // namespace

bool IsLocalAddress(std::string_view address) {
  if (address.starts_with("unix:")) return true;
  const absl::StatusOr<HostPort> parsed = ParseHostPort(address);
  if (!parsed.ok()) return false;
  const std::string& host = parsed->host;
  if (host == "localhost" || host == "::1") return true;
  in_addr ip{};
  return inet_pton(AF_INET, host.c_str(), &ip) == 1 && (ntohl(ip.s_addr) >> 24) == 127;
}

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> PortCredentials(
    std::string_view address, const std::shared_ptr<CertificateStore>& certificates,
    bool insecure) {
  if (certificates != nullptr) {
    return std::make_shared<FetchingCredentials>(*certificates);
  }
  if (!insecure && !IsLocalAddress(address)) {
    return absl::InvalidArgumentError(
        Cat("--listen ", address,
            " can be reached from other machines: give --tls-cert and --tls-key, or --insecure "
            "to serve without encryption"));
  }
  return grpc::InsecureServerCredentials();
}

absl::Status CheckMetricsPort(std::string_view address, bool tls, bool insecure) {
  if (tls || insecure || IsLocalAddress(address)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      Cat("--metrics-listen ", address,
          " can be reached from other machines: give --metrics-tls with --tls-cert and --tls-key, "
          "or --insecure to serve without encryption"));
}

absl::Status CheckHealthPort(std::string_view address, bool insecure) {
  if (insecure || IsLocalAddress(address)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      Cat("--health-listen ", address,
          " can be reached from other machines, and the port has no TLS: give --insecure to say "
          "that you know it. Ports with certificates keep their TLS"));
}

bool UseCertificates(CertificateStore& certificates, SSL_CTX* context) {
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  // A session that is resumed asks for no certificate again, so a revoked one would go on.
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context, 0);
  const auto use = [](SSL* ssl, void* store) -> int {
    const std::shared_ptr<const TlsMaterial> now = static_cast<CertificateStore*>(store)->Current();
    const std::vector<Certificate> chain = Certificates(now->cert);
    const PrivateKey key = Key(now->key);
    if (chain.empty() || key == nullptr) return 0;
    if (SSL_use_certificate(ssl, chain.front().get()) != 1) return 0;
    SSL_clear_chain_certs(ssl);
    for (std::size_t i = 1; i < chain.size(); ++i) {
      if (SSL_add1_chain_cert(ssl, chain[i].get()) != 1) return 0;
    }
    if (SSL_use_PrivateKey(ssl, key.get()) != 1) return 0;
    if (now->client_ca.empty()) return 1;
    X509_STORE* authorities = X509_STORE_new();
    for (const Certificate& ca : Certificates(now->client_ca)) {
      X509_STORE_add_cert(authorities, ca.get());
    }
    SSL_set0_verify_cert_store(ssl, authorities);  // takes it
    SSL_set_ex_data(ssl, StoreIndex(), store);
    SSL_set_verify(ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, VerifyNotRevoked);
    return 1;
  };
  SSL_CTX_set_cert_cb(context, use, &certificates);
  return true;
}

}  // namespace assay::server
