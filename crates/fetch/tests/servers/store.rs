//! Object stores, with the protocols of S3 and of Google Cloud Storage.

use std::{collections::BTreeMap, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::json;

use super::{
    Answer, Request,
    contents::{known_md5, known_parts, md5},
    decoded,
};

/// The way in which the objects of a store were uploaded.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Upload {
    /// In one request, without a checksum.
    #[default]
    Whole,
    /// In parts of this size, without a checksum.
    Parts(usize),
    /// In parts of this size, with the CRC-32 of each part, as boto3 uploads.
    Checked(usize),
}

/// Buckets, and the objects of each by key.
#[derive(Debug, Default)]
pub struct Store {
    pub buckets: BTreeMap<String, BTreeMap<String, Arc<Vec<u8>>>>,
    /// Objects per page.
    pub page: usize,
    /// The only access key that is accepted.
    pub key: Option<String>,
    /// Whether the announced CRC-32 is `right` or `wrong`. `None` announces none.
    pub crc: Option<String>,
    /// The way in which the objects were uploaded.
    pub upload: Upload,
    /// Whether requests need a bearer token.
    pub private: bool,
}

// === impl Store ===

impl Store {
    pub fn s3(&self, request: &Request) -> Answer {
        let path = decoded(request.path());
        let path = path.trim_start_matches('/');
        // The bucket may be in the host name.
        let host = request.header("host").unwrap_or_default();
        let by_host = self.buckets.keys().find(|bucket| host.starts_with(&format!("{bucket}.")));
        let (bucket, key) = match by_host {
            Some(bucket) => (bucket.as_str(), path),
            None => path.split_once('/').unwrap_or((path, "")),
        };
        let error = |status, code: &str| Answer::new(status, format!("<Error><Code>{code}</Code></Error>"));
        if let Some(wanted) = &self.key {
            let signed = request.header("authorization").unwrap_or_default();
            if !signed.contains(&format!("Credential={wanted}/")) {
                return error(403, "AccessDenied");
            }
        }
        let Some(objects) = self.buckets.get(bucket) else { return error(404, "NoSuchBucket") };
        if key.is_empty() {
            return self.s3_list(request, objects);
        }
        let Some(content) = objects.get(key) else { return error(404, "NoSuchKey") };
        if let Upload::Parts(part) | Upload::Checked(part) = self.upload {
            return self.s3_parts(request, content, part);
        }
        let answer = Answer::file(content).with("ETag", format!("\"{}\"", known_md5(content)));
        let whole = request.header("range").is_none();
        match self.crc.as_deref().filter(|_| whole) {
            None => answer,
            Some(kind) => {
                let sum = crc32fast::hash(content) ^ u32::from(kind == "wrong");
                answer.with("x-amz-checksum-crc32", STANDARD.encode(sum.to_be_bytes()))
            }
        }
    }

    /// Returns an object that was uploaded in parts.
    fn s3_parts(&self, request: &Request, content: &Arc<Vec<u8>>, part: usize) -> Answer {
        let (etag, crc) = known_parts(content, part);
        let count = content.len().div_ceil(part);
        if let Some(number) = request.query("partNumber") {
            let number: usize = number.parse().unwrap();
            let length = part.min(content.len() - part * (number - 1));
            return Answer::new(206, "").with("Content-Length", length.to_string());
        }
        let answer =
            Answer::file(content).with("ETag", format!("\"{etag}-{count}\"")).with("Server", "AmazonS3");
        let is_whole = request.header("range").is_none();
        match self.upload {
            Upload::Checked(_) if is_whole => answer
                .with("x-amz-checksum-crc32", format!("{crc}-{count}"))
                .with("x-amz-checksum-type", "COMPOSITE"),
            _ => answer,
        }
    }

    /// Returns the ETag of an object.
    fn etag(&self, content: &Arc<Vec<u8>>) -> String {
        match self.upload {
            Upload::Whole => known_md5(content),
            Upload::Parts(part) | Upload::Checked(part) => {
                format!("{}-{}", known_parts(content, part).0, content.len().div_ceil(part))
            }
        }
    }

    fn s3_list(&self, request: &Request, objects: &BTreeMap<String, Arc<Vec<u8>>>) -> Answer {
        let prefix = request.query("prefix").unwrap_or_default();
        let after = request.query("continuation-token").unwrap_or_default();
        let all: Vec<_> =
            objects.iter().filter(|(key, _)| key.starts_with(&prefix) && **key > after).collect();
        let page = if self.page == 0 { 1000 } else { self.page };
        let mut text =
            String::from("<?xml version=\"1.0\"?><ListBucketResult><EncodingType>url</EncodingType>");
        for (key, content) in all.iter().take(page) {
            let key = percent_encoding::utf8_percent_encode(key, percent_encoding::NON_ALPHANUMERIC);
            let etag = self.etag(content);
            text.push_str(&format!(
                "<Contents><Key>{key}</Key><ETag>&quot;{etag}&quot;</ETag><Size>{}</Size></Contents>",
                content.len()
            ));
        }
        let truncated = all.len() > page;
        text.push_str(&format!("<IsTruncated>{truncated}</IsTruncated>"));
        if truncated {
            text.push_str(&format!("<NextContinuationToken>{}</NextContinuationToken>", all[page - 1].0));
        }
        text.push_str("</ListBucketResult>");
        Answer::new(200, text)
    }

    pub fn gcs(&self, request: &Request) -> Answer {
        if request.path() == "/token" {
            return Answer::new(200, json!({"access_token": "t", "expires_in": 3600}).to_string());
        }
        if self.private && request.header("authorization").is_none() {
            return Answer::new(401, "{}");
        }
        let path = request.path().trim_start_matches("/download");
        let Some(rest) = path.strip_prefix("/storage/v1/b/") else { return Answer::new(404, "{}") };
        let (bucket, rest) = rest.split_once('/').unwrap_or((rest, ""));
        let Some(objects) = self.buckets.get(bucket) else { return Answer::new(404, "{}") };
        let item = |name: &str, content: &[u8]| {
            json!({"name": name, "size": content.len().to_string(), "generation": "1",
                "md5Hash": STANDARD.encode(md5(content))})
        };
        if let Some(name) = rest.strip_prefix("o/") {
            let name = decoded(name);
            let Some(content) = objects.get(&name) else { return Answer::new(404, "{}") };
            if request.query("alt").is_some() {
                return Answer::file(content)
                    .with("X-Goog-Hash", format!("md5={}", STANDARD.encode(md5(content))));
            }
            return Answer::new(200, item(&name, content).to_string());
        }
        let prefix = request.query("prefix").unwrap_or_default();
        let after = request.query("pageToken").unwrap_or_default();
        let all: Vec<_> =
            objects.iter().filter(|(key, _)| key.starts_with(&prefix) && **key > after).collect();
        let page = if self.page == 0 { 1000 } else { self.page };
        let items: Vec<_> = all.iter().take(page).map(|(name, content)| item(name, content)).collect();
        let mut answer = json!({"items": items});
        if all.len() > page {
            answer["nextPageToken"] = all[page - 1].0.as_str().into();
        }
        Answer::new(200, answer.to_string())
    }
}
