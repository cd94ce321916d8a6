//! The checksums that S3 reports for an object.

use crate::digest::{Algorithm, Digest};

/// The digest of an object's content, as its headers report it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ObjectDigest {
    /// The digest of the content.
    Whole(Digest),
    /// The digest of the digests of this many parts.
    Parts { digest: Digest, count: u64 },
}

/// The headers with checksums, the most reliable first.
const CHECKSUMS: [(&str, Algorithm); 5] = [
    ("x-amz-checksum-sha256", Algorithm::Sha256),
    ("x-amz-checksum-sha1", Algorithm::Sha1),
    ("x-amz-checksum-crc64nvme", Algorithm::Crc64Nvme),
    ("x-amz-checksum-crc32c", Algorithm::Crc32c),
    ("x-amz-checksum-crc32", Algorithm::Crc32),
];

/// Servers that compute the ETag of a multipart object from the MD5s of its parts. The ETags of other servers may have the same
/// form without being a digest.
const OF_MD5S: [&str; 2] = ["AmazonS3", "MinIO"];

/// Reads the checksum of an object from its headers. A checksum comes before the ETag, because an MD5 takes longer to compute
/// than a download takes on a fast network.
pub(super) fn object_digest<'a>(header: impl Fn(&str) -> Option<&'a str>) -> Option<ObjectDigest> {
    let etag = header("etag").map(|etag| etag.trim_matches('"'));
    let kind = header("x-amz-checksum-type").map(str::to_ascii_uppercase);
    // Some stores report the checksum of an object's parts as if it were that of its content. AWS has no CRC-64 of parts.
    let is_ambiguous = |algorithm| match kind.as_deref() {
        Some(kind) => kind != "FULL_OBJECT",
        None => algorithm != Algorithm::Crc64Nvme && etag.is_some_and(|etag| etag.contains('-')),
    };
    let checksum = CHECKSUMS.into_iter().find_map(|(name, algorithm)| {
        let digest_of_object = read(header(name)?, |text| Digest::from_base64(algorithm, text))?;
        let is_unclear = matches!(digest_of_object, ObjectDigest::Whole(_)) && is_ambiguous(algorithm);
        (!is_unclear).then_some(digest_of_object)
    });
    // The ETag is no digest if the object is encrypted with a key of the customer.
    let is_plain = header("x-amz-server-side-encryption").is_none_or(|kind| kind == "AES256")
        && header("x-amz-server-side-encryption-customer-algorithm").is_none();
    checksum.or_else(|| {
        let digest_of_object =
            read(etag.filter(|_| is_plain)?, |text| Digest::from_hex(Algorithm::Md5, text))?;
        let server = header("server").unwrap_or_default();
        let is_digest = matches!(digest_of_object, ObjectDigest::Whole(_)) || OF_MD5S.contains(&server);
        is_digest.then_some(digest_of_object)
    })
}

/// Returns the number of parts whose digests the headers describe. One part is the whole content.
pub fn parts_of(checksum: &str, etag: &str) -> Option<u64> {
    let value = |name: &str| match name {
        "x-amz-checksum-crc32" => Some(checksum),
        "etag" => Some(etag),
        "server" => Some(OF_MD5S[0]),
        _ => None,
    };
    object_digest(value).map(|digest_of_object| match digest_of_object {
        ObjectDigest::Whole(_) => 1,
        ObjectDigest::Parts { count, .. } => count,
    })
}

/// Reads a digest. The digest of the digests of parts ends with `-` and the number of parts.
fn read(text: &str, digest: impl Fn(&str) -> Option<Digest>) -> Option<ObjectDigest> {
    let Some((text, count)) = text.rsplit_once('-') else { return Some(ObjectDigest::Whole(digest(text)?)) };
    let count = count.parse().ok().filter(|count| *count > 0)?;
    Some(ObjectDigest::Parts { digest: digest(text)?, count })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MD5: &str = "d41d8cd98f00b204e9800998ecf8427e";

    fn ask(headers: &[(&str, &str)]) -> Option<ObjectDigest> {
        object_digest(|name| headers.iter().find(|(key, _)| *key == name).map(|(_, value)| *value))
    }

    #[test]
    fn an_etag_is_a_digest_only_where_it_is_one() {
        let etag = format!("\"{MD5}\"");
        let md5 = Digest::from_hex(Algorithm::Md5, MD5).unwrap();
        assert_eq!(ask(&[("etag", &etag)]), Some(ObjectDigest::Whole(md5)));
        assert_eq!(ask(&[("etag", &etag), ("x-amz-server-side-encryption", "aws:kms")]), None);
        let etag = format!("\"{MD5}-12\"");
        let parts = Some(ObjectDigest::Parts { digest: md5, count: 12 });
        assert_eq!(ask(&[("etag", &etag), ("server", "AmazonS3")]), parts);
        assert_eq!(ask(&[("etag", &etag), ("server", "other")]), None);
        for wrong in ["\"0123-2\"".to_owned(), format!("\"{MD5}-0\""), format!("\"{MD5}-x\"")] {
            assert_eq!(ask(&[("etag", &wrong), ("server", "AmazonS3")]), None);
        }
    }

    #[test]
    fn a_checksum_comes_before_the_etag() {
        let etag = ("etag", MD5);
        let crc = Digest::from_base64(Algorithm::Crc32, "AAAAAA==").unwrap();
        assert_eq!(ask(&[("x-amz-checksum-crc32", "AAAAAA=="), etag]), Some(ObjectDigest::Whole(crc)));
        let composite = ("x-amz-checksum-type", "COMPOSITE");
        assert_eq!(
            ask(&[("x-amz-checksum-crc32", "AAAAAA==-3"), composite]),
            Some(ObjectDigest::Parts { digest: crc, count: 3 })
        );
        // Without the number of parts, the checksum of parts cannot be checked. The ETag can.
        let md5 = Digest::from_hex(Algorithm::Md5, MD5).unwrap();
        let etag = format!("{MD5}-3");
        let etag = ("etag", etag.as_str());
        let parts = Some(ObjectDigest::Parts { digest: md5, count: 3 });
        let server = ("server", "MinIO");
        assert_eq!(ask(&[("x-amz-checksum-crc32", "AAAAAA=="), composite, etag, server]), parts);
        assert_eq!(ask(&[("x-amz-checksum-crc32", "AAAAAA=="), etag, server]), parts);
        let whole = ("x-amz-checksum-type", "FULL_OBJECT");
        assert_eq!(ask(&[("x-amz-checksum-crc32", "AAAAAA=="), whole, etag]), Some(ObjectDigest::Whole(crc)));
        let crc = Digest::from_base64(Algorithm::Crc64Nvme, "AAAAAAAAAAA=").unwrap();
        assert_eq!(
            ask(&[("x-amz-checksum-crc64nvme", "AAAAAAAAAAA="), etag]),
            Some(ObjectDigest::Whole(crc))
        );
    }
}
