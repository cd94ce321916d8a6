//! The XML of S3: pages of a listing, and error codes.

use quick_xml::{Reader, escape::resolve_predefined_entity, events::Event};

/// An object in a bucket.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Object {
    /// Its key.
    pub key: String,
    /// Its ETag, without quotes.
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

/// The deepest nesting of elements.
const MAX_DEPTH: usize = 8;

// === impl Page ===

impl Page {
    /// Reads the response to a `ListObjectsV2` request with `encoding-type=url`.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let mut page = Self::default();
        let (mut truncated, mut encoded, mut token) = (false, false, None);
        let mut object: Option<Object> = None;
        let mut is_list = false;
        leaves(text, |path, value| {
            match path {
                ["ListBucketResult", ..] => is_list = true,
                _ => return Ok(()),
            }
            match (&path[1..], value) {
                (["IsTruncated"], Some(value)) => truncated = value == "true",
                (["EncodingType"], Some(value)) => encoded = value == "url",
                (["NextContinuationToken"], Some(value)) => token = Some(value.to_owned()),
                (["Contents", "Key"], Some(value)) => {
                    value.clone_into(&mut object.get_or_insert_default().key);
                }
                (["Contents", "ETag"], Some(value)) => {
                    value.trim_matches('"').clone_into(&mut object.get_or_insert_default().etag);
                }
                (["Contents", "Size"], Some(value)) => {
                    let size = value.parse().map_err(|_| format!("`{value}` is not a size"))?;
                    object.get_or_insert_default().size = size;
                }
                // The end of an object.
                (["Contents"], None) => page.objects.extend(object.take()),
                _ => {}
            }
            Ok(())
        })?;
        if !is_list {
            return Err("it is not a list of objects".into());
        }
        if encoded {
            for object in &mut page.objects {
                let key = object.key.replace('+', " ");
                object.key = percent_encoding::percent_decode_str(&key)
                    .decode_utf8()
                    .map_err(|_| "a key is not UTF-8".to_owned())?
                    .into_owned();
            }
        }
        page.next = token.filter(|_| truncated);
        Ok(page)
    }
}

/// Returns the `Code` of an error document.
pub(super) fn error_code(text: &str) -> Option<String> {
    value_of(text, &["Error", "Code"])
}

/// Returns the first text at a path of elements. Namespaces are ignored.
pub(super) fn value_of(text: &str, wanted: &[&str]) -> Option<String> {
    let mut found = None;
    let result = leaves(text.as_bytes(), |path, value| {
        if path == wanted && found.is_none() {
            found = value.map(str::to_owned);
        }
        Ok(())
    });
    result.ok().and(found)
}

/// Calls `leaf` for each text with the names of the elements around it, and without a text at the end of each element.
fn leaves(
    text: &[u8],
    mut leaf: impl FnMut(&[&str], Option<&str>) -> Result<(), String>,
) -> Result<(), String> {
    let mut reader = Reader::from_reader(text);
    let mut path: Vec<String> = Vec::new();
    let mut content = String::new();
    let unreadable = |error: &dyn std::fmt::Display| format!("it is not valid XML: {error}");
    loop {
        match reader.read_event().map_err(|error| unreadable(&error))? {
            Event::Start(element) => {
                if path.len() == MAX_DEPTH {
                    return Err("it is nested too deeply".into());
                }
                path.push(element.local_name().as_ref().to_owned());
                content.clear();
            }
            Event::Text(text) => content.push_str(&text.into_inner()),
            Event::CData(text) => content.push_str(&text.into_inner()),
            Event::GeneralRef(reference) => {
                let character = reference.resolve_char_ref().map_err(|error| unreadable(&error))?;
                match (character, resolve_predefined_entity(&reference.into_inner())) {
                    (Some(character), _) => content.push(character),
                    (None, Some(text)) => content.push_str(text),
                    (None, None) => return Err("it has an unknown entity".into()),
                }
            }
            Event::End(_) => {
                let names: Vec<&str> = path.iter().map(String::as_str).collect();
                if !content.trim().is_empty() {
                    leaf(&names, Some(content.trim()))?;
                }
                leaf(&names, None)?;
                path.pop();
                content.clear();
            }
            Event::Eof if path.is_empty() => return Ok(()),
            Event::Eof => return Err("it ends early".into()),
            _ => {}
        }
    }
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
