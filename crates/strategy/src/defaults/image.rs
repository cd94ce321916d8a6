//! References to images, as far as the pull policy depends on them.

use std::sync::LazyLock;

use regex::Regex;

/// The most bytes of a name with its registry.
const MAX_NAME: usize = 255;

/// A registry, a path, a tag and a digest, of which only the path is needed.
static REFERENCE: LazyLock<Regex> = LazyLock::new(|| {
    let label = "[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?";
    let registry = format!(r"(?:{label}(?:\.{label})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?");
    let part = "[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*";
    let digest = "(?:sha256:[a-f0-9]{64}|sha384:[a-f0-9]{96}|sha512:[a-f0-9]{128})";
    // Go's `\w` is ASCII. With all letters of Unicode, the expression would take 8 MB.
    let word = "[0-9A-Za-z_]";
    Regex::new(&format!(
        r"^({registry}/{part}(?:/{part})*)(?::({word}[0-9A-Za-z_.-]{{0,127}}))?(?:@({digest}))?$"
    ))
    .expect("the pattern is made of literals that tests compile")
});

/// The tag of an image: the one that it has, or `latest` if it has neither tag nor digest. A reference that cannot be parsed
/// has none.
pub(super) fn tag(image: &str) -> Option<&str> {
    let is_digest =
        image.len() == 64 && image.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    if is_digest {
        return None;
    }
    // The first part is a registry only if it looks like one. Otherwise Docker's registry is meant.
    let first = image.split_once('/').map(|(first, _)| first).filter(|first| {
        first.contains(['.', ':']) || *first == "localhost" || first.chars().any(char::is_uppercase)
    });
    let full = match first {
        Some(_) => image.to_owned(),
        None if image.contains('/') => format!("docker.io/{image}"),
        None => format!("docker.io/library/{image}"),
    };
    let found = REFERENCE.captures(&full)?;
    if found.get(1)?.len() > MAX_NAME {
        return None;
    }
    match (found.get(2), found.get(3)) {
        (Some(tag), _) => {
            let prefix = full.len() - image.len();
            image.get(tag.start() - prefix..tag.end() - prefix)
        }
        (None, None) => Some("latest"),
        (None, Some(_)) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::tag;

    #[test]
    fn tags_are_those_of_kubelet_and_api_server() {
        let digest = format!("sha256:{}", "a".repeat(64));
        for (image, expected) in [
            ("nginx", Some("latest")),
            ("nginx:1.27", Some("1.27")),
            ("nginx:latest", Some("latest")),
            ("reg.io:5000/a/b", Some("latest")),
            ("reg.io:5000/a/b:v1", Some("v1")),
            ("localhost/a:v1", Some("v1")),
            ("Reg.io/foo:v1", Some("v1")),
            ("[fe80::1]:80/a", Some("latest")),
            (&format!("nginx:latest@{digest}"), Some("latest")),
            (&format!("reg.io/a/nginx:v2@{digest}"), Some("v2")),
            (&format!("nginx@{digest}"), None),
            ("nginx@sha256:abc", None),
            ("Reg.io/Foo", None),
            ("Foo", None),
            ("a//b", None),
            ("a b", None),
            ("", None),
            ("nginx:", None),
            ("nginx:.x", None),
            ("nginx:\u{e9}", None),
            (&"a".repeat(64), None),
            (&"a".repeat(256), None),
        ] {
            assert_eq!(tag(image), expected, "{image}");
        }
    }
}
