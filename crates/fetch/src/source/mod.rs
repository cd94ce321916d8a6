//! The model sources. A new source is its [`Scheme`], which also planning and validation read, one file below `source/`, and one
//! line in [`SOURCES`].

mod bucket;
mod gcs;
mod gcs_credentials;
mod hub;
mod hub_cache;
mod hub_wire;
mod oci;
mod oci_auth;
mod oci_manifest;
mod pages;
mod s3;
mod s3_checksum;
mod s3_credentials;
mod s3_list;
mod s3_sign;
mod web;

use std::sync::Arc;

use longboat_download::address::{Address, Scheme};

pub use self::{
    gcs::objects as gcs_objects,
    hub_wire::{Model, Tree},
    oci::image as oci_image,
    oci_auth::Challenge,
    oci_manifest::{Layers, Manifest},
    s3::bucket as s3_bucket,
    s3_checksum::parts_of as s3_parts,
    s3_list::Page,
};
use crate::{FetchError, remote::Source, settings::Settings};

/// Creates a source from an address.
type SourceFactory = fn(&Address, &Settings) -> Result<Arc<dyn Source>, FetchError>;

/// The schemes of addresses, and the function that creates the source of each.
const SOURCES: [(Scheme, SourceFactory); 6] = [
    (Scheme::HuggingFace, hub::start),
    (Scheme::S3, s3::start),
    (Scheme::Gcs, gcs::start),
    (Scheme::Oci, oci::start),
    (Scheme::Https, web::start),
    (Scheme::Http, web::start),
];

/// Creates the source of a remote address.
pub(crate) fn start(address: &Address, settings: &Settings) -> Result<Arc<dyn Source>, FetchError> {
    let Some((_, start)) = SOURCES.iter().find(|(scheme, _)| *scheme == address.scheme()) else {
        let known: String =
            SOURCES.iter().flat_map(|(scheme, _)| [scheme.to_string(), "://, ".into()]).collect();
        let known = format!("{known}file:// or a path");
        return Err(FetchError::UnknownScheme { uri: address.to_string(), known });
    };
    start(address, settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_show_no_credentials_of_addresses() {
        for uri in [
            "s3://key:s3cr3t@bucket/m",
            "gs://key:s3cr3t@bucket/m",
            "hf://user:s3cr3t@owner/m",
            "oci://user:s3cr3t@host:5000/m",
            "oci+native://user:s3cr3t@host/m",
            "https://user:s3cr3t@host/",
            "https://host/?signature=s3cr3t",
        ] {
            let Err(error) = start(&Address::parse(uri), &Settings::default()) else { panic!("{uri}") };
            assert!(!format!("{error} {error:?}").contains("s3cr3t"), "{error}");
        }
    }
}
