//! Names that come from the text of a user, in a form that Kubernetes accepts.

use longboat_key::names::is_label;
use sha2::{Digest, Sha256};

/// The longest DNS label.
const MAX_LABEL: usize = 63;
/// The hexadecimal digits of a short hash.
const HASH: usize = 8;

/// Returns the first eight hexadecimal digits of the SHA-256 of a text. Names of running services contain it.
pub fn short_hash(text: &str) -> String {
    format!("{:.HASH$x}", Sha256::digest(text.as_bytes()))
}

/// Returns a DNS label for a text. A label stays as it is. In any other text, invalid characters are replaced, and a hash of the
/// text keeps it distinct.
pub fn safe_object_name(text: &str) -> String {
    if is_label(text) {
        return text.to_owned();
    }
    let valid = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let lower = text.chars().map(|c| c.to_ascii_lowercase());
    let safe: String = lower.map(|c| if valid(c) { c } else { '-' }).take(MAX_LABEL - HASH - 1).collect();
    // The replaced text may begin or end with a dash, or be nothing but dashes.
    format!("{}-{}", safe.trim_matches('-'), short_hash(text)).trim_start_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_stays_and_other_texts_become_distinct_labels() {
        assert_eq!(safe_object_name("lora-pvc-sql"), "lora-pvc-sql");
        // The first digits of SHA-256 of "Org/A.b".
        assert_eq!(safe_object_name("Org/A.b"), format!("org-a-b-{}", short_hash("Org/A.b")));
        let long = "x".repeat(80);
        let texts = ["Org/A.b", "Org/A_b", "a-", "-a", "x.y", "", "é", "---", &long, &long[1..]];
        let names: std::collections::BTreeSet<String> = texts.map(safe_object_name).into();
        assert_eq!(names.len(), texts.len(), "{names:?}");
        for name in names {
            assert_eq!(safe_object_name(&name), name, "{name}");
        }
    }

    #[test]
    fn the_hash_is_that_of_sha_256() {
        // The known digest of the empty text.
        assert_eq!(short_hash(""), "e3b0c442");
    }
}
