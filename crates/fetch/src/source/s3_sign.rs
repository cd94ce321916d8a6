//! AWS Signature Version 4, for requests without a body.

use data_encoding::HEXLOWER;
use http::{HeaderMap, HeaderName};
use jiff::{Timestamp, tz::TimeZone};
use reqwest::Url;
use ring::hmac;

use super::s3_credentials::Keys;
use crate::{
    digest::{Algorithm, Digest},
    failure::Failure,
    http::ascii,
};

/// The SHA-256 of an empty body.
const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// Adds the headers that sign a request.
pub(super) fn sign(
    method: &str,
    url: &Url,
    headers: &mut HeaderMap,
    keys: &Keys,
    region: &str,
    now: Timestamp,
) -> Result<(), Failure> {
    let time = now.to_zoned(TimeZone::UTC).strftime("%Y%m%dT%H%M%SZ").to_string();
    let date = &time[..8];
    headers.insert(HeaderName::from_static("x-amz-date"), ascii(&time));
    headers.insert(HeaderName::from_static("x-amz-content-sha256"), ascii(EMPTY));
    if let Some(token) = &keys.token {
        let mut value = ascii(token);
        value.set_sensitive(true);
        headers.insert(HeaderName::from_static("x-amz-security-token"), value);
    }
    let host = url.host_str().unwrap_or_default();
    let host = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
    let mut signed: Vec<(String, String)> = vec![("host".into(), host)];
    for (name, value) in headers.iter() {
        if name.as_str().starts_with("x-amz-") || name == "range" {
            let value = value.to_str().map_err(|_| Failure::last("cannot sign a header"))?;
            signed.push((name.as_str().to_owned(), value.trim().to_owned()));
        }
    }
    signed.sort();
    let names = signed.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(";");
    let lines: String = signed.iter().flat_map(|(name, value)| [name, ":", value, "\n"]).collect();
    // Query strings are already in canonical form: names are sorted and values are encoded.
    let query = url.query().unwrap_or_default();
    let canonical = format!("{method}\n{}\n{query}\n{lines}\n{names}\n{EMPTY}", url.path());
    let scope = format!("{date}/{region}/s3/aws4_request");
    let hashed = Digest::of(Algorithm::Sha256, canonical.as_bytes()).hex();
    let text = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{hashed}");
    let mut key = mac(format!("AWS4{}", keys.secret).as_bytes(), date);
    for part in [region, "s3", "aws4_request"] {
        key = mac(key.as_ref(), part);
    }
    let signature = HEXLOWER.encode(mac(key.as_ref(), &text).as_ref());
    let mut value = ascii(&format!(
        "AWS4-HMAC-SHA256 Credential={}/{scope}, SignedHeaders={names}, Signature={signature}",
        keys.id
    ));
    value.set_sensitive(true);
    headers.insert(http::header::AUTHORIZATION, value);
    Ok(())
}

fn mac(key: &[u8], text: &str) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documented_example_is_signed_as_documented() {
        let keys = Keys {
            id: "AKIAIOSFODNN7EXAMPLE".into(),
            secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".into(),
            token: None,
            expires: None,
        };
        let url = Url::parse("https://examplebucket.s3.amazonaws.com/test.txt").unwrap();
        let mut headers = HeaderMap::new();
        headers.insert("range", ascii("bytes=0-9"));
        let now = "2013-05-24T00:00:00Z".parse().unwrap();
        sign("GET", &url, &mut headers, &keys, "us-east-1", now).unwrap();
        let signature = headers["authorization"].to_str().unwrap();
        assert!(
            signature.ends_with("f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"),
            "{signature}"
        );
    }
}
