//! A file or an archive on a web server.

use async_trait::async_trait;
use std::{sync::Arc, time::Duration};

use http::header::{AUTHORIZATION, HeaderName};
use longboat_download::address::Address;
use percent_encoding::percent_decode_str;
use reqwest::Url;
use serde_json::Value;

use crate::{
    FetchError,
    digest::{Algorithm, Digest},
    error::Protocol,
    failure::Failure,
    filter::Filter,
    http::{Client, Limits, Request, ascii},
    names,
    remote::{ByteRange, FileResponse, Listing, Members, Parallelism, Placement, RemoteFile, Source},
    settings::Settings,
    trust,
};

struct Web {
    client: Client,
    url: Url,
    /// The address, redacted.
    shown: String,
    name: String,
    is_archive: bool,
    secrets: Vec<(HeaderName, String)>,
}

/// Creates a source for a web server.
pub(super) fn start(address: &Address, settings: &Settings) -> Result<Arc<dyn Source>, FetchError> {
    let shown = address.to_string();
    let refuse = |why: &str| FetchError::address(&shown, why);
    let mut url = Url::parse(address.as_str()).map_err(|error| refuse(&error.to_string()))?;
    if let Some(why) = address.unsupported() {
        return Err(refuse(why));
    }
    if url.path().rsplit('/').next().is_none_or(str::is_empty) {
        return Err(FetchError::NoFileName { uri: shown });
    }
    let name = last_part(address.as_str()).to_owned();
    // If the path has no file name, the query may contain it.
    let guessed = if name.contains('.') { name.clone() } else { url.query().unwrap_or_default().to_owned() };
    let mut secrets = headers(&url, settings)?;
    if !url.username().is_empty() || url.password().is_some() {
        secrets.push((AUTHORIZATION, basic(&url)));
        let _ = (url.set_username(""), url.set_password(None));
    }
    let seconds = Duration::from_secs(30);
    let limits = Limits { connect: seconds, read: seconds, retries: settings.retry_policy()? };
    Ok(Arc::new(Web {
        client: Client::new(trust::usual(settings)?, limits)?,
        url,
        shown,
        is_archive: names::is_archive(&guessed),
        name,
        secrets,
    }))
}

/// Returns the last part of the path, still percent-encoded, because the reference uses it as file name.
fn last_part(uri: &str) -> &str {
    let path = uri.split(['?', '#']).next().unwrap_or_default();
    path.rsplit('/').next().unwrap_or_default()
}

fn basic(url: &Url) -> String {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let pair = format!("{}:{}", decoded(url.username()), decoded(url.password().unwrap_or_default()));
    format!("Basic {}", STANDARD.encode(pair))
}

/// Returns the configured headers for this host. They are a JSON object in the variable `HOST-headers`.
fn headers(url: &Url, settings: &Settings) -> Result<Vec<(HeaderName, String)>, FetchError> {
    let variable = format!("{}-headers", url.host_str().unwrap_or_default());
    let Some(text) = settings.get(&variable) else { return Ok(vec![]) };
    let refuse = |why: &str| FetchError::setting(variable.clone(), why);
    let Ok(Value::Object(object)) = serde_json::from_str(text) else {
        return Err(refuse("expected a JSON object of header names and values"));
    };
    let header = |(name, value): (String, Value)| {
        let name = name.parse().map_err(|_| refuse("it has an invalid header name"))?;
        let value = value.as_str().ok_or_else(|| refuse("it has a value that is not a string"))?;
        Ok((name, value.to_owned()))
    };
    object.into_iter().map(header).collect()
}

#[async_trait]
impl Source for Web {
    async fn list(&self, filter: &Filter) -> Result<Listing, FetchError> {
        let mut file = RemoteFile::new(&self.name, &self.shown);
        file.ranged = false;
        if self.is_archive {
            file.placement = Placement::Archive(Box::new(Members::selected_by(filter)));
        }
        Ok(Listing { revision: None, files: vec![file] })
    }

    async fn open(&self, _file: &RemoteFile, range: &ByteRange) -> Result<FileResponse, Failure> {
        let mut request = Request::get(self.url.clone());
        for (name, value) in &self.secrets {
            request.secret(name.clone(), value)?;
        }
        // Without an identity, it would be unknown whether the rest belongs to the same content, so the download starts at
        // the beginning.
        let resumed = range.identity.as_deref().filter(|_| range.start > 0);
        if let Some(identity) = resumed {
            range.add_to(&mut request.headers);
            // If the ETag is another one now, the server sends the whole content from its start (RFC 9110, section 13.1.5).
            request.headers.insert(http::header::IF_RANGE, ascii(identity));
        }
        let answer = self.client.send(request).await?;
        let header = |name: &str| answer.header(name).map(str::to_owned);
        if header("content-encoding").is_some_and(|encoding| !encoding.eq_ignore_ascii_case("identity")) {
            return Err(Failure::last(
                "the server compresses the file, although the request asked for no compression",
            ));
        }
        let is_page = header("content-type").is_some_and(|kind| kind.trim_start().starts_with("text/html"));
        let wants_page = [".html", ".htm"].iter().any(|end| self.name.to_ascii_lowercase().ends_with(end));
        if is_page && !wants_page {
            return Err(Failure::last("the server sent a web page instead of the file"));
        }
        let digest = header("repr-digest").or_else(|| header("digest")).and_then(|text| repr_digest(&text));
        let etag = header("etag").filter(|etag| etag.starts_with('"'));
        let mut opened = FileResponse::of(answer, range)?;
        opened.identity = etag.map(Into::into);
        opened.digest = digest;
        Ok(opened)
    }

    fn error(&self, failure: Failure) -> FetchError {
        let host = self.url.host_str().unwrap_or_default();
        match failure.status {
            None if failure.cause == crate::retry::Cause::Connection => FetchError::Unreachable {
                protocol: Protocol::Http,
                resource: host.to_owned(),
                why: failure.why,
            },
            _ => failure.into_error(Protocol::Http, &self.shown),
        }
    }

    fn parallel(&self) -> Parallelism {
        Parallelism { files: 1, connections: 1, attempts: None }
    }
}

/// Returns the SHA-256 of a `Repr-Digest` or `Digest` header: `sha-256=:BASE64:` or `sha-256=BASE64`.
fn repr_digest(text: &str) -> Option<Digest> {
    text.split(',').find_map(|item| {
        let (name, value) = item.trim().split_once('=')?;
        let value = value.trim().trim_matches(':');
        name.eq_ignore_ascii_case("sha-256").then(|| Digest::from_base64(Algorithm::Sha256, value))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_of_headers_are_read() {
        let digest = Digest::of(Algorithm::Sha256, b"");
        for text in [
            "sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:",
            "md5=x, SHA-256=47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
        ] {
            assert_eq!(repr_digest(text), Some(digest));
        }
        assert_eq!(repr_digest("sha-512=:x:"), None);
    }

    #[test]
    fn a_file_is_named_as_its_address_is_written() {
        for (uri, name) in [
            ("http://h/a/w.bin", "w.bin"),
            ("http://h/a%20b?x=/y#/z", "a%20b"),
            ("http://u:p@h/wü.bin", "wü.bin"),
        ] {
            assert_eq!(last_part(uri), name);
        }
    }

    #[test]
    fn addresses_need_a_name_and_secrets_are_not_shown() {
        let settings = Settings::new([("h-headers".to_owned(), "not json s3cr3t".to_owned())]).unwrap();
        for uri in [
            "http://h/",
            "http://g",
            "http://g/%2e%2e",
            "http://h/m.bin",
            "https://g/a.git",
            "https://a.blob.core.windows.net/m/w.bin",
            "https://a.z12.file.storage.azure.net/m",
        ] {
            let Err(error) = start(&Address::parse(uri), &settings) else { panic!("{uri}") };
            assert!(!error.to_string().contains("s3cr3t"), "{error}");
        }
    }
}
