// OpenSSL's objects, read from PEM. Each is freed by its own function.
#ifndef ASSAY_SERVER_AUTH_PEM_H_
#define ASSAY_SERVER_AUTH_PEM_H_

#include <openssl/ssl.h>

#include <memory>
#include <string>
#include <vector>

namespace assay::server::openssl {

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

// Empty if the text has none, or is damaged.
std::vector<Certificate> Certificates(const std::string& pem);
std::vector<RevocationList> RevocationLists(const std::string& pem);

// Null if there is none, or if it has a passphrase: nobody is there to type it.
PrivateKey Key(const std::string& pem);

}  // namespace assay::server::openssl

#endif  // ASSAY_SERVER_AUTH_PEM_H_
