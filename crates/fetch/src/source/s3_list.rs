//! The XML of S3: pages of a listing, error codes, and the keys of STS.

use serde::Deserialize;

use super::s3_credentials::Keys;

/// A document, by the name of its root element. Namespaces are ignored.
#[derive(Deserialize)]
enum Document {
    ListBucketResult(ListBucketResult),
    Error(ErrorResponse),
    AssumeRoleWithWebIdentityResponse(AssumeRoleResponse),
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ListBucketResult {
    #[serde(default)]
    contents: Vec<Object>,
    is_truncated: Option<String>,
    encoding_type: Option<String>,
    next_continuation_token: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ErrorResponse {
    code: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct AssumeRoleResponse {
    #[serde(rename = "AssumeRoleWithWebIdentityResult")]
    result: AssumeRoleResult,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct AssumeRoleResult {
    credentials: Keys,
}

/// An object in a bucket.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Object {
    /// Its key.
    pub key: String,
    /// Its ETag, without quotes.
    #[serde(rename = "ETag")]
    pub etag: String,
    /// Size in bytes.
    pub size: u64,
}

/// One page of a listing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// The objects.
    pub objects: Vec<Object>,
    /// The token of the next page. `None` on the last page.
    pub next: Option<String>,
}

// === impl Page ===

impl Page {
    /// Reads the response to a `ListObjectsV2` request with `encoding-type=url`.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let Document::ListBucketResult(list) = read(text)? else {
            return Err("it is not a list of objects".into());
        };
        let is_encoded = list.encoding_type.as_deref() == Some("url");
        let mut objects = list.contents;
        for object in &mut objects {
            object.etag = object.etag.trim_matches('"').to_owned();
            if is_encoded {
                let key = object.key.replace('+', " ");
                let decoded = percent_encoding::percent_decode_str(&key).decode_utf8();
                object.key = decoded.map_err(|_| "a key is not UTF-8".to_owned())?.into_owned();
            }
        }
        let next = list.next_continuation_token.filter(|_| list.is_truncated.as_deref() == Some("true"));
        Ok(Self { objects, next })
    }
}

/// Returns the `Code` of an error document.
pub(super) fn error_code(text: &str) -> Option<String> {
    match read(text.as_bytes()) {
        Ok(Document::Error(error)) => Some(error.code),
        _ => None,
    }
}

/// Returns the keys in the response of STS.
pub(super) fn assumed_keys(text: &[u8]) -> Result<Keys, String> {
    match read(text)? {
        Document::AssumeRoleWithWebIdentityResponse(response) => Ok(response.result.credentials),
        _ => Err("it has no keys".into()),
    }
}

fn read(text: &[u8]) -> Result<Document, String> {
    quick_xml::de::from_reader(text).map_err(|error| format!("it is not the expected XML: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_read() {
        let text = r#"<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
            <EncodingType>url</EncodingType><IsTruncated>true</IsTruncated><KeyCount>2</KeyCount>
            <NextContinuationToken>a&amp;b=</NextContinuationToken>
            <Contents><Key>m/a+b%2Bc</Key><ETag>&quot;abc&quot;</ETag><Size>7</Size><Owner><ID>x</ID></Owner></Contents>
            <Contents><Key>m/%C3%BC</Key><ETag>"d-2"</ETag><Size>0</Size></Contents></ListBucketResult>"#;
        let page = Page::parse(text.as_bytes()).unwrap();
        assert_eq!(page.next.as_deref(), Some("a&b="));
        let object = |key: &str, etag: &str, size| Object { key: key.into(), etag: etag.into(), size };
        assert_eq!(page.objects, [object("m/a b+c", "abc", 7), object("m/ü", "d-2", 0)]);
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "",
            "x",
            "<a/>",
            "<ListBucketResult><Contents>",
            "<a><b></a></b>",
            "<ListBucketResult>&x;</ListBucketResult>",
        ] {
            assert!(Page::parse(text.as_bytes()).is_err(), "{text}");
        }
        let deep = "<a>".repeat(100);
        assert!(Page::parse(deep.as_bytes()).is_err());
        assert_eq!(error_code("<Error><Code>NoSuchKey</Code></Error>").as_deref(), Some("NoSuchKey"));
    }
}
