//! An endpoint that prompts are sent to.

use std::net::Ipv6Addr;

use http::uri::Authority;

/// A host and a port. The text contains nothing that could change the path or the host of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    authority: Authority,
}

// === impl Target ===

impl Target {
    /// Reads one entry of the header. The reference's picker may write `http://` before the entry.
    pub(crate) fn parse(entry: &str) -> Option<Self> {
        let entry = entry.strip_prefix("http://").unwrap_or(entry);
        // `Authority` allows user information, in which a host could be meant that is none.
        if entry.contains('@') {
            return None;
        }
        let authority: Authority = entry.parse().ok()?;
        let name = authority.host();
        let is_host = match name.strip_prefix('[') {
            Some(bracketed) => bracketed.strip_suffix(']').is_some_and(|ip| ip.parse::<Ipv6Addr>().is_ok()),
            None => !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c)),
        };
        // Only digits are allowed, because the parser would also accept a sign.
        let is_port = authority.port().is_some_and(|port| port.as_str().bytes().all(|c| c.is_ascii_digit()));
        (is_host && is_port && authority.port_u16().is_some()).then_some(Self { authority })
    }

    pub(crate) fn authority(&self) -> &Authority {
        &self.authority
    }

    /// The host without brackets.
    pub(crate) fn host(&self) -> &str {
        host(self.authority.host())
    }
}

fn host(text: &str) -> &str {
    text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text)
}

/// Returns the entries of a header. A single line is a comma-separated list. If there are several lines, each is one entry.
pub(crate) fn entries<T: AsRef<str>>(lines: &[T]) -> Vec<&str> {
    listed(lines).filter(|entry| !entry.is_empty()).collect()
}

/// Returns the first entry, which counts if the choice is not random. Returns `None` if it is empty, as before a leading
/// comma: then there is no prefill.
pub(crate) fn first<T: AsRef<str>>(lines: &[T]) -> Option<&str> {
    listed(lines).next().filter(|entry| !entry.is_empty())
}

fn listed<T: AsRef<str>>(lines: &[T]) -> impl Iterator<Item = &str> {
    let is_list = lines.len() == 1;
    lines.iter().map(AsRef::as_ref).flat_map(move |line| {
        let end = if is_list { ',' } else { '\n' };
        line.split(end).map(str::trim)
    })
}

/// Returns the host of an entry without a port, which is not a [`Target`].
pub(crate) fn named_host(entry: &str) -> Option<&str> {
    let entry = entry.strip_prefix("http://").unwrap_or(entry);
    let plain = |text: &&str| {
        text.chars().all(|character| character.is_ascii_alphanumeric() || "-._:[]".contains(character))
    };
    Some(host(entry)).filter(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comma_at_the_start_says_that_nobody_prefills() {
        assert_eq!(first(&["a:1, b:2"]), Some("a:1"));
        for value in ["", ",b:2", " , b:2"] {
            assert_eq!(first(&[value]), None, "{value}");
        }
    }

    #[test]
    fn of_several_lines_each_is_one_entry() {
        assert_eq!(first(&["a:1,b:2", "c:3"]), Some("a:1,b:2"));
        assert!(Target::parse("a:1,b:2").is_none());
        assert_eq!(entries(&["a:1", " c:3 "]), ["a:1", "c:3"]);
        assert_eq!(entries(&["a:1, ,c:3"]), ["a:1", "c:3"]);
    }

    #[test]
    fn only_a_host_and_a_port_is_a_target() {
        for good in ["10.0.0.1:8000", "http://10.0.0.1:8000", "pod-a:80", "[fd00::1]:8000"] {
            assert!(Target::parse(good).is_some(), "{good}");
        }
        for bad in [
            "",
            "10.0.0.1",
            "https://10.0.0.1:8000",
            "10.0.0.1:8000/admin",
            "10.0.0.1:8000?x=1",
            "10.0.0.1:8000#f",
            "10.0.0.1:x@evil:80",
            "user@10.0.0.1:80",
            "10.0.0.1:99999",
            "10.0.0.1:+80",
            ":80",
            "a b:80",
            "[]:80",
            "[pod]:80",
            "a\\b:80",
            "a[b]:80",
            "a%41:80",
        ] {
            assert!(Target::parse(bad).is_none(), "{bad}");
        }
        assert_eq!(Target::parse("[fd00::1]:8000").unwrap().host(), "fd00::1");
    }
}
