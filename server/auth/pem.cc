#include "server/auth/pem.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#include <optional>
#include <utility>

namespace assay::server::openssl {
namespace {

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

}  // namespace

std::vector<Certificate> Certificates(const std::string& pem) {
  return AllOf<Certificate, PEM_read_bio_X509>(pem).value_or(std::vector<Certificate>());
}

std::vector<RevocationList> RevocationLists(const std::string& pem) {
  return AllOf<RevocationList, PEM_read_bio_X509_CRL>(pem).value_or(std::vector<RevocationList>());
}

PrivateKey Key(const std::string& pem) {
  const Bio bio = Read(pem);
  const auto no_passphrase = [](char*, int, int, void*) { return -1; };
  PrivateKey key{PEM_read_bio_PrivateKey(bio.get(), nullptr, no_passphrase, nullptr)};
  ERR_clear_error();
  return key;
}

}  // namespace assay::server::openssl
