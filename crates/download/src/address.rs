//! Addresses of models. An address is parsed once, where it enters, so no other code examines its text.

use std::fmt;

use longboat_key::names::is_subdomain;

use crate::image;

/// The longest name of an owner or a model on the Hugging Face hub.
const MAX_NAME: usize = 96;

/// The hosts of the Hugging Face hub.
const HUB_HOSTS: [&str; 3] = ["huggingface.co", "www.huggingface.co", "hf.co"];

const EXPECTED_HUB: &str = "expected hf://OWNER/MODEL[:REVISION]";

/// The address of a model. Its text without credentials is what `Display` and `Debug` show.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    text: String,
    scheme: Scheme,
    /// Where the part after `://` begins in the text.
    rest: usize,
}

/// What an address starts with, which decides how a model is fetched. `Display` shows it without `://`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// `hf`: the Hugging Face hub.
    HuggingFace,
    /// `s3`: S3 and compatible stores.
    S3,
    /// `gs`: Google Cloud Storage.
    Gcs,
    /// `oci`: an image or an artifact in a registry.
    Oci,
    /// `oci+native`: an image that the kubelet mounts.
    OciNative,
    /// `https`: a web server.
    Https,
    /// `http`: a web server without TLS.
    Http,
    /// `pvc`: a persistent volume claim.
    Claim,
    /// `file`: a path.
    File,
    /// Any other scheme.
    Other,
    /// No scheme: a path, if anything.
    Absent,
}

// === impl Scheme ===

impl Scheme {
    const KNOWN: [(&str, Self); 9] = [
        ("hf", Self::HuggingFace),
        ("s3", Self::S3),
        ("gs", Self::Gcs),
        ("oci", Self::Oci),
        ("oci+native", Self::OciNative),
        ("https", Self::Https),
        ("http", Self::Http),
        ("pvc", Self::Claim),
        ("file", Self::File),
    ];
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = Self::KNOWN.into_iter().find(|(_, scheme)| scheme == self);
        f.write_str(known.map_or("", |(name, _)| name))
    }
}

// === impl Address ===

impl Address {
    /// Parses any text. Schemes are case-sensitive, as in the reference.
    pub fn parse(text: impl Into<String>) -> Self {
        let text = text.into();
        let (scheme, rest) = match text.split_once("://") {
            Some((name, _)) => {
                let known = Scheme::KNOWN.into_iter().find(|(known, _)| *known == name);
                (known.map_or(Scheme::Other, |(_, scheme)| scheme), name.len() + "://".len())
            }
            None => (Scheme::Absent, 0),
        };
        Self { text, scheme, rest }
    }

    /// Returns what the address starts with.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Returns the whole text. It may contain credentials, so it must not be shown.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the text after `://`, or the whole text if there is no scheme. It may contain credentials.
    pub fn rest(&self) -> &str {
        &self.text[self.rest..]
    }

    /// Returns the first part after the scheme, without credentials: a host, a bucket, or a claim.
    pub fn host(&self) -> &str {
        let (authority, _) = self.split();
        authority.get(self.credentials().map_or(0, |user| user.len() + 1)..).unwrap_or_default()
    }

    /// Returns the text after the host and its slash.
    pub fn path(&self) -> &str {
        let (_, path) = self.split();
        path.strip_prefix('/').unwrap_or(path)
    }

    /// Returns the text before the host and its `@`: a user, perhaps with a password.
    pub fn credentials(&self) -> Option<&str> {
        let (authority, path) = self.split();
        let (user, after) = authority.rsplit_once('@').filter(|_| self.scheme != Scheme::Absent)?;
        // `oci://IMAGE@DIGEST` names no registry. Anything else after the sign is one, and what is before it may be a password.
        let is_digest = matches!(self.scheme, Scheme::Oci | Scheme::OciNative)
            && path.is_empty()
            && image::DIGESTS.iter().any(|(algorithm, _)| {
                after.strip_prefix(algorithm).is_some_and(|rest| rest.starts_with(':'))
            });
        (!is_digest).then_some(user)
    }

    fn is_web(&self) -> bool {
        matches!(self.scheme, Scheme::Http | Scheme::Https)
    }

    /// The last part of the path of a web address, without the query.
    fn file_name(&self) -> &str {
        let path = self.path().split(['?', '#']).next().unwrap_or_default();
        path.rsplit('/').next().unwrap_or(path)
    }

    /// Splits the text after the scheme where the host ends. The path keeps its first character.
    fn split(&self) -> (&str, &str) {
        // In names and keys of buckets, `?` and `#` end nothing.
        let ends: &[char] = if self.is_web() { &['/', '?', '#'] } else { &['/'] };
        let rest = self.rest();
        rest.split_at(rest.find(ends).unwrap_or(rest.len()))
    }

    /// Returns the repository and the revision of `hf://OWNER/MODEL[:REVISION]`.
    ///
    /// # Errors
    /// What is wrong with the address.
    pub fn hub_model(&self) -> Result<(&str, &str), &'static str> {
        if self.scheme != Scheme::HuggingFace {
            return Err(EXPECTED_HUB);
        }
        let (repository, revision) = self.rest().split_once(':').unwrap_or((self.rest(), ""));
        let Some((owner, name)) = repository.split_once('/') else {
            return Err("expected hf://OWNER/MODEL[:REVISION]: the owner or the model is missing");
        };
        for part in [owner, name] {
            if part.is_empty() {
                return Err("expected hf://OWNER/MODEL[:REVISION]: the owner or the model is empty");
            }
            if part.contains('/') {
                return Err("expected hf://OWNER/MODEL[:REVISION]: a folder of a model is not allowed");
            }
            // These are the rules of `validate_repo_id` in huggingface_hub.
            let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            let ends = |c: char| matches!(c, '-' | '.');
            if !part.chars().all(is_allowed)
                || part.contains("--")
                || part.contains("..")
                || part.starts_with(ends)
                || part.ends_with(ends)
                || part.len() > MAX_NAME
            {
                return Err(
                    "names of owners and models have letters, digits, `-`, `_` and `.`, neither `--` nor `..`, no `-` \
                     or `.` at either end, and at most 96 characters; a revision comes after a colon",
                );
            }
        }
        if revision.chars().any(|c| c.is_control() || c == ' ')
            || revision.split('/').any(|part| part == "..")
        {
            return Err("invalid revision");
        }
        Ok((repository, if revision.is_empty() { "main" } else { revision }))
    }

    /// Returns why nothing can be fetched from this address, or `None` if that depends on the source.
    pub fn problem(&self) -> Option<&'static str> {
        let names_nothing = self.host().is_empty();
        match self.scheme {
            Scheme::HuggingFace => self.hub_model().err(),
            Scheme::File if !self.rest().starts_with('/') => Some(
                "expected file:///PATH: the path must be absolute, because the download has a folder of its own",
            ),
            Scheme::S3 if names_nothing => Some("expected s3://BUCKET/PATH: the bucket is missing"),
            Scheme::Gcs if names_nothing => Some("expected gs://BUCKET/PATH: the bucket is missing"),
            Scheme::Claim if self.path().split('/').any(|part| part == "..") => {
                Some("expected pvc://CLAIM[/PATH]: the path must not contain `..`")
            }
            Scheme::Claim if names_nothing => {
                Some("expected pvc://CLAIM[/PATH]: the name of the claim is missing")
            }
            Scheme::Claim if !is_subdomain(self.host()) => Some(
                "expected pvc://CLAIM[/PATH]: the name of a claim has lower case letters, digits, `-` and `.`, and begins and \
                 ends with a letter or digit",
            ),
            Scheme::Oci | Scheme::OciNative => image::problem(self.rest()),
            Scheme::Https | Scheme::Http if names_nothing => {
                Some("expected https://HOST/PATH: the host is missing")
            }
            Scheme::Https | Scheme::Http if self.file_name().is_empty() => {
                Some("expected https://HOST/PATH: the path names no file")
            }
            Scheme::Https | Scheme::Http if self.meant().is_some() => {
                Some("this is a web page about a model of the Hugging Face hub, and not the model")
            }
            _ => None,
        }
    }

    /// Returns the address of the model that a page of the Hugging Face hub describes, that a text without a scheme names, or that an
    /// image with a second scheme is.
    pub fn meant(&self) -> Option<String> {
        let names_page = |host: &str| HUB_HOSTS.contains(&host);
        let repository = match self.scheme {
            Scheme::Https | Scheme::Http => names_page(self.host()).then(|| self.path())?,
            Scheme::Absent => match self.text.split_once('/')? {
                (host, path) if names_page(host) => path,
                _ => &self.text,
            },
            Scheme::Oci | Scheme::OciNative => {
                let (_, image) = self.rest().split_once("://")?;
                return image::problem(image).is_none().then(|| format!("{}://{image}", self.scheme));
            }
            _ => return None,
        };
        let repository = repository.split(['?', '#']).next().unwrap_or_default();
        let parts: Vec<&str> = repository.trim_end_matches('/').split('/').collect();
        let address = match parts.as_slice() {
            // A file in this format is a whole model.
            [owner, name, "blob", rest @ .., file]
                if file.rsplit('.').next() == Some("gguf") && !rest.is_empty() =>
            {
                return Some(format!(
                    "https://{}/{owner}/{name}/resolve/{}/{file}",
                    HUB_HOSTS[0],
                    rest.join("/")
                ));
            }
            // Without a revision, the hub takes `main`.
            [owner, name] | [owner, name, "tree", "main"] | [owner, name, "blob", "main", ..] => {
                format!("hf://{owner}/{name}")
            }
            [owner, name, "tree", revision] | [owner, name, "blob", revision, ..] => {
                format!("hf://{owner}/{name}:{revision}")
            }
            _ => return None,
        };
        Self::parse(address.as_str()).hub_model().is_ok().then_some(address)
    }
}

// === what Longboat's download lacks ===

impl Address {
    /// Returns why Longboat's storage initializer fetches nothing from this address. Other initializers may.
    pub fn unsupported(&self) -> Option<&'static str> {
        if !self.is_web() {
            return None;
        }
        let name = self.file_name().to_ascii_lowercase();
        if [".tar.bz2", ".tbz2", ".tar.xz", ".txz"].iter().any(|end| name.ends_with(end)) {
            return Some("bzip2 and xz are not supported; use .tar.gz or .tar.zst");
        }
        if self.scheme != Scheme::Https {
            return None;
        }
        if name.rsplit_once('.').is_some_and(|(_, ending)| ending == "git") {
            return Some("git repositories are not supported; use hf:// or oci://");
        }
        self.is_azure().then_some("Azure storage is not supported; use hf://, s3://, gs:// or oci://")
    }

    /// Whether the host is an Azure store. Its addresses name folders of objects, which need another protocol.
    fn is_azure(&self) -> bool {
        let host = self.host().split(':').next().unwrap_or_default().to_ascii_lowercase();
        // `ACCOUNT.z01.blob.storage.azure.net` is the host of an account in one of Azure's DNS zones.
        let in_zone = |kind: &str| {
            let zone = host.strip_suffix(".storage.azure.net").and_then(|host| host.rsplit_once('.'));
            let (rest, last) = zone.unwrap_or_default();
            last == kind && rest.rsplit('.').next().is_some_and(|zone| zone.starts_with('z'))
        };
        let kinds = ["blob", "file"];
        kinds.iter().any(|kind| host.ends_with(&format!(".{kind}.core.windows.net")) || in_zone(kind))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = &self.rest()[self.credentials().map_or(0, |user| user.len() + 1)..];
        f.write_str(&self.text[..self.rest])?;
        // Queries of web servers may contain signatures.
        match shown.find(['?', '#']).filter(|_| self.is_web()) {
            Some(end) => write!(f, "{}?...", &shown[..end]),
            None => f.write_str(shown),
        }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::{Address, Scheme};

    #[test]
    fn an_address_that_names_no_model_has_a_problem() {
        for uri in [
            "hf://Qwen",
            "hf://a/b/c",
            "file://./model",
            "file://model",
            "s3://",
            "s3:///m",
            "gs://",
            "pvc://",
            "pvc://My_Claim/m",
            "pvc://claim-/m",
            "https://huggingface.co/a/b",
            "https://huggingface.co/a/b/blob/main/model.safetensors",
            "https://",
            "https://host",
            "https://host/a/?b=c/d",
            "http:///m",
            "oci://host/a/b:",
            "oci://host/A/b",
            "oci+native://host/a@sha256:abc",
            "oci://https://host/a",
        ] {
            assert!(Address::parse(uri).problem().is_some(), "{uri}");
        }
        for uri in [
            "hf://a/b:v1",
            "file:///mnt/m",
            "s3://bucket",
            "gs://bucket/m",
            "pvc://claim-1.x/m",
            "https://huggingface.co/a/b/resolve/main/m.gguf",
            "https://host/m.tar",
            "oci://host/image",
            "no-scheme",
        ] {
            assert_eq!(Address::parse(uri).problem(), None, "{uri}");
        }
    }

    #[test]
    fn a_page_of_the_hub_a_bare_name_and_an_image_with_two_schemes_mean_a_model() {
        for (uri, meant) in [
            ("https://huggingface.co/a/b", Some("hf://a/b")),
            ("https://hf.co/a/b/", Some("hf://a/b")),
            ("https://huggingface.co/a/b/tree/main", Some("hf://a/b")),
            ("https://huggingface.co/a/b/tree/v1", Some("hf://a/b:v1")),
            ("https://huggingface.co/a/b/blob/main/c/m.safetensors?download=true", Some("hf://a/b")),
            (
                "https://huggingface.co/a/b/blob/main/c/m.gguf",
                Some("https://huggingface.co/a/b/resolve/main/c/m.gguf"),
            ),
            ("oci://https://host/a:v1", Some("oci://host/a:v1")),
            ("oci://host/A", None),
            ("huggingface.co/a/b", Some("hf://a/b")),
            ("a/b", Some("hf://a/b")),
            ("https://huggingface.co/a/b/resolve/main/m.gguf", None),
            ("https://example.org/a/b", None),
            ("/mnt/models", None),
            ("hf://a/b", None),
            ("a", None),
        ] {
            assert_eq!(Address::parse(uri).meant().as_deref(), meant, "{uri}");
        }
    }

    #[test]
    fn a_model_of_the_hub_has_a_repository_and_a_revision() {
        for (uri, repository, revision) in [
            ("hf://a/b", "a/b", "main"),
            ("hf://a/b:", "a/b", "main"),
            ("hf://a/b.c_d-e:v1", "a/b.c_d-e", "v1"),
            ("hf://a/b:refs/pr/1", "a/b", "refs/pr/1"),
            ("hf://a/b:x:y", "a/b", "x:y"),
        ] {
            assert_eq!(Address::parse(uri).hub_model(), Ok((repository, revision)));
        }
        let long = format!("hf://a/{}", "b".repeat(97));
        for uri in [
            "hf://a",
            "hf:///b",
            "hf://a/",
            "hf://a/:r",
            "hf://a/b/c",
            "hf://a/b@r",
            "hf://a/b--c",
            "hf://-a/b",
            "hf://a/b.",
            "hf://a/..",
            "hf://a/b:../x",
            "hf://ä/b",
            long.as_str(),
            "s3://a/b",
        ] {
            assert!(Address::parse(uri).hub_model().is_err(), "{uri}");
        }
    }

    #[test]
    fn an_address_has_parts() {
        for (uri, scheme, host, path, credentials) in [
            ("s3://b/k/l?x#y", Scheme::S3, "b", "k/l?x#y", None),
            ("s3://b?x/k", Scheme::S3, "b?x", "k", None),
            ("s3://key:secret@b/k", Scheme::S3, "b", "k", Some("key:secret")),
            ("gs://b", Scheme::Gcs, "b", "", None),
            ("pvc://claim/a/b", Scheme::Claim, "claim", "a/b", None),
            ("https://u:p@ss@h:8/a", Scheme::Https, "h:8", "a", Some("u:p@ss")),
            ("oci://image@sha256:0", Scheme::Oci, "image@sha256:0", "", None),
            ("oci://u:p@host:5000", Scheme::Oci, "host:5000", "", Some("u:p")),
            ("oci+native://u:p@host/i@sha256:0", Scheme::OciNative, "host", "i@sha256:0", Some("u:p")),
            ("file:///a@b/c", Scheme::File, "", "a@b/c", None),
            ("HF://a/b", Scheme::Other, "a", "b", None),
            ("/mnt/a@b", Scheme::Absent, "", "mnt/a@b", None),
            ("a@b", Scheme::Absent, "a@b", "", None),
        ] {
            let address = Address::parse(uri);
            let parts = (address.scheme(), address.host(), address.path(), address.credentials());
            assert_eq!(parts, (scheme, host, path, credentials), "{uri}");
            assert_eq!(address.as_str(), uri);
        }
    }

    #[test]
    fn credentials_and_queries_are_not_shown() {
        for (address, shown) in [
            ("https://u:p@h:8/a/b", "https://h:8/a/b"),
            ("https://h/a?X-Amz-Signature=s#f", "https://h/a?..."),
            ("https://h?x@y/z", "https://h?..."),
            ("https://u:p@ss@h/a", "https://h/a"),
            ("https://h/a@b", "https://h/a@b"),
            ("s3://key:secret@b", "s3://b"),
            ("s3://b/a?b#c", "s3://b/a?b#c"),
            ("oci://image@sha256:0", "oci://image@sha256:0"),
            ("oci://u:p@h", "oci://h"),
            ("oci+native://u:p@h:5000", "oci+native://h:5000"),
            ("ftp://u:p@h/a", "ftp://h/a"),
            ("/mnt/x?y", "/mnt/x?y"),
        ] {
            let address = Address::parse(address);
            assert_eq!(
                (address.to_string(), format!("{address:?}")),
                (shown.into(), format!("Address({shown})"))
            );
        }
    }
}
