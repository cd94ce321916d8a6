//! Where a server may redirect to.

use std::net::{IpAddr, Ipv6Addr};

use reqwest::Url;

/// The metadata service of AWS at IPv6, whose address is not one of the local link.
const METADATA_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);

/// Returns why a redirect from one address to the next is not followed. `first` is the address that was asked for.
pub(crate) fn check(first: &Url, from: &Url, next: &Url) -> Result<(), &'static str> {
    if is_link_local(next) && !is_link_local(first) {
        return Err("the server redirects to a link-local address, where clouds serve credentials");
    }
    if from.scheme() == "https" && next.scheme() != "https" {
        return Err("the server redirects from https to an unencrypted address");
    }
    Ok(())
}

/// Whether an address is one of the local link, such as that of a cloud's metadata service.
fn is_link_local(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    match host.trim_matches(['[', ']']).parse() {
        Ok(IpAddr::V4(ip)) => ip.is_link_local(),
        Ok(IpAddr::V6(ip)) => {
            ip.is_unicast_link_local()
                || ip.to_ipv4_mapped().is_some_and(|ip| ip.is_link_local())
                || ip == METADATA_V6
        }
        Err(_) => host.trim_end_matches('.').eq_ignore_ascii_case("metadata.google.internal"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn metadata_services_are_on_the_local_link() {
        for (url, is) in [
            ("http://169.254.169.254/latest/meta-data/", true),
            ("http://2852039166/", true),
            ("http://[fe80::1]/", true),
            ("http://[::ffff:169.254.169.254]/", true),
            ("http://[fd00:ec2::254]/", true),
            ("http://metadata.google.internal./", true),
            ("http://127.0.0.1/", false),
            ("https://example.com/169.254.169.254", false),
        ] {
            assert_eq!(is_link_local(&self::url(url)), is, "{url}");
        }
    }

    #[test]
    fn who_asks_for_the_local_link_gets_there_and_encryption_stays() {
        let (web, tls, link) = (url("http://h/a"), url("https://h/a"), url("http://169.254.1.1/a"));
        for (first, from, next, is_allowed) in [
            (&web, &web, &tls, true),
            (&web, &web, &link, false),
            (&link, &link, &link, true),
            (&web, &tls, &web, false),
            (&tls, &tls, &tls, true),
        ] {
            assert_eq!(check(first, from, next).is_ok(), is_allowed, "{first} {from} {next}");
        }
    }
}
