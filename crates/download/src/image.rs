//! References to images, as registries and kubelets read them.

use std::net::Ipv6Addr;

/// The algorithms of digests that kubelets and container runtimes know, with the number of digits.
pub(crate) const DIGESTS: [(&str, usize); 3] = [("sha256", 64), ("sha384", 96), ("sha512", 128)];

/// Returns what is wrong with a reference: `[REGISTRY/]REPOSITORY[:TAG][@DIGEST]`.
pub fn problem(image: &str) -> Option<&'static str> {
    if image.contains("://") {
        return Some("a reference has no scheme");
    }
    let (name, digest) = image.split_once('@').map_or((image, None), |(name, digest)| (name, Some(digest)));
    if digest.is_some_and(|digest| !is_digest(digest)) {
        return Some("a digest is sha256: and 64 hexadecimal digits");
    }
    let last = name.rfind('/').map_or(0, |slash| slash + 1);
    let (name, tag) = match name[last..].find(':') {
        Some(colon) => (&name[..last + colon], Some(&name[last + colon + 1..])),
        None => (name, None),
    };
    // The grammar is that of the package distribution/reference, where a tag is `[\w][\w.-]{0,127}`.
    let in_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if tag.is_some_and(|tag| {
        !tag.starts_with(in_word)
            || tag.len() > 128
            || !tag.chars().all(|c| in_word(c) || matches!(c, '.' | '-'))
    }) {
        return Some("a tag has letters, digits, `_`, `.` and `-`, at most 128");
    }
    // The first part names a registry if it has a dot, a port or upper case letters.
    let repository = match name.split_once('/') {
        Some((registry, rest))
            if registry.contains(['.', ':']) || registry.chars().any(|c| c.is_ascii_uppercase()) =>
        {
            // The colons of an IPv6 address are in brackets.
            let is_port = |(_, port): &(&str, &str)| !port.ends_with(']');
            let (host, port) = registry.rsplit_once(':').filter(is_port).unwrap_or((registry, "0"));
            let is_ip = host
                .strip_prefix('[')
                .and_then(|rest| rest.strip_suffix(']')?.parse::<Ipv6Addr>().ok())
                .is_some();
            let in_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
            let is_host = is_ip || !host.is_empty() && host.chars().all(in_name);
            if !is_host || port.parse::<u16>().is_err() {
                return Some("the registry is no HOST or HOST:PORT");
            }
            rest
        }
        _ => name,
    };
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    // Looser than there, where `a..b` and `a._b` are no parts either.
    let is_part = |part: &str| {
        part.starts_with(is_plain)
            && part.ends_with(is_plain)
            && part.chars().all(|c| is_plain(c) || matches!(c, '.' | '_' | '-'))
    };
    (!repository.split('/').all(is_part))
        .then_some("a repository has lower case letters and digits, with `.`, `_` or `-` between them")
}

fn is_digest(text: &str) -> bool {
    let Some((algorithm, digits)) = text.split_once(':') else { return false };
    DIGESTS.contains(&(algorithm, digits.len())) && digits.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f'))
}

#[cfg(test)]
mod tests {
    use super::problem;

    #[test]
    fn the_form_of_a_reference_is_that_of_container_runtimes() {
        let digest = format!("a/b:v1@sha256:{}", "0".repeat(64));
        for image in [
            "a",
            "a/b:v1",
            "localhost:5000/a-b/c__d:V_1.0-x",
            "ghcr.io/llm-d/llm-d:v0.3",
            "VLLM/vllm:v1",
            "[fd00::1]:5000/a/b:v1",
            "[fd00::1]/a",
            &digest,
        ] {
            assert_eq!(problem(image), None, "{image}");
        }
        for image in [
            "https://ghcr.io/a/b",
            "a/B:v1",
            "a/b:la test",
            "a/b:",
            "a/b:-v",
            "a//b",
            "a/b/",
            "a/b@sha256:0",
            "a b",
            "a:b:c/d",
            "fd00::1/a",
            "[fd00::1]:x/a",
            "[host]/a",
            "-a/b",
            ":v1",
        ] {
            assert!(problem(image).is_some(), "{image}");
        }
    }
}
