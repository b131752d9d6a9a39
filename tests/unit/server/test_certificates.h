// Certificates made for a test: an authority, and leaves that it signs.
#ifndef ASSAY_TESTS_UNIT_SERVER_TEST_CERTIFICATES_H_
#define ASSAY_TESTS_UNIT_SERVER_TEST_CERTIFICATES_H_

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>

namespace assay::server {

struct PemPair {
  std::string cert;
  std::string key;
};

class TestAuthority {
 public:
  TestAuthority() : key_(EVP_EC_gen("P-256")) {
    cert_ = Make("assay test authority", 1, key_, nullptr, key_);
  }
  ~TestAuthority() {
    X509_free(cert_);
    EVP_PKEY_free(key_);
  }
  TestAuthority(const TestAuthority&) = delete;
  TestAuthority& operator=(const TestAuthority&) = delete;

  std::string cert() const { return Pem(cert_); }

  // A leaf for "localhost" with this serial number, which expires in `seconds`.
  PemPair Issue(long serial, long seconds = 3600) const {
    EVP_PKEY* key = EVP_EC_gen("P-256");
    X509* leaf = Make("localhost", serial, key, cert_, key_, seconds);
    BIO* bio = BIO_new(BIO_s_mem());
    PEM_write_bio_PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr);
    PemPair pair{Pem(leaf), Text(bio)};
    X509_free(leaf);
    EVP_PKEY_free(key);
    return pair;
  }

 private:
  static std::string Text(BIO* bio) {
    char* data = nullptr;
    const long size = BIO_get_mem_data(bio, &data);
    std::string text(data, static_cast<std::size_t>(size));
    BIO_free(bio);
    return text;
  }

  static std::string Pem(X509* cert) {
    BIO* bio = BIO_new(BIO_s_mem());
    PEM_write_bio_X509(bio, cert);
    return Text(bio);
  }

  static void Extend(X509* cert, X509* issuer, int nid, const char* value) {
    X509V3_CTX context;
    X509V3_set_ctx(&context, issuer, cert, nullptr, nullptr, 0);
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value);
    X509_add_ext(cert, extension, -1);
    X509_EXTENSION_free(extension);
  }

  // Signed by `issuer`; by itself, as an authority, where that is null.
  static X509* Make(const char* name, long serial, EVP_PKEY* key, X509* issuer, EVP_PKEY* signer,
                    long seconds = 3600) {
    X509* cert = X509_new();
    X509_set_version(cert, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(cert), serial);
    X509_gmtime_adj(X509_getm_notBefore(cert), -60);
    X509_gmtime_adj(X509_getm_notAfter(cert), seconds);
    X509_set_pubkey(cert, key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(name), -1, -1, 0);
    X509_set_issuer_name(cert, X509_get_subject_name(issuer == nullptr ? cert : issuer));
    if (issuer == nullptr) {
      Extend(cert, cert, NID_basic_constraints, "critical,CA:TRUE");
    } else {
      Extend(cert, issuer, NID_subject_alt_name, "DNS:localhost,IP:127.0.0.1");
    }
    X509_sign(cert, signer, EVP_sha256());
    return cert;
  }

  EVP_PKEY* key_;
  X509* cert_ = nullptr;
};

}  // namespace assay::server

#endif  // ASSAY_TESTS_UNIT_SERVER_TEST_CERTIFICATES_H_
