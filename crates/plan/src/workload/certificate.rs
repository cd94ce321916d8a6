//! The names, addresses and expiry of a live certificate.

use std::{collections::BTreeSet, net::IpAddr};

use k8s_openapi::jiff::Timestamp;
use x509_parser::{
    extensions::{GeneralName, ParsedExtension},
    pem::Pem,
};

/// The facts that decide whether a certificate is still valid for its service.
pub(super) struct Certificate {
    dns_names: BTreeSet<String>,
    addresses: BTreeSet<IpAddr>,
    not_before: Timestamp,
    not_after: Timestamp,
}

// === impl Certificate ===

impl Certificate {
    /// Reads the first certificate of a PEM text.
    pub(super) fn parse(pem: &[u8]) -> Option<Self> {
        let pem = Pem::iter_from_buffer(pem).next()?.ok()?;
        let certificate = pem.parse_x509().ok()?;
        let mut facts = Self {
            dns_names: BTreeSet::new(),
            addresses: BTreeSet::new(),
            not_before: Timestamp::from_second(certificate.validity().not_before.timestamp()).ok()?,
            not_after: Timestamp::from_second(certificate.validity().not_after.timestamp()).ok()?,
        };
        for extension in certificate.extensions() {
            let ParsedExtension::SubjectAlternativeName(names) = extension.parsed_extension() else {
                continue;
            };
            for name in &names.general_names {
                match name {
                    GeneralName::DNSName(name) => {
                        facts.dns_names.insert((*name).to_owned());
                    }
                    GeneralName::IPAddress(bytes) => {
                        // Four or sixteen bytes (RFC 5280, section 4.2.1.6).
                        let v4 = <[u8; 4]>::try_from(*bytes).map(IpAddr::from);
                        let v6 = <[u8; 16]>::try_from(*bytes).map(IpAddr::from);
                        facts.addresses.extend(v4.or(v6));
                    }
                    _ => {}
                }
            }
        }
        Some(facts)
    }

    /// Returns since when it is not valid, or from when on it is. A clock that was wrong may have issued it in the future.
    pub(super) fn not_valid(&self, now: Timestamp) -> Option<String> {
        if now < self.not_before {
            return Some(format!("it is not valid before {}", self.not_before));
        }
        (self.not_after <= now).then(|| format!("it expired at {}", self.not_after))
    }

    /// Returns a name or address that it does not cover. A certificate may cover more than is asked for.
    pub(super) fn uncovered(&self, dns_names: &[String], addresses: &[IpAddr]) -> Option<String> {
        if let Some(name) = dns_names.iter().find(|name| !self.dns_names.contains(*name)) {
            return Some(format!("it does not cover {name}"));
        }
        let address = addresses.iter().find(|address| !self.addresses.contains(address))?;
        Some(format!("it does not cover {address}"))
    }
}

/// Whether a PEM text holds a PKCS#8 private key.
pub(super) fn is_private_key(pem: &[u8]) -> bool {
    Pem::iter_from_buffer(pem).next().is_some_and(|pem| pem.is_ok_and(|pem| pem.label == "PRIVATE KEY"))
}
