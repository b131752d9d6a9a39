#include "server/auth/credentials.h"

#include <arpa/inet.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "kernels/text/cat.h"
#include "server/auth/file_stamp.h"
#include "server/base/config.h"
#include "server/base/log.h"

namespace assay::server {

// OpenSSL's objects, each freed by its own function.
namespace openssl {

template <auto Free>
struct Freer {
  template <class T>
  void operator()(T* object) const {
    Free(object);
  }
};
using Bio = std::unique_ptr<BIO, Freer<BIO_free>>;
using Certificate = std::unique_ptr<X509, Freer<X509_free>>;
using RevocationList = std::unique_ptr<X509_CRL, Freer<X509_CRL_free>>;
using PrivateKey = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY_free>>;

}  // namespace openssl

namespace {

using openssl::Bio;
using openssl::Certificate;
using openssl::PrivateKey;
using openssl::RevocationList;

// A client's chain has at most so many certificates.
constexpr int kLongestChain = 10;

Bio Read(const std::string& pem) {
  return Bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

// All objects of a text. Nothing if what follows one of them is damaged; an empty list if the text
// has none.
template <class Object, auto ReadOne>
std::optional<std::vector<Object>> AllOf(const std::string& pem) {
  std::vector<Object> all;
  const Bio bio = Read(pem);
  while (Object one{ReadOne(bio.get(), nullptr, nullptr, nullptr)}) all.push_back(std::move(one));
  // The end of the text is an error to OpenSSL.
  const bool ended = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  if (!ended) return std::nullopt;
  return all;
}

// None if the text is damaged.
std::vector<Certificate> Certificates(const std::string& pem) {
  return AllOf<Certificate, PEM_read_bio_X509>(pem).value_or(std::vector<Certificate>());
}

std::vector<RevocationList> RevocationLists(const std::string& pem) {
  return AllOf<RevocationList, PEM_read_bio_X509_CRL>(pem).value_or(std::vector<RevocationList>());
}

// Refuses a key with a passphrase, because nobody is there to type it.
PrivateKey Key(const std::string& pem) {
  const Bio bio = Read(pem);
  const auto no_passphrase = [](char*, int, int, void*) { return -1; };
  PrivateKey key{PEM_read_bio_PrivateKey(bio.get(), nullptr, no_passphrase, nullptr)};
  ERR_clear_error();
  return key;
}

absl::StatusOr<std::string> ReadFile(const std::string& path, std::string_view flag) {
  std::ifstream file(path);
  std::stringstream text;
  if (file) text << file.rdbuf();
  if (!file.is_open() || !file) {
    return absl::NotFoundError(Cat(flag, ": cannot read ", path));
  }
  return text.str();
}

absl::StatusOr<TlsMaterial> ReadMaterial(const TlsFiles& files) {
  TlsMaterial material;
  const auto read = [](const std::string& path, std::string_view flag,
                       std::string* out) -> absl::Status {
    absl::StatusOr<std::string> text = ReadFile(path, flag);
    if (!text.ok()) return text.status();
    *out = *std::move(text);
    return absl::OkStatus();
  };
  if (absl::Status s = read(files.cert, "--tls-cert", &material.cert); !s.ok()) return s;
  if (absl::Status s = read(files.key, "--tls-key", &material.key); !s.ok()) return s;
  struct stat about {};
  if (stat(files.key.c_str(), &about) == 0 && (about.st_mode & (S_IROTH | S_IWOTH)) != 0) {
    return absl::InvalidArgumentError(
        Cat("--tls-key: ", files.key, " may be read or changed by others: chmod 0640 ", files.key));
  }
  if (!files.client_ca.empty()) {
    if (absl::Status s = read(files.client_ca, "--tls-client-ca", &material.client_ca); !s.ok()) {
      return s;
    }
  }
  if (!files.client_crl.empty()) {
    if (absl::Status s = read(files.client_crl, "--tls-client-crl", &material.client_crl);
        !s.ok()) {
      return s;
    }
  }
  if (absl::Status s = CheckMaterial(files, material); !s.ok()) return s;
  return material;
}

std::int64_t SecondsNow() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::int64_t SecondsOf(const ASN1_TIME* time) {
  std::tm parts{};
  return ASN1_TIME_to_tm(time, &parts) == 1 ? timegm(&parts) : 0;
}

// "2026-03-01 12:00 UTC".
std::string DateText(std::int64_t seconds) {
  return absl::FormatTime("%Y-%m-%d %H:%M UTC", absl::FromUnixSeconds(seconds),
                          absl::UTCTimeZone());
}

}  // namespace

struct Revocations {
  std::vector<openssl::RevocationList> lists;
  std::vector<openssl::Certificate> authorities;

  bool Have(X509* certificate) const {
    for (const RevocationList& list : lists) {
      if (X509_NAME_cmp(X509_CRL_get_issuer(list.get()), X509_get_issuer_name(certificate)) != 0) {
        continue;
      }
      X509_REVOKED* entry = nullptr;
      if (X509_CRL_get0_by_cert(list.get(), &entry, certificate) == 1) return true;
    }
    return false;
  }

  X509* IssuerOf(X509* certificate) const {
    for (const Certificate& authority : authorities) {
      if (X509_check_issued(authority.get(), certificate) == X509_V_OK) return authority.get();
    }
    return nullptr;
  }

  // Of the certificate, or of an authority above it.
  bool Cover(X509* certificate) const {
    for (int i = 0; i < kLongestChain; ++i) {
      if (Have(certificate)) return true;
      X509* issuer = IssuerOf(certificate);
      if (issuer == nullptr) return true;
      if (issuer == certificate || X509_check_issued(issuer, issuer) == X509_V_OK) return false;
      certificate = issuer;
    }
    return true;
  }
};

namespace {

absl::Status TakeRevocations(const TlsFiles& files, TlsMaterial& material) {
  const auto taken = std::make_shared<Revocations>();
  taken->lists = RevocationLists(material.client_crl);
  taken->authorities = Certificates(material.client_ca);
  const auto invalid = [&](std::string_view what) {
    return absl::InvalidArgumentError(Cat("--tls-client-crl: ", files.client_crl, " ", what));
  };
  if (taken->lists.empty()) {
    return invalid("holds no lists of revoked certificates (X509 CRL) in whole PEM");
  }
  for (const RevocationList& list : taken->lists) {
    const bool is_signed = std::any_of(
        taken->authorities.begin(), taken->authorities.end(), [&](const Certificate& authority) {
          return X509_NAME_cmp(X509_get_subject_name(authority.get()),
                               X509_CRL_get_issuer(list.get())) == 0 &&
                 X509_CRL_verify(list.get(), X509_get0_pubkey(authority.get())) == 1;
        });
    ERR_clear_error();
    if (!is_signed) return invalid("holds a list that no authority of --tls-client-ca signed");
    if (X509_CRL_get_ext_by_NID(list.get(), NID_delta_crl, -1) >= 0) {
      return invalid("holds a delta list; give full lists");
    }
    const ASN1_TIME* next = X509_CRL_get0_nextUpdate(list.get());
    if (next == nullptr) continue;
    const std::int64_t expires = SecondsOf(next);
    if (material.list_expires == 0 || expires < material.list_expires) {
      material.list_expires = expires;
    }
  }
  material.revocations = taken;
  return absl::OkStatus();
}

std::string StampOf(const TlsFiles& files) {
  return FileStamp({files.cert, files.key, files.client_ca, files.client_crl});
}

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
      !now->revocations->Have(X509_STORE_CTX_get_current_cert(context))) {
    return 1;
  }
  X509_STORE_CTX_set_error(context, X509_V_ERR_CERT_REVOKED);
  return 0;
}

}  // namespace

absl::Status CheckMaterial(const TlsFiles& files, TlsMaterial& material) {
  const std::vector<Certificate> chain = Certificates(material.cert);
  if (chain.empty()) {
    return absl::InvalidArgumentError(Cat("--tls-cert: ", files.cert, " holds no PEM certificate"));
  }
  material.expires = std::numeric_limits<std::int64_t>::max();
  for (const Certificate& one : chain) {
    material.expires = std::min(material.expires, SecondsOf(X509_get0_notAfter(one.get())));
  }
  if (material.expires <= SecondsNow()) {
    return absl::InvalidArgumentError(Cat("--tls-cert: ", files.cert,
                                          " holds a certificate that expired on ",
                                          DateText(material.expires)));
  }
  const PrivateKey key = Key(material.key);
  if (key == nullptr) {
    return absl::InvalidArgumentError(
        Cat("--tls-key: ", files.key, " holds no PEM private key without a passphrase"));
  }
  const bool fits = X509_check_private_key(chain.front().get(), key.get()) == 1;
  ERR_clear_error();
  if (!fits) {
    return absl::InvalidArgumentError(
        Cat("--tls-key: ", files.key, " is not the key of the certificate in ", files.cert));
  }
  if (!files.client_ca.empty() && Certificates(material.client_ca).empty()) {
    return absl::InvalidArgumentError(
        Cat("--tls-client-ca: ", files.client_ca, " holds no PEM certificate"));
  }
  if (!files.client_crl.empty()) return TakeRevocations(files, material);
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<CertificateStore>> CertificateStore::Open(TlsFiles files) {
  auto store = std::shared_ptr<CertificateStore>(new CertificateStore(std::move(files)));
  store->stamp_ = StampOf(store->files_);
  absl::StatusOr<TlsMaterial> material = ReadMaterial(store->files_);
  if (!material.ok()) return material.status();
  store->current_ = std::make_shared<const TlsMaterial>(*std::move(material));
  store->looked_ = std::chrono::steady_clock::now();
  const std::lock_guard lock(store->mutex_);
  store->WarnLocked();
  return store;
}

void CertificateStore::LookNow() {
  {
    const std::lock_guard lock(mutex_);
    looked_ = {};
  }
  Current();
}

std::shared_ptr<const TlsMaterial> CertificateStore::Current() {
  const std::lock_guard lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  if (now - looked_ < std::chrono::seconds(1)) return current_;
  looked_ = now;
  WarnLocked();
  std::string stamp = StampOf(files_);
  if (stamp == stamp_) return current_;
  absl::StatusOr<TlsMaterial> material = ReadMaterial(files_);
  stamp_ = std::move(stamp);
  if (material.ok()) {
    current_ = std::make_shared<const TlsMaterial>(*std::move(material));
    warned_ = {};
    Log(LogLevel::kInfo, "tls.reloaded", {{"cert", files_.cert}});
    if (listener_) listener_(*current_);
  } else {
    Log(LogLevel::kError, "tls.reload_refused",
        {{"reason", std::string(material.status().message())}, {"using", "the set before"}});
  }
  return current_;
}

bool CertificateStore::IsRevoked(const std::string& certificate) {
  const std::shared_ptr<const TlsMaterial> now = Current();
  if (now->revocations == nullptr) return false;
  const std::vector<Certificate> shown = Certificates(certificate);
  return shown.empty() || now->revocations->Cover(shown.front().get());
}

void CertificateStore::TellOfNew(std::function<void(const TlsMaterial&)> listener) {
  const std::lock_guard lock(mutex_);
  listener_ = std::move(listener);
  listener_(*current_);
}

void CertificateStore::WarnLocked() {
  const auto now = std::chrono::system_clock::now();
  if (now - warned_ < std::chrono::hours(24)) return;
  const std::int64_t soon = SecondsNow() + std::chrono::seconds(kExpiresSoon).count();
  const bool list_expired = current_->list_expires != 0 && current_->list_expires <= SecondsNow();
  if (current_->expires <= soon) {
    Log(LogLevel::kWarn, "tls.expires_soon",
        {{"cert", files_.cert}, {"expires", DateText(current_->expires)}});
  }
  if (list_expired) {
    Log(LogLevel::kWarn, "tls.revocations_expired",
        {{"file", files_.client_crl}, {"expired", DateText(current_->list_expires)}});
  }
  if (current_->expires <= soon || list_expired) warned_ = now;
}

int CertificateStore::AddPort() {
  const std::lock_guard lock(mutex_);
  given_.emplace_back();
  return static_cast<int>(given_.size()) - 1;
}

void CertificateStore::Keep(std::shared_ptr<void> what) {
  const std::lock_guard lock(mutex_);
  kept_.push_back(std::move(what));
}

std::shared_ptr<const TlsMaterial> CertificateStore::NewFor(int port) {
  std::shared_ptr<const TlsMaterial> now = Current();
  const std::lock_guard lock(mutex_);
  auto& given = given_[static_cast<std::size_t>(port)];
  if (given == now) return nullptr;
  given = now;
  return now;
}

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
