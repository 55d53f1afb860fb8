// Certificates for tests, made on the spot: a key and a self-signed certificate for a name.
#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>

#include "tests/src/temporary.h"

namespace server {

inline void WritePem(const std::string& path, X509* certificate, EVP_PKEY* key) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "w"), std::fclose);
  if (file == nullptr) throw std::runtime_error("cannot write " + path);
  if (certificate != nullptr) PEM_write_X509(file.get(), certificate);
  if (key != nullptr) PEM_write_PrivateKey(file.get(), key, nullptr, nullptr, 0, nullptr, nullptr);
}

// Writes NAME.crt, NAME.key and NAME.pem, which has both.
inline void MakeCertificate(const TemporaryDirectory& directory, const std::string& name) {
  const std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  const std::unique_ptr<X509, void (*)(X509*)> made(X509_new(), X509_free);
  X509* const certificate = made.get();
  X509_set_version(certificate, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate), -60);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 24L * 60 * 60);
  X509_set_pubkey(certificate, key.get());
  X509_NAME* const subject = X509_get_subject_name(certificate);
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  X509_set_issuer_name(certificate, subject);
  if (X509_sign(certificate, key.get(), EVP_sha256()) == 0) {
    throw std::runtime_error("cannot sign a certificate");
  }
  WritePem(directory.path() + "/" + name + ".crt", certificate, nullptr);
  WritePem(directory.path() + "/" + name + ".key", nullptr, key.get());
  WritePem(directory.path() + "/" + name + ".pem", certificate, key.get());
}

}  // namespace server
