// SPDX-License-Identifier: MIT
#include "store/redis/tls_fault.hpp"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <array>
#include <memory>
#include <string_view>

namespace klock::redis {
namespace {

constexpr std::size_t k_most_names = 5;
constexpr std::size_t k_longest_name = 100;

std::string date_text(const ASN1_TIME* time) {
  const std::unique_ptr<BIO, int (*)(BIO*)> out(BIO_new(BIO_s_mem()), BIO_free);
  char* text = nullptr;
  if (out == nullptr || ASN1_TIME_print(out.get(), time) != 1) return "an unknown time";
  const long size = BIO_get_mem_data(out.get(), &text);
  return {text, static_cast<std::size_t>(size)};
}

std::string text_of(const ASN1_STRING* text) {
  const auto size = static_cast<std::size_t>(ASN1_STRING_length(text));
  const auto* const bytes = ASN1_STRING_get0_data(text);
  return std::string(bytes, bytes + size).substr(0, k_longest_name);
}

std::string text_of_address(const ASN1_OCTET_STRING* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const int family = ASN1_STRING_length(address) == 4 ? AF_INET : AF_INET6;
  if (family == AF_INET6 && ASN1_STRING_length(address) != 16) return "a broken address";
  inet_ntop(family, ASN1_STRING_get0_data(address), text.data(), text.size());
  return text.data();
}

// The hosts and addresses that it is for; its common name, if it does not say (RFC 6125, 6.4.4).
std::string names_in(const X509* certificate) {
  const std::unique_ptr<GENERAL_NAMES, void (*)(GENERAL_NAMES*)> names(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)),
      GENERAL_NAMES_free);
  std::string text;
  std::size_t count = 0;
  for (int i = 0; i < sk_GENERAL_NAME_num(names.get()) && count < k_most_names; ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_DNS && name->type != GEN_IPADD) continue;
    text += (count++ == 0 ? "" : ", ");
    text += name->type == GEN_DNS ? text_of(name->d.dNSName) : text_of_address(name->d.iPAddress);
  }
  if (count > 0) return text;
  const X509_NAME* const subject = X509_get_subject_name(certificate);
  const int common = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  return common < 0 ? "nobody" : text_of(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, common)));
}

Error refused(std::string what, std::string hint) {
  return Error{ErrorKind::refused, std::move(what), std::move(hint)};
}

struct AlertMeaning {
  int alert;
  ErrorKind kind;
  const char* what;
  const char* hint;
};

constexpr const char* k_not_ours = "the server does not accept our certificate";
constexpr const char* k_own_hint =
    "--tls-cert must be valid, and signed by an authority that the server trusts";

constexpr AlertMeaning k_alerts[] = {
    {SSL_AD_CERTIFICATE_REQUIRED, ErrorKind::refused, "the server wants a certificate from us",
     "give one with --tls-cert and --tls-key"},
    {SSL_AD_UNKNOWN_CA, ErrorKind::refused, k_not_ours, k_own_hint},
    {SSL_AD_BAD_CERTIFICATE, ErrorKind::refused, k_not_ours, k_own_hint},
    {SSL_AD_UNSUPPORTED_CERTIFICATE, ErrorKind::refused, k_not_ours, k_own_hint},
    {SSL_AD_CERTIFICATE_REVOKED, ErrorKind::refused, k_not_ours, k_own_hint},
    {SSL_AD_CERTIFICATE_EXPIRED, ErrorKind::refused, k_not_ours, k_own_hint},
    {SSL_AD_CERTIFICATE_UNKNOWN, ErrorKind::refused, k_not_ours, k_own_hint},
    {SSL_AD_ACCESS_DENIED, ErrorKind::refused, k_not_ours, k_own_hint},
    {SSL_AD_PROTOCOL_VERSION, ErrorKind::protocol, "the server speaks no version of TLS that klock does",
     "allow 1.2 or 1.3 there"},
    // What TLS 1.2 says for a certificate that is missing as well as for ciphers.
    {SSL_AD_HANDSHAKE_FAILURE, ErrorKind::refused, "the server ended the TLS handshake",
     "does it want a certificate (--tls-cert and --tls-key), or other ciphers?"},
};

Fault fault_of_alert(int alert) {
  const std::string name = SSL_alert_desc_string_long(alert);
  const std::string word = name == "unknown" ? "" : " (" + name + ")";
  for (const AlertMeaning& one : k_alerts)
    if (one.alert == alert) return {Cause::tls, Error{one.kind, one.what + word, one.hint}};
  return {Cause::tls, Error{ErrorKind::protocol, "the server ended TLS" + word, "its log may tell why"}};
}

}  // namespace

Error refusal_of(X509_STORE_CTX* checking, const std::string& wanted_name) {
  const int code = X509_STORE_CTX_get_error(checking);
  const X509* const certificate = X509_STORE_CTX_get_current_cert(checking);
  const std::string whose = X509_STORE_CTX_get_error_depth(checking) == 0 || certificate == nullptr
                                ? "the server's certificate"
                                : "the certificate of the server's authority";
  switch (code) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return refused(whose + " has expired: it was valid until " + date_text(X509_get0_notAfter(certificate)),
                     "renew it there; or is the clock of this host wrong?");
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return refused(whose + " is not valid yet, only from " + date_text(X509_get0_notBefore(certificate)),
                     "is the clock of this host wrong?");
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return refused(
          "the server's certificate is not for " + wanted_name + ", but for " + names_in(certificate),
          "use such a name in the URL, or in --tls-server-name");
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
      return refused("the server's certificate is signed by itself, and not one that we trust",
                     "if it is the right one, name a copy of it with --tls-ca");
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
      return refused("the server's certificate is signed by no authority that we trust",
                     "name the file with the authority's certificate with --tls-ca");
    default:
      return refused(whose + " is not accepted: " + X509_verify_cert_error_string(code),
                     "give the server another one");
  }
}

Fault fault_of_tls() {
  const unsigned long code = ERR_peek_error();
  const int reason = ERR_GET_REASON(code);
  const bool of_tls = ERR_GET_LIB(code) == ERR_LIB_SSL;
  if (of_tls && reason > SSL_AD_REASON_OFFSET) return fault_of_alert(reason - SSL_AD_REASON_OFFSET);
  if (of_tls && (reason == SSL_R_UNSUPPORTED_PROTOCOL || reason == SSL_R_WRONG_SSL_VERSION))
    return fault_of_alert(SSL_AD_PROTOCOL_VERSION);
  const char* const text = ERR_reason_error_string(code);
  return {Cause::tls,
          Error{ErrorKind::protocol,
                std::string("TLS with the server failed: ") + (text != nullptr ? text : "unknown"),
                "its log may tell why"}};
}

Fault no_tls_fault() {
  return {Cause::tls, Error{ErrorKind::protocol, "the server does not speak TLS on this port",
                            "give its port for TLS, or redis:// for a connection that anyone can read"}};
}

}  // namespace klock::redis
