//! The files of ConfigMap, Secret, downward API and projected volumes.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{DownwardAPIVolumeFile, KeyToPath, Pod, Volume};

use super::error::VolumeError;
use crate::container::env::{self, PodFacts};
use crate::container::sources::Sources;

/// A file of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct File {
    pub(super) bytes: Vec<u8>,
    pub(super) mode: u32,
}

/// Files by their path within the volume.
pub(super) type Files = BTreeMap<String, File>;

/// Returns the files of a volume, or `None` if the volume does not consist of files.
pub(super) fn of(
    volume: &Volume,
    pod: &Pod,
    sources: &Sources,
    facts: &PodFacts,
    tokens: &BTreeMap<String, String>,
) -> Result<Option<Files>, VolumeError> {
    let collector = Collector { volume: &volume.name, pod, sources, facts };
    let mut files = Files::new();
    if let Some(source) = &volume.config_map {
        let mode = mode(source.default_mode);
        collector.config_map(&mut files, &source.name, source.items.as_deref(), source.optional, mode)?;
    } else if let Some(source) = &volume.secret {
        let name = source.secret_name.as_deref().unwrap_or_default();
        collector.secret(
            &mut files,
            name,
            source.items.as_deref(),
            source.optional,
            mode(source.default_mode),
        )?;
    } else if let Some(source) = &volume.downward_api {
        collector.downward(&mut files, source.items.as_deref(), mode(source.default_mode))?;
    } else if let Some(projected) = &volume.projected {
        let mode = mode(projected.default_mode);
        for source in projected.sources.iter().flatten() {
            if let Some(source) = &source.config_map {
                collector.config_map(
                    &mut files,
                    &source.name,
                    source.items.as_deref(),
                    source.optional,
                    mode,
                )?;
            }
            if let Some(source) = &source.secret {
                collector.secret(&mut files, &source.name, source.items.as_deref(), source.optional, mode)?;
            }
            if let Some(source) = &source.downward_api {
                collector.downward(&mut files, source.items.as_deref(), mode)?;
            }
            if let Some(source) = &source.service_account_token {
                let token = tokens.get(source.audience.as_deref().unwrap_or_default());
                let bytes = token.map(|token| token.as_bytes().to_vec()).unwrap_or_default();
                files.insert(source.path.clone(), File { bytes, mode });
            }
            if source.cluster_trust_bundle.is_some() || source.pod_certificate.is_some() {
                return Err(VolumeError::Unsupported {
                    volume: volume.name.clone(),
                    message: "volumes from clusterTrustBundle and podCertificate need a cluster".to_owned(),
                });
            }
        }
    } else {
        return Ok(None);
    }
    Ok(Some(files))
}

fn mode(mode: Option<i32>) -> u32 {
    mode.and_then(|mode| u32::try_from(mode).ok()).unwrap_or(0o644) & 0o777
}

struct Collector<'a> {
    volume: &'a str,
    pod: &'a Pod,
    sources: &'a Sources,
    facts: &'a PodFacts,
}

impl Collector<'_> {
    fn config_map(
        &self,
        files: &mut Files,
        name: &str,
        items: Option<&[KeyToPath]>,
        optional: Option<bool>,
        mode: u32,
    ) -> Result<(), VolumeError> {
        let data = self.sources.config_map(name).map(|map| {
            let text = map.data.iter().flatten().map(|(key, value)| (key.as_str(), value.as_bytes()));
            let binary =
                map.binary_data.iter().flatten().map(|(key, value)| (key.as_str(), value.0.as_slice()));
            text.chain(binary).collect()
        });
        self.keys(files, "configmap", name, data, items, optional == Some(true), mode)
    }

    fn secret(
        &self,
        files: &mut Files,
        name: &str,
        items: Option<&[KeyToPath]>,
        optional: Option<bool>,
        mode: u32,
    ) -> Result<(), VolumeError> {
        let data = self.sources.secret(name).map(|secret| {
            secret.data.iter().flatten().map(|(key, value)| (key.as_str(), value.0.as_slice())).collect()
        });
        self.keys(files, "secret", name, data, items, optional == Some(true), mode)
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "the fields that ConfigMap and Secret sources share, of two types"
    )]
    fn keys(
        &self,
        files: &mut Files,
        kind: &'static str,
        name: &str,
        data: Option<BTreeMap<&str, &[u8]>>,
        items: Option<&[KeyToPath]>,
        optional: bool,
        default_mode: u32,
    ) -> Result<(), VolumeError> {
        let Some(data) = data else {
            return if optional {
                Ok(())
            } else {
                Err(VolumeError::Missing { volume: self.volume.to_owned(), kind, name: name.to_owned() })
            };
        };
        let Some(items) = items.filter(|items| !items.is_empty()) else {
            files
                .extend(data.into_iter().map(|(key, bytes)| {
                    (key.to_owned(), File { bytes: bytes.to_vec(), mode: default_mode })
                }));
            return Ok(());
        };
        for item in items {
            match data.get(item.key.as_str()) {
                Some(bytes) => {
                    let mode = item.mode.map_or(default_mode, |value| mode(Some(value)));
                    files.insert(item.path.clone(), File { bytes: bytes.to_vec(), mode });
                }
                None if optional => {}
                None => {
                    return Err(VolumeError::MissingKey {
                        volume: self.volume.to_owned(),
                        kind,
                        key: item.key.clone(),
                    });
                }
            }
        }
        Ok(())
    }

    fn downward(
        &self,
        files: &mut Files,
        items: Option<&[DownwardAPIVolumeFile]>,
        default_mode: u32,
    ) -> Result<(), VolumeError> {
        let field = |source| VolumeError::Field { volume: self.volume.to_owned(), source };
        for item in items.unwrap_or_default() {
            let value = if let Some(reference) = &item.field_ref {
                env::field_value(self.pod, &reference.field_path, self.facts).map_err(field)?
            } else if let Some(selector) = &item.resource_field_ref {
                env::resource_value(self.pod, None, selector).map_err(field)?
            } else {
                String::new()
            };
            let mode = item.mode.map_or(default_mode, |value| mode(Some(value)));
            files.insert(item.path.clone(), File { bytes: value.into_bytes(), mode });
        }
        Ok(())
    }
}
