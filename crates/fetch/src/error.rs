//! Why a model could not be downloaded, in one sentence for the termination message.

use std::{fmt, io, path::PathBuf};

/// A failed fetch. The texts of refused, missing and unreachable sources are those of the reference, which alerts match.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The arguments are not pairs of a source and a folder.
    #[error("expected pairs of a source and a folder: SOURCE DEST [SOURCE DEST ...]")]
    Usage,
    /// No source handles the address.
    #[error("Cannot recognize storage type for {uri}: expected one of {known}")]
    UnknownScheme {
        /// The address, redacted.
        uri: String,
        /// The known forms.
        known: String,
    },
    /// The address cannot be used.
    #[error("cannot use source `{uri}`: {why}")]
    Address {
        /// The address, redacted.
        uri: String,
        /// What is wrong, and what was expected.
        why: String,
    },
    /// The path of an HTTP address ends with a slash, so it names no file.
    #[error("No filename contained in URI: {uri}")]
    NoFileName {
        /// The address, redacted.
        uri: String,
    },
    /// The configured endpoint of a store is not an HTTP address.
    #[error("{protocol} error: Invalid endpoint: {endpoint}")]
    Endpoint {
        /// The protocol of the store.
        protocol: Protocol,
        /// The configured text, redacted.
        endpoint: String,
    },
    /// The configured file of certificates does not exist.
    #[error("Failed to find ca bundle file({})", path.display())]
    NoBundle {
        /// The file.
        path: PathBuf,
    },
    /// A store refuses the credentials, or a request without credentials.
    #[error("{protocol} error [403]: Forbidden: {why}")]
    Forbidden {
        /// The protocol of the store.
        protocol: Protocol,
        /// Why, and what to do.
        why: String,
    },
    /// The server requires other credentials, or any credentials.
    #[error("{}", protocol.authentication(resource))]
    Authentication {
        /// The protocol of the server.
        protocol: Protocol,
        /// The requested resource.
        resource: String,
    },
    /// The credentials do not allow it.
    #[error("{}", protocol.denied(resource))]
    Denied {
        /// The protocol of the server.
        protocol: Protocol,
        /// The requested resource.
        resource: String,
    },
    /// The resource does not exist.
    #[error("{}", protocol.not_found(resource))]
    NotFound {
        /// The protocol of the server.
        protocol: Protocol,
        /// The requested resource.
        resource: String,
    },
    /// The server does not answer, or not in time.
    #[error("{}: {why}", protocol.unreachable(resource))]
    Unreachable {
        /// The protocol of the server.
        protocol: Protocol,
        /// The requested resource.
        resource: String,
        /// The last failure.
        why: String,
    },
    /// Another HTTP status.
    #[error("{}", protocol.status(resource, *status))]
    Status {
        /// The protocol of the server.
        protocol: Protocol,
        /// The requested resource.
        resource: String,
        /// The HTTP status.
        status: u16,
    },
    /// A response that cannot be used.
    #[error("{protocol} error for '{resource}': {why}")]
    Answer {
        /// The protocol of the server.
        protocol: Protocol,
        /// The requested resource.
        resource: String,
        /// What is wrong with the response.
        why: String,
    },
    /// The source has no file that the patterns select.
    #[error("Failed to fetch model. No model found in {source_uri}.")]
    Empty {
        /// The address, redacted.
        source_uri: String,
    },
    /// The source has files, and the patterns select none of them.
    #[error("{}", none_selected(source_uri, allow, ignore, files))]
    NoneSelected {
        /// The address, redacted.
        source_uri: String,
        /// The allowed patterns, or nothing.
        allow: String,
        /// The ignored patterns, or nothing.
        ignore: String,
        /// The names of the first files.
        files: String,
    },
    /// A file of the source has a name that cannot be used below the folder.
    #[error("refused file name `{name}` of the source: {why}")]
    Name {
        /// The name.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// The content differs from the one that the source announced.
    #[error("`{file}` differs from what the source announced: {why}")]
    Content {
        /// The file.
        file: String,
        /// The difference.
        why: String,
    },
    /// The volume is too small.
    #[error("not enough space in `{}`: {needed} bytes are needed and {free} are free", folder.display())]
    Space {
        /// The target.
        folder: PathBuf,
        /// Bytes that must still arrive.
        needed: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// The server did not announce the size of a file, and the volume is almost full.
    #[error(
        "`{file}` has no announced size, and did not end after {written} bytes: stopped because only {free} bytes are free in `{}`",
        folder.display()
    )]
    Endless {
        /// The file.
        file: String,
        /// Bytes that have arrived.
        written: u64,
        /// The target.
        folder: PathBuf,
        /// Bytes that are free.
        free: u64,
    },
    /// An archive cannot be unpacked, or is not allowed.
    #[error("Failed to unpack archive file `{archive}`. {why}")]
    Archive {
        /// The archive.
        archive: String,
        /// What is wrong with it.
        why: String,
    },
    /// An environment variable cannot be used, or a file that it names.
    #[error("cannot use {name}: {why}")]
    Setting {
        /// The variable.
        name: String,
        /// What is wrong, and what was expected.
        why: String,
    },
    /// A local source does not exist.
    #[error("Local path {uri} does not exist.")]
    NoLocalPath {
        /// The source, as it was given.
        uri: String,
    },
    /// A path on a PersistentVolumeClaim does not exist.
    #[error("Cannot locate source uri {uri} for PVC")]
    NoClaimPath {
        /// The source.
        uri: String,
    },
    /// The network must not be used, and there is no complete copy on this machine.
    #[error(
        "offline mode (`--offline` or HF_HUB_OFFLINE) forbids the network, and `{source_uri}` is not \
         completely on this machine, or was changed"
    )]
    Offline {
        /// The address, redacted.
        source_uri: String,
    },
    /// A file or folder cannot be read or written.
    #[error("cannot {action} `{}`: {source}", path.display())]
    File {
        /// The failed operation.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

/// The kinds of sources. They select the words of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// The Hugging Face hub.
    HuggingFace,
    /// S3 and compatible stores.
    S3,
    /// Google Cloud Storage.
    Gcs,
    /// A web server.
    Http,
    /// An OCI registry.
    Oci,
}

// === impl Protocol ===

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::HuggingFace => "HuggingFace",
            Self::S3 => "S3",
            Self::Gcs => "GCS",
            Self::Http => "HTTP",
            Self::Oci => "OCI",
        })
    }
}

impl Protocol {
    fn authentication(self, resource: &str) -> String {
        match self {
            // The hub has the same answer for a repository that does not exist and for a private one.
            Self::HuggingFace => format!(
                "HuggingFace authentication failed. Set HF_TOKEN or request access to the gated repository. \
                 Without access, the hub does not say whether '{resource}' exists: check its name, too."
            ),
            Self::S3 => "S3 authentication failed. Set AWS_ACCESS_KEY_ID/AWS_SECRET_ACCESS_KEY or use \
                         awsAnonymousCredential=true."
                .into(),
            Self::Gcs => {
                "GCS authentication failed. Verify GOOGLE_APPLICATION_CREDENTIALS or use anonymous access."
                    .into()
            }
            Self::Http => format!("HTTP authentication failed for '{resource}'. Verify credentials."),
            Self::Oci => format!("OCI authentication failed for '{resource}'. Verify the image pull secret."),
        }
    }

    fn denied(self, resource: &str) -> String {
        match self {
            Self::Http => format!("HTTP access denied for '{resource}'. Verify permissions."),
            _ => format!("Access denied to {self} resource '{resource}'. Verify permissions."),
        }
    }

    fn not_found(self, resource: &str) -> String {
        match self {
            Self::Http => format!("HTTP resource not found at '{resource}'."),
            _ => format!("{self} resource '{resource}' not found."),
        }
    }

    fn unreachable(self, resource: &str) -> String {
        format!("Failed to connect to {self} endpoint '{resource}'")
    }

    fn status(self, resource: &str, status: u16) -> String {
        match self {
            Self::Http => format!("HTTP request to '{resource}' failed with status code {status}."),
            _ => format!("{self} error [{status}] for '{resource}'."),
        }
    }
}

/// The sentence that alerts match comes first.
fn none_selected(source_uri: &str, allow: &str, ignore: &str, files: &str) -> String {
    let patterns = [("STORAGE_ALLOW_PATTERNS", allow), ("STORAGE_IGNORE_PATTERNS", ignore)];
    let patterns: Vec<String> = patterns
        .into_iter()
        .filter(|(_, patterns)| !patterns.is_empty())
        .map(|(variable, patterns)| format!("{variable} `{patterns}`"))
        .collect();
    format!(
        "Failed to fetch model. No model found in {source_uri}. {} selects none of its files, which are {files}.",
        patterns.join(" with ")
    )
}

// === impl FetchError ===

impl FetchError {
    /// A setting that cannot be used, and why.
    pub(crate) fn setting(name: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Setting { name: name.into(), why: why.into() }
    }

    /// An address that cannot be used, and why.
    pub(crate) fn address(uri: impl fmt::Display, why: impl Into<String>) -> Self {
        Self::Address { uri: uri.to_string(), why: why.into() }
    }

    /// Adds the operation and the path to an I/O error.
    pub(crate) fn file(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { action, path, source }
    }
}
