#include "server/auth/http_caller.h"

#include <arpa/inet.h>
#include <openssl/x509v3.h>

#include <array>
#include <memory>

#include "kernels/text/cat.h"

namespace assay::server {
namespace {

std::string TextOf(const ASN1_STRING* text) {
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
          static_cast<std::size_t>(ASN1_STRING_length(text))};
}

// "10.0.0.1" of the 4 or 16 bytes of an address.
std::string AddressText(const std::string& bytes) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const int family = bytes.size() == 4 ? AF_INET : AF_INET6;
  if (bytes.size() != 4 && bytes.size() != 16) return "";
  const char* written = inet_ntop(family, bytes.data(), text.data(), text.size());
  return written == nullptr ? "" : written;
}

// The alternative names that gRPC tells of, too.
std::string NameOf(const GENERAL_NAME& name) {
  switch (name.type) {
    case GEN_DNS:
      return TextOf(name.d.dNSName);
    case GEN_URI:
      return TextOf(name.d.uniformResourceIdentifier);
    case GEN_EMAIL:
      return TextOf(name.d.rfc822Name);
    case GEN_IPADD:
      return AddressText(TextOf(name.d.iPAddress));
    default:
      return "";
  }
}

// The common name first, then the alternative names. What holds a 0 byte is no name.
std::vector<std::string> NamesOf(X509* certificate) {
  std::vector<std::string> names;
  const auto add = [&names](std::string name) {
    if (!name.empty() && name.find('\0') == std::string::npos) names.push_back(std::move(name));
  };
  X509_NAME* const subject = X509_get_subject_name(certificate);
  const int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  if (at >= 0) add(TextOf(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at))));
  const std::unique_ptr<GENERAL_NAMES, void (*)(GENERAL_NAMES*)> alternatives(
      static_cast<GENERAL_NAMES*>(
          X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)),
      [](GENERAL_NAMES* all) { GENERAL_NAMES_free(all); });
  for (int i = 0; i < sk_GENERAL_NAME_num(alternatives.get()); ++i) {
    add(NameOf(*sk_GENERAL_NAME_value(alternatives.get(), i)));
  }
  return names;
}

}  // namespace

Shown ShownOverHttp(const SSL* connection, const std::string& address, int port,
                    const std::string& authorization) {
  Shown shown;
  const bool v6 = address.find(':') != std::string::npos;
  shown.peer = v6 ? Cat("ipv6:[", address, "]:", port) : Cat("ipv4:", address, ":", port);
  shown.loopback = address.starts_with("127.") || address == "::1";
  shown.encrypted = connection != nullptr;
  if (connection != nullptr) {
    const std::unique_ptr<X509, void (*)(X509*)> certificate(SSL_get1_peer_certificate(connection),
                                                             [](X509* one) { X509_free(one); });
    if (certificate != nullptr) shown.names = NamesOf(certificate.get());
  }
  if (!authorization.empty()) shown.token = BearerToken(authorization);
  return shown;
}

}  // namespace assay::server
