//! The certificates that a source's connections trust.

use std::{path::Path, sync::Arc};

use rustls::ClientConfig;

use crate::{FetchError, settings::Settings};

/// The certificates for all sources but S3: those of the system, of `REQUESTS_CA_BUNDLE` and of the mounted bundle.
pub(crate) fn usual(settings: &Settings) -> Result<Arc<ClientConfig>, FetchError> {
    let mut pems = Vec::new();
    if let Some(bundle) = settings.ca_bundle() {
        pems.push(read("CA_BUNDLE_CONFIGMAP_NAME", &bundle)?);
    }
    if let Some(bundle) = settings.get("REQUESTS_CA_BUNDLE") {
        pems.push(read("REQUESTS_CA_BUNDLE", Path::new(bundle))?);
    }
    longboat_tls::extended_client_config(&pems)
        .map_err(|error| FetchError::setting("the CA bundle", error.to_string()))
}

/// The certificates for S3: `AWS_CA_BUNDLE` or the mounted bundle replaces those of the system. If `S3_VERIFY_SSL` is off,
/// nothing is verified.
pub(crate) fn s3(settings: &Settings) -> Result<Arc<ClientConfig>, FetchError> {
    if settings.is_off("S3_VERIFY_SSL") {
        tracing::warn!("S3_VERIFY_SSL is off, so the certificate of the S3 server is not checked.");
        return Ok(longboat_tls::insecure_client_config(&[]));
    }
    let bundle = settings.get("AWS_CA_BUNDLE").map(std::path::PathBuf::from).or_else(|| settings.ca_bundle());
    let Some(bundle) = bundle else { return usual(settings) };
    if !bundle.exists() {
        return Err(FetchError::NoBundle { path: bundle });
    }
    let pem = read("AWS_CA_BUNDLE", &bundle)?;
    longboat_tls::client_config(&pem, &[])
        .map_err(|error| FetchError::setting("AWS_CA_BUNDLE", format!("{}: {error}", bundle.display())))
}

fn read(name: &str, path: &Path) -> Result<String, FetchError> {
    std::fs::read_to_string(path)
        .map_err(|error| FetchError::setting(name, format!("cannot read `{}`: {error}", path.display())))
}
