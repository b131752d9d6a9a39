#include "server/auth/certificate_store.h"

#include <openssl/err.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <ctime>
#include <limits>

#include "absl/time/time.h"
#include "kernels/text/cat.h"
#include "server/auth/file_stamp.h"
#include "server/auth/plain_file.h"
#include "server/base/log.h"

namespace assay::server {
namespace {

using openssl::Certificate;
using openssl::Certificates;
using openssl::Key;
using openssl::PrivateKey;
using openssl::RevocationList;
using openssl::RevocationLists;

// A client's chain has at most so many certificates.
constexpr int kLongestChain = 10;

// Certificates of clients that are remembered, of two kilobytes each.
constexpr std::size_t kMostEnds = 1024;

absl::StatusOr<TlsMaterial> ReadMaterial(const TlsFiles& files) {
  TlsMaterial material;
  const auto read = [](const std::string& path, std::string_view flag, std::string* out,
                       bool is_private = false) -> absl::Status {
    absl::StatusOr<PlainFile> file = ReadPlainFile(path, flag);
    if (!file.ok()) return file.status();
    if (absl::Status s = is_private ? CheckPrivate(*file, path, flag) : absl::OkStatus(); !s.ok()) {
      return s;
    }
    *out = std::move(file->text);
    return absl::OkStatus();
  };
  if (absl::Status s = read(files.cert, "--tls-cert", &material.cert); !s.ok()) return s;
  if (absl::Status s = read(files.key, "--tls-key", &material.key, /*is_private=*/true); !s.ok()) {
    return s;
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
    refused_stamp_.clear();
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
  if (stamp == stamp_) {
    refused_.clear();
    return current_;
  }
  absl::StatusOr<TlsMaterial> material = ReadMaterial(files_);
  refused_ = std::string(material.status().message());
  if (material.ok()) {
    stamp_ = std::move(stamp);
    current_ = std::make_shared<const TlsMaterial>(*std::move(material));
    warned_ = {};
    Log(LogLevel::kInfo, "tls.reloaded", {{"cert", files_.cert}});
    if (listener_) listener_(*current_);
  } else if (stamp != refused_stamp_) {  // the same files are tried again, and told of once
    refused_stamp_ = std::move(stamp);
    Log(LogLevel::kError, "tls.reload_refused",
        {{"reason", refused_}, {"using", "the set before"}});
  }
  return current_;
}

std::string CertificateStore::Refused() {
  Current();
  const std::lock_guard lock(mutex_);
  return refused_;
}

bool CertificateStore::IsVoid(const std::string& certificate) {
  const std::shared_ptr<const TlsMaterial> now = Current();
  {
    const std::lock_guard lock(mutex_);
    if (ends_of_ != now || ends_.size() >= kMostEnds) ends_.clear();
    ends_of_ = now;
    if (const auto known = ends_.find(certificate); known != ends_.end()) {
      return known->second <= SecondsNow();
    }
  }
  const std::vector<Certificate> shown = Certificates(certificate);
  const bool revoked = shown.empty() || (now->revocations != nullptr &&
                                         now->revocations->Cover(shown.front().get()));
  const std::int64_t end = revoked ? 0 : SecondsOf(X509_get0_notAfter(shown.front().get()));
  const std::lock_guard lock(mutex_);
  if (ends_of_ == now) ends_[certificate] = end;
  return end <= SecondsNow();
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

bool Revocations::Have(X509* certificate) const {
  for (const RevocationList& list : lists) {
    if (X509_NAME_cmp(X509_CRL_get_issuer(list.get()), X509_get_issuer_name(certificate)) != 0) {
      continue;
    }
    X509_REVOKED* entry = nullptr;
    if (X509_CRL_get0_by_cert(list.get(), &entry, certificate) == 1) return true;
  }
  return false;
}

X509* Revocations::IssuerOf(X509* certificate) const {
  for (const Certificate& authority : authorities) {
    if (X509_check_issued(authority.get(), certificate) == X509_V_OK) return authority.get();
  }
  return nullptr;
}

bool Revocations::Cover(X509* certificate) const {
  for (int i = 0; i < kLongestChain; ++i) {
    if (Have(certificate)) return true;
    X509* issuer = IssuerOf(certificate);
    if (issuer == nullptr) return true;
    if (issuer == certificate || X509_check_issued(issuer, issuer) == X509_V_OK) return false;
    certificate = issuer;
  }
  return true;
}

}  // namespace assay::server
