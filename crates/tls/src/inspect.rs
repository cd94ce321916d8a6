//! Reads the contents of certificates.

use pem::{EncodeConfig, LineEnding};
use x509_parser::{
    certificate::X509Certificate,
    extensions::GeneralName,
    oid_registry::{OID_EC_P256, OID_NIST_EC_P384, OID_NIST_EC_P521, OID_SIG_ED25519},
    pem::Pem,
    prelude::FromDer,
    public_key::PublicKey,
    x509::SubjectPublicKeyInfo,
};

use crate::{TlsError, Validity};

/// A certificate of a PEM text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateInfo {
    /// The certificate alone as PEM.
    pub pem: String,
    /// The period of validity.
    pub validity: Validity,
    /// Whether the certificate may sign others.
    pub is_ca: bool,
    /// The public key with its algorithm as DER.
    pub public_key: Vec<u8>,
}

/// Returns the certificates of a PEM text, in order. Ignores other blocks.
///
/// # Errors
///
/// If a block cannot be read.
pub fn certificates(pem: &str) -> Result<Vec<CertificateInfo>, TlsError> {
    let unusable = TlsError::Pem { what: "certificate" };
    let mut all = Vec::new();
    for block in Pem::iter_from_buffer(pem.as_bytes()) {
        let Ok(block) = block else { return Err(unusable) };
        if block.label != "CERTIFICATE" {
            continue;
        }
        let Ok(certificate) = block.parse_x509() else { return Err(unusable) };
        let validity = certificate.validity();
        all.push(CertificateInfo {
            validity: Validity {
                not_before: validity.not_before.to_datetime().into(),
                not_after: validity.not_after.to_datetime().into(),
            },
            is_ca: certificate.is_ca(),
            public_key: certificate.public_key().raw.to_vec(),
            pem: pem::encode_config(
                &pem::Pem::new(block.label, block.contents),
                EncodeConfig::new().set_line_ending(LineEnding::LF),
            ),
        });
    }
    Ok(all)
}

/// The longest RSA keys of ring.
const MAX_SIGNING_RSA_BITS: usize = 4096;
const MAX_VERIFYING_RSA_BITS: usize = 8192;

/// Returns why nothing can be signed with the key of a certificate (DER).
pub(crate) fn unsupported_key(certificate: &[u8]) -> Option<TlsError> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    check(parsed.public_key(), MAX_SIGNING_RSA_BITS).err()
}

fn check(key: &SubjectPublicKeyInfo<'_>, max_rsa_bits: usize) -> Result<(), TlsError> {
    let curve = key.algorithm.parameters.as_ref().and_then(|curve| curve.as_oid().ok());
    let algorithm = &key.algorithm.algorithm;
    let kind = match key.parsed() {
        Ok(PublicKey::RSA(rsa)) if (2048..=max_rsa_bits).contains(&rsa.key_size()) => return Ok(()),
        Ok(PublicKey::RSA(rsa)) => format!("RSA with {} bits", rsa.key_size()),
        Ok(PublicKey::EC(_)) => match curve {
            Some(curve) if [OID_EC_P256, OID_NIST_EC_P384].contains(&curve) => return Ok(()),
            Some(curve) if curve == OID_NIST_EC_P521 => "ECDSA on the curve P-521".to_owned(),
            _ => "ECDSA on the curve of this key".to_owned(),
        },
        _ if *algorithm == OID_SIG_ED25519 => return Ok(()),
        _ => format!("a key of the algorithm {algorithm}"),
    };
    Err(TlsError::UnsupportedKey { kind, max_rsa_bits })
}

// === impl CertificateInfo ===

impl CertificateInfo {
    /// Checks that signatures with the key of this certificate can be verified.
    ///
    /// # Errors
    ///
    /// If there is no algorithm for the key.
    pub fn check_key(&self) -> Result<(), TlsError> {
        let (_, key) = SubjectPublicKeyInfo::from_der(&self.public_key)
            .map_err(|_| TlsError::Pem { what: "public key" })?;
        check(&key, MAX_VERIFYING_RSA_BITS)
    }
}

/// Whether one of the subject alternative names of a certificate (DER) is wanted.
pub(crate) fn has_alternative_name(certificate: &[u8], is_wanted: impl Fn(&GeneralName<'_>) -> bool) -> bool {
    let Ok((_, parsed)) = X509Certificate::from_der(certificate) else { return false };
    let names = parsed.subject_alternative_name().ok().flatten();
    names.is_some_and(|names| names.value.general_names.iter().any(is_wanted))
}

#[cfg(test)]
mod tests {
    use rcgen::{PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519};

    use super::*;
    use crate::{KeyPair, ServerCertificate};

    #[test]
    fn a_key_of_a_kind_that_is_not_supported_is_named() {
        for algorithm in [&PKCS_ECDSA_P256_SHA256, &PKCS_ECDSA_P384_SHA384, &PKCS_ED25519] {
            let key = rcgen::KeyPair::generate_for(algorithm).unwrap();
            let signed = rcgen::CertificateParams::new([]).unwrap().self_signed(&key).unwrap();
            certificates(&signed.pem()).unwrap()[0].check_key().unwrap();
        }
        let pem = include_str!("testdata/p521.pem");
        let expected = "ECDSA on the curve P-521 is not supported: use ECDSA on the curve P-256 or P-384, Ed25519, or RSA with 2048 to";
        let error = certificates(pem).unwrap()[0].check_key().unwrap_err();
        assert_eq!(error.to_string(), format!("{expected} 8192 bits"));
        // No key of this kind can be read.
        let key_pem = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n".to_owned();
        let error = ServerCertificate::new(&KeyPair { certificate_pem: pem.to_owned(), key_pem });
        assert_eq!(error.unwrap_err().to_string(), format!("{expected} 4096 bits"));
    }
}
