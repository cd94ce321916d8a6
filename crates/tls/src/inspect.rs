//! Reads the contents of certificates.

use pem::{EncodeConfig, LineEnding};
use x509_parser::{certificate::X509Certificate, extensions::GeneralName, pem::Pem, prelude::FromDer};

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

/// Whether one of the subject alternative names of a certificate (DER) is wanted.
pub(crate) fn has_alternative_name(certificate: &[u8], is_wanted: impl Fn(&GeneralName<'_>) -> bool) -> bool {
    let Ok((_, parsed)) = X509Certificate::from_der(certificate) else { return false };
    let names = parsed.subject_alternative_name().ok().flatten();
    names.is_some_and(|names| names.value.general_names.iter().any(is_wanted))
}
