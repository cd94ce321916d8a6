//! S3 and compatible stores.
//!
//! The crate implements the protocol itself, with the client that all sources share. Libraries for object stores show neither
//! the checksums of objects nor their encryption, which decides what an ETag means. They also bring a second HTTP client with
//! its own retries, timeouts and redirects.

use async_trait::async_trait;
use std::sync::Arc;

use http::{HeaderMap, Method};
use jiff::Timestamp;
use longboat_download::address::Address;
use parking_lot::Mutex;
use reqwest::Url;

use super::{
    pages::Pages,
    s3_checksum::{ObjectDigest, object_digest},
    s3_credentials::Credentials,
    s3_list::{Object, Page, error_code},
    s3_sign::sign,
};
use crate::{
    FetchError,
    digest::Digest,
    encode,
    error::Protocol,
    failure::Failure,
    filter::Filter,
    http::{Client, Limits, RedirectPolicy, Request, Response, ascii, origin, with_retries},
    remote::{
        ByteRange, FileResponse, Identity, Listing, Parallelism, RemoteFile, SINGLE_REQUEST_LIMIT, Source,
    },
    settings::Settings,
    source::bucket::{bucket_and_path, relative},
    trust,
};

/// Longest page of a listing, in bytes.
const MAX_PAGE: usize = 8 << 20;

struct S3 {
    client: Client,
    credentials: Credentials,
    style: BucketStyle,
    bucket: String,
    /// The key or prefix, without leading slashes.
    key: String,
    region: Mutex<String>,
    files: usize,
    attempts: u32,
}

/// The place of the bucket's name in URLs.
enum BucketStyle {
    /// In the path of this endpoint.
    Path(Url),
    /// In the host name of this endpoint.
    Host(Url),
    /// In the host name of AWS's own endpoint for the region.
    Aws,
}

/// Creates a source for a bucket.
pub(super) fn start(address: &Address, settings: &Settings) -> Result<Arc<dyn Source>, FetchError> {
    let (bucket, key) = bucket(address)?;
    let region = settings.get("AWS_DEFAULT_REGION").or_else(|| settings.get("AWS_REGION"));
    let region = region.unwrap_or("us-east-1").to_owned();
    let limits = Limits {
        connect: settings.seconds("S3_CONNECT_TIMEOUT", 15)?,
        read: settings.seconds("S3_READ_TIMEOUT", 30)?,
        retries: settings.retry_policy()?,
    };
    let files = settings.count("S3_MAX_FILE_CONCURRENCY", 4)?;
    Ok(Arc::new(S3 {
        client: Client::new(trust::s3(settings)?, limits)?,
        credentials: Credentials::new(settings, &region),
        style: style(bucket, &region, settings)?,
        bucket: bucket.to_owned(),
        key: key.to_owned(),
        region: Mutex::new(region),
        files: usize::try_from(files).unwrap_or(4).min(64),
        attempts: settings.count("S3_MAX_ATTEMPTS", 3)?,
    }))
}

/// Returns the bucket and the key of `s3://BUCKET/KEY`.
pub fn bucket(address: &Address) -> Result<(&str, &str), FetchError> {
    let (bucket, key) = bucket_and_path(address, "s3://BUCKET/KEY")?;
    Ok((bucket, key.trim_start_matches('/')))
}

fn style(bucket: &str, region: &str, settings: &Settings) -> Result<BucketStyle, FetchError> {
    let with_scheme = |host: &str| {
        let scheme = if settings.is_off("S3_USE_HTTPS") { "http" } else { "https" };
        if host.contains("://") { host.to_owned() } else { format!("{scheme}://{host}") }
    };
    let endpoint = settings
        .get("AWS_ENDPOINT_URL_S3")
        .or_else(|| settings.get("AWS_ENDPOINT_URL"))
        .map(str::to_owned)
        .or_else(|| settings.get("S3_ENDPOINT").map(with_scheme));
    let parse = |text: &str| {
        let url = Url::parse(text).ok().filter(|url| url.host_str().is_some());
        let url = url.filter(|url| matches!(url.scheme(), "http" | "https"));
        url.ok_or_else(|| FetchError::Endpoint {
            protocol: Protocol::S3,
            endpoint: Address::parse(text).to_string(),
        })
    };
    let by_host = settings.is_on("S3_USER_VIRTUAL_BUCKET");
    if settings.is_on("S3_USE_ACCELERATE") {
        return Ok(BucketStyle::Host(parse("https://s3-accelerate.amazonaws.com")?));
    }
    let Some(endpoint) = endpoint else {
        return if bucket.contains('.') {
            // AWS's certificate does not cover host names with further dots.
            Ok(BucketStyle::Path(parse(&format!("https://s3.{region}.amazonaws.com"))?))
        } else {
            Ok(BucketStyle::Aws)
        };
    };
    let url = parse(&endpoint)?;
    if url.as_str() == "https://s3.amazonaws.com/" && region != "us-east-1" && !bucket.contains('.') {
        return Ok(BucketStyle::Aws);
    }
    Ok(if by_host { BucketStyle::Host(url) } else { BucketStyle::Path(url) })
}

/// Returns the path of an object below the target. Returns `None` if the object is not below the requested key. A key is a
/// prefix of whole path segments, not of text.
fn place(key: &str, asked: &str) -> Option<String> {
    let rest = if asked.is_empty() {
        key
    } else if asked.ends_with('/') {
        key.strip_prefix(asked)?
    } else {
        key.strip_prefix(asked)?.strip_prefix('/')?
    };
    // A key that ends in a slash marks a folder.
    (!rest.is_empty() && !rest.ends_with('/')).then(|| relative(rest))
}

// === impl S3 ===

impl S3 {
    fn url(&self, key: Option<&str>, query: &str) -> Result<Url, Failure> {
        let key = encode::path(key.unwrap_or_default());
        let base = |url: &Url| url.as_str().trim_end_matches('/').to_owned();
        let address = match &self.style {
            BucketStyle::Path(url) => {
                let slash = if key.is_empty() { "" } else { "/" };
                format!("{}/{}{slash}{key}", base(url), self.bucket)
            }
            BucketStyle::Host(url) => {
                let host = format!("://{}.", self.bucket);
                format!("{}/{key}", base(url).replacen("://", &host, 1))
            }
            BucketStyle::Aws => {
                format!("https://{}.s3.{}.amazonaws.com/{key}", self.bucket, self.region.lock())
            }
        };
        let query = if query.is_empty() { String::new() } else { format!("?{query}") };
        Url::parse(&format!("{address}{query}")).map_err(|_| Failure::last("cannot build a valid address"))
    }

    /// Sends a signed request. Repeats it once if the bucket is in another region.
    async fn send(
        &self,
        method: Method,
        key: Option<&str>,
        query: &str,
        headers: HeaderMap,
    ) -> Result<Response, Failure> {
        let once = || async {
            let mut request = Request::new(method.clone(), self.url(key, query)?);
            request.headers.extend(headers.clone());
            request.follow = RedirectPolicy::None;
            if let Some(keys) = self.credentials.keys().await? {
                let region = self.region.lock().clone();
                let url = request.url.clone();
                sign(method.as_str(), &url, &mut request.headers, &keys, &region, Timestamp::now())?;
            }
            let answer = self.client.send(request).await?;
            if answer.status().is_redirection() { Err(answer.into_failure().await) } else { Ok(answer) }
        };
        // The endpoint of another region redirects, or answers 400 because the signature names the wrong region.
        let failure = match once().await {
            Err(failure) if matches!(failure.status, Some(301 | 307 | 400)) => failure,
            result => return result,
        };
        // The region becomes a part of a host name, so its characters are restricted.
        let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let region = failure.header("x-amz-bucket-region").filter(|region| region.chars().all(is_allowed));
        let region = region.map(str::to_owned);
        match region.filter(|region| *region != *self.region.lock()) {
            Some(region) if matches!(self.style, BucketStyle::Aws) => {
                *self.region.lock() = region;
                once().await
            }
            _ => Err(failure),
        }
    }

    async fn page(&self, token: Option<&str>) -> Result<Page, Failure> {
        // The parameters are in sorted order, as the signature requires.
        let mut query = String::new();
        if let Some(token) = token {
            query.extend(["continuation-token=", &encode::part(token), "&"]);
        }
        query.push_str("encoding-type=url&list-type=2");
        if !self.key.is_empty() {
            query.extend(["&prefix=", &encode::part(&self.key)]);
        }
        with_retries(self.retry_policy(), || async {
            let answer = self.send(Method::GET, None, &query, HeaderMap::new()).await?;
            let body = answer.body(MAX_PAGE).await?;
            Page::parse(&body).map_err(|why| Failure::last(format!("cannot read the list of objects: {why}")))
        })
        .await
    }

    fn retry_policy(&self) -> crate::retry::RetryPolicy {
        crate::retry::RetryPolicy { attempts: self.attempts, ..self.client.retry_policy() }
    }

    async fn objects(&self, filter: &Filter) -> Result<Vec<RemoteFile>, Failure> {
        let mut files = Vec::new();
        let (mut pages, server) = (Pages::default(), origin(&self.url(None, "")?));
        let mut token = None;
        loop {
            let page = self.page(token.as_deref()).await?;
            pages.turn(&server, page.objects.len(), page.next.as_deref())?;
            for object in page.objects {
                if object.key == self.key && !self.key.ends_with('/') {
                    let name = self.key.rsplit('/').next().unwrap_or_default().to_owned();
                    return Ok(vec![remote(name, object)]);
                }
                if let Some(path) = place(&object.key, &self.key).filter(|path| filter.wants(path)) {
                    files.push(remote(path, object));
                }
            }
            token = page.next;
            if token.is_none() {
                return Ok(files);
            }
        }
    }

    /// Asks for the headers of an object.
    async fn head(&self, file: &RemoteFile, query: &str) -> Result<Response, Failure> {
        let mut headers = HeaderMap::new();
        headers.insert("x-amz-checksum-mode", ascii("ENABLED"));
        with_retries(self.retry_policy(), || {
            self.send(Method::HEAD, Some(&file.locator), query, headers.clone())
        })
        .await
    }

    /// Completes the digest of the digests of an object's parts with the size of the parts. Returns `None` if the parts have
    /// different sizes, or if the server does not report them: then the digest cannot be checked.
    async fn of_parts(&self, file: &RemoteFile, digest: Digest, count: u64) -> Option<Digest> {
        let size = file.size?;
        if count == 1 {
            return Some(digest.of_parts(size));
        }
        let mut part = None;
        // Programs that upload use one size for all parts of an object, so three of them show it.
        for number in [1, count.div_ceil(2), count] {
            let answer = self.head(file, &format!("partNumber={number}")).await;
            let answer = answer.inspect_err(|failure| {
                let object = &*file.locator;
                tracing::debug!(object, error = failure.why, "Cannot find out the sizes of its parts.");
            });
            let length = answer.ok()?.length()?;
            let part = *part.get_or_insert(length);
            let last =
                size.checked_sub(part.checked_mul(count - 1)?).filter(|last| (1..=part).contains(last))?;
            if length != if number == count { last } else { part } {
                return None;
            }
        }
        part.map(|part| digest.of_parts(part))
    }

    /// Names why the bucket could not be listed. A store that denies the list may deny the whole bucket: the answer to HEAD
    /// tells, and the reference has another text for it.
    async fn listing_error(&self, failure: Failure) -> FetchError {
        let error = self.error(failure);
        if !matches!(error, FetchError::Denied { .. }) {
            return error;
        }
        match self.send(Method::HEAD, None, "", HeaderMap::new()).await {
            Err(failure) if failure.status == Some(403) => FetchError::Forbidden {
                protocol: Protocol::S3,
                why: format!("the credentials, if any, do not allow access to bucket '{}'", self.bucket),
            },
            _ => error,
        }
    }
}

/// Whether an object was uploaded in several parts, judged by its ETag.
fn is_in_parts(file: &RemoteFile) -> bool {
    let Identity::Text(etag) = &file.identity else { return false };
    etag.rsplit_once('-').is_some_and(|(_, count)| count.parse::<u32>().is_ok_and(|count| count > 1))
}

fn remote(path: String, object: Object) -> RemoteFile {
    let mut file = RemoteFile::new(path, object.key);
    file.size = Some(object.size);
    if !object.etag.is_empty() {
        file.identity = Identity::Text(object.etag.into());
    }
    // Larger objects are fetched in parts, so their responses have no checksum of the whole. The ETag of an object that was
    // uploaded in parts is no digest of its content, and more requests are needed to learn the sizes of the parts.
    file.described = object.size <= SINGLE_REQUEST_LIMIT && !is_in_parts(&file);
    file
}

#[async_trait]
impl Source for S3 {
    async fn list(&self, filter: &Filter) -> Result<Listing, FetchError> {
        let files = match self.objects(filter).await {
            Ok(files) => files,
            Err(failure) => return Err(self.listing_error(failure).await),
        };
        if files.is_empty() && *filter == Filter::default() {
            let source_uri = if self.key.is_empty() { self.bucket.clone() } else { self.key.clone() };
            return Err(FetchError::Empty { source_uri });
        }
        for file in &files {
            tracing::debug!("Found S3 object: {} ({} bytes)", file.locator, file.size.unwrap_or(0));
        }
        Ok(Listing { revision: None, files }.unpacking_a_single_archive(filter))
    }

    async fn describe(&self, file: &RemoteFile) -> Result<RemoteFile, FetchError> {
        let answer = self.head(file, "").await.map_err(|failure| self.error(failure))?;
        let digest = match object_digest(|name| answer.header(name)) {
            Some(ObjectDigest::Whole(digest)) => Some(digest),
            Some(ObjectDigest::Parts { digest, count }) => self.of_parts(file, digest, count).await,
            None => None,
        };
        Ok(RemoteFile { digest, described: true, ..file.clone() })
    }

    async fn open(&self, file: &RemoteFile, range: &ByteRange) -> Result<FileResponse, Failure> {
        let mut headers = HeaderMap::new();
        headers.insert("x-amz-checksum-mode", ascii("ENABLED"));
        range.add_to(&mut headers);
        if let Some(etag) = range.identity.as_ref().filter(|_| !range.is_all()) {
            // All parts must be of one version. If the object has changed, the server answers 412, and the file starts over.
            headers.insert(http::header::IF_MATCH, ascii(&format!("\"{etag}\"")));
        }
        let answer = self.send(Method::GET, Some(&file.locator), "", headers).await?;
        let etag = answer.header("etag").map(|etag| etag.trim_matches('"').to_owned());
        // The checksums in a partial response are those of the part.
        let digest = match object_digest(|name| answer.header(name)).filter(|_| answer.status() == 200) {
            Some(ObjectDigest::Whole(digest)) => Some(digest),
            Some(ObjectDigest::Parts { digest, count: 1 }) => {
                answer.length().map(|size| digest.of_parts(size))
            }
            _ => None,
        };
        let mut opened = FileResponse::of(answer, range)?;
        opened.identity = etag.map(Into::into);
        opened.digest = digest.or(file.digest);
        Ok(opened)
    }

    fn error(&self, failure: Failure) -> FetchError {
        let protocol = Protocol::S3;
        let code = error_code(&failure.body).unwrap_or_default();
        let resource = self.bucket.clone();
        match (failure.status, code.as_str()) {
            (Some(403), "InvalidAccessKeyId" | "SignatureDoesNotMatch" | "InvalidToken" | "ExpiredToken") => {
                FetchError::Forbidden {
                    protocol,
                    why: format!("the server refused the credentials for bucket '{resource}' ({code})"),
                }
            }
            (Some(403), "RequestTimeTooSkewed" | "RequestExpired") => FetchError::Forbidden {
                protocol,
                why: format!("the clock of this machine differs too much from that of the server ({code})"),
            },
            (Some(403), "InvalidObjectState") => FetchError::Answer {
                protocol,
                resource,
                why: format!("an object is archived: restore it from its storage class first ({code})"),
            },
            (Some(status), code) if !code.is_empty() && ![401, 403, 404].contains(&status) => {
                let code = crate::names::shown(code);
                FetchError::Answer {
                    protocol,
                    resource,
                    why: format!("the server answered {status} ({code})"),
                }
            }
            _ => failure.into_error(protocol, &resource),
        }
    }

    fn parallel(&self) -> Parallelism {
        Parallelism { files: self.files, attempts: Some(self.attempts), ..Parallelism::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_a_prefix_of_paths() {
        for (key, asked, path) in [
            ("m/l/a", "m/l", Some("a")),
            ("m/l/a", "m/l/", Some("a")),
            ("m/l/s/a", "m/l", Some("s/a")),
            ("m/l-2/a", "m/l", None),
            ("m/l/", "m/l", None),
            ("m/l//a", "m/l", Some("a")),
            ("m/l/s//a", "m/l", Some("s/a")),
            ("a/b", "", Some("a/b")),
            ("m/la", "m/l", None),
        ] {
            assert_eq!(place(key, asked).as_deref(), path, "{key} {asked}");
        }
        assert_eq!(bucket(&Address::parse("s3://b//k?x#y")).unwrap(), ("b", "k?x#y"));
        assert!(["s3://", "s3://a@b/k"].iter().all(|text| bucket(&Address::parse(*text)).is_err()));
    }

    #[test]
    fn endpoints_and_styles() {
        let url = |variables: &[(&str, &str)]| {
            let settings =
                Settings::new(variables.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))).unwrap();
            let region = settings.get("AWS_DEFAULT_REGION").unwrap_or("us-east-1").to_owned();
            let client = Client::new(
                longboat_tls::insecure_client_config(&[]),
                Limits {
                    connect: std::time::Duration::MAX,
                    read: std::time::Duration::MAX,
                    retries: settings.retry_policy().unwrap(),
                },
            );
            let s3 = S3 {
                client: client.unwrap(),
                credentials: Credentials::new(&settings, &region),
                style: style("bkt", &region, &settings).unwrap(),
                bucket: "bkt".into(),
                key: String::new(),
                region: Mutex::new(region),
                files: 1,
                attempts: 1,
            };
            s3.url(Some("a b/ü?"), "").unwrap().to_string()
        };
        longboat_tls::install_default_provider();
        for (variables, expected) in [
            (&[][..], "https://bkt.s3.us-east-1.amazonaws.com/a%20b/%C3%BC%3F"),
            (&[("AWS_ENDPOINT_URL", "http://h:9")], "http://h:9/bkt/a%20b/%C3%BC%3F"),
            (&[("S3_ENDPOINT", "h:9"), ("S3_USE_HTTPS", "0")], "http://h:9/bkt/a%20b/%C3%BC%3F"),
            (
                &[("AWS_ENDPOINT_URL", "http://h:9"), ("S3_USER_VIRTUAL_BUCKET", "true")],
                "http://bkt.h:9/a%20b/%C3%BC%3F",
            ),
            (
                &[("AWS_ENDPOINT_URL", "https://s3.amazonaws.com"), ("AWS_DEFAULT_REGION", "eu-west-1")],
                "https://bkt.s3.eu-west-1.amazonaws.com/a%20b/%C3%BC%3F",
            ),
        ] {
            assert_eq!(url(variables), expected);
        }
    }
}
