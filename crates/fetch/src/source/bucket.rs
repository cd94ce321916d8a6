//! Addresses of buckets.

use longboat_download::address::Address;

use crate::FetchError;

/// Returns the path of a file for a key of an object. Keys may have empty parts, and paths have none.
pub(super) fn relative(key: &str) -> String {
    let parts: Vec<&str> = key.split('/').filter(|part| !part.is_empty()).collect();
    parts.join("/")
}

/// Returns the bucket and the path in it. In a path, only slashes have a meaning.
pub(super) fn bucket_and_path<'a>(
    address: &'a Address,
    expected: &str,
) -> Result<(&'a str, &'a str), FetchError> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    let (bucket, path) = (address.host(), address.path());
    if bucket.is_empty() || !bucket.chars().all(is_allowed) || address.credentials().is_some() {
        let why = format!("expected {expected}; names of buckets have letters, digits, `-`, `.` and `_`");
        return Err(FetchError::address(address, why));
    }
    Ok((bucket, path))
}
