//! Removes secrets from addresses: user information and query strings, which may contain passwords and signatures.

use std::borrow::Cow;

/// Returns an address without its user information, query string and fragment. A text that is not an address is returned
/// unchanged.
pub fn redacted(address: &str) -> Cow<'_, str> {
    let Some((scheme, rest)) = address.split_once("://") else { return Cow::Borrowed(address) };
    let end = rest.find(['?', '#']).unwrap_or(rest.len());
    let authority = rest.find('/').unwrap_or(rest.len()).min(end);
    let user = rest[..authority].rfind('@').map_or(0, |at| at + 1);
    // In keys of buckets, these characters are allowed and hide no secrets.
    let has_query = end < rest.len() && matches!(scheme, "http" | "https");
    if user == 0 && !has_query {
        return Cow::Borrowed(address);
    }
    let end = if has_query { end } else { rest.len() };
    let mark = if has_query { "?..." } else { "" };
    Cow::Owned(format!("{scheme}://{}{mark}", &rest[user..end]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_information_and_queries_are_taken_out() {
        for (address, shown) in [
            ("https://u:p@h:8/a/b", "https://h:8/a/b"),
            ("https://h/a?X-Amz-Signature=s#f", "https://h/a?..."),
            ("https://h?x@y/z", "https://h?..."),
            ("https://u:p@ss@h/a", "https://h/a"),
            ("https://h/a@b", "https://h/a@b"),
            ("s3://b/a?b#c", "s3://b/a?b#c"),
            ("/mnt/x?y", "/mnt/x?y"),
        ] {
            assert_eq!(redacted(address), shown, "{address}");
        }
    }
}
