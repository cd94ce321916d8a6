//! Paths of resources.

use percent_encoding::percent_decode_str;

/// A path below `/api/v1` or `/apis/<group>/<version>`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ResourcePath {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) namespace: Option<String>,
    pub(crate) plural: String,
    pub(crate) name: Option<String>,
    /// The segments after the name.
    pub(crate) rest: Vec<String>,
}

// === impl ResourcePath ===

impl ResourcePath {
    /// Parses the segments after `/api` or `/apis/<group>`: first the version, then the resource.
    pub(crate) fn parse(group: &str, segments: &[String]) -> Option<Self> {
        let (version, segments) = segments.split_first()?;
        let mut path = Self { group: group.to_owned(), version: version.clone(), ..Self::default() };
        let words: Vec<&str> = segments.iter().map(String::as_str).collect();
        let tail: &[&str] = match words.as_slice() {
            ["namespaces", _, "status" | "finalize"] | ["namespaces"] | ["namespaces", _]
                if group.is_empty() =>
            {
                &words
            }
            ["namespaces", namespace, tail @ ..] if !tail.is_empty() => {
                path.namespace = Some((*namespace).to_owned()).filter(|n| !n.is_empty());
                tail
            }
            tail => tail,
        };
        let (plural, tail) = tail.split_first()?;
        (*plural).clone_into(&mut path.plural);
        if let Some((name, rest)) = tail.split_first() {
            path.name = Some((*name).to_owned());
            path.rest = rest.iter().map(|s| (*s).to_owned()).collect();
        }
        Some(path)
    }

    /// The subresource, if the path has one.
    pub(crate) fn subresource(&self) -> Option<&str> {
        self.rest.first().map(String::as_str)
    }
}

/// Splits a path at its slashes and decodes `%xx`. Ignores one trailing slash.
pub(crate) fn segments(path: &str) -> Vec<String> {
    let path = path.strip_prefix('/').unwrap_or(path);
    let path = path.strip_suffix('/').unwrap_or(path);
    if path.is_empty() {
        return Vec::new();
    }
    path.split('/').map(decode).collect()
}

fn decode(segment: &str) -> String {
    percent_decode_str(segment).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(group: &str, path: &str) -> ResourcePath {
        ResourcePath::parse(group, &segments(path)).unwrap()
    }

    #[test]
    fn namespaces_are_both_a_resource_and_a_prefix() {
        assert_eq!(parse("", "v1/namespaces/a").name.as_deref(), Some("a"));
        assert_eq!(parse("", "v1/namespaces/a/status").subresource(), Some("status"));
        let pods = parse("", "v1/namespaces/a/pods/b/log");
        assert_eq!((pods.namespace.as_deref(), pods.plural.as_str()), (Some("a"), "pods"));
        assert_eq!((pods.name.as_deref(), pods.subresource()), (Some("b"), Some("log")));
    }

    #[test]
    fn escapes_are_decoded_and_broken_ones_kept() {
        assert_eq!(segments("/a%2Fb/%zz/"), ["a/b", "%zz"]);
    }
}
