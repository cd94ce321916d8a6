//! The files of ConfigMap, Secret, downward API and projected volumes.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{DownwardAPIVolumeFile, KeyToPath, Pod, Volume};

use super::error::SetUpProblem;
use crate::container::env::{self, EnvError, PodFacts};
use crate::container::sources::{SourceKind, Sources};

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
) -> Result<Option<Files>, SetUpProblem> {
    let mut collector = Collector { pod, sources, facts, mode: 0, files: Files::new() };
    if let Some(source) = &volume.config_map {
        collector.mode = mode(source.default_mode);
        collector.keys(SourceKind::ConfigMap, &source.name, source.items.as_deref(), source.optional)?;
    } else if let Some(source) = &volume.secret {
        collector.mode = mode(source.default_mode);
        let name = source.secret_name.as_deref().unwrap_or_default();
        collector.keys(SourceKind::Secret, name, source.items.as_deref(), source.optional)?;
    } else if let Some(source) = &volume.downward_api {
        collector.mode = mode(source.default_mode);
        collector.downward(source.items.as_deref())?;
    } else if let Some(projected) = &volume.projected {
        collector.mode = mode(projected.default_mode);
        for source in projected.sources.iter().flatten() {
            if let Some(source) = &source.config_map {
                collector.keys(
                    SourceKind::ConfigMap,
                    &source.name,
                    source.items.as_deref(),
                    source.optional,
                )?;
            }
            if let Some(source) = &source.secret {
                collector.keys(SourceKind::Secret, &source.name, source.items.as_deref(), source.optional)?;
            }
            if let Some(source) = &source.downward_api {
                collector.downward(source.items.as_deref())?;
            }
            if let Some(source) = &source.service_account_token {
                let token = tokens.get(source.audience.as_deref().unwrap_or_default());
                collector.add(&source.path, token.map_or(&[][..], String::as_bytes), None);
            }
            if source.cluster_trust_bundle.is_some() || source.pod_certificate.is_some() {
                let message = "volumes from clusterTrustBundle and podCertificate need a cluster";
                return Err(SetUpProblem::Unsupported(message.to_owned()));
            }
        }
    } else {
        return Ok(None);
    }
    Ok(Some(collector.files))
}

fn mode(mode: Option<i32>) -> u32 {
    mode.and_then(|mode| u32::try_from(mode).ok()).unwrap_or(0o644) & 0o777
}

/// Collects the files of one volume.
struct Collector<'a> {
    pod: &'a Pod,
    sources: &'a Sources,
    facts: &'a PodFacts,
    /// The mode of files without a mode of their own.
    mode: u32,
    files: Files,
}

impl Collector<'_> {
    fn add(&mut self, path: &str, bytes: &[u8], own_mode: Option<i32>) {
        let mode = own_mode.map_or(self.mode, |own| mode(Some(own)));
        self.files.insert(path.to_owned(), File { bytes: bytes.to_vec(), mode });
    }

    /// Adds the wanted keys of a ConfigMap or a Secret.
    fn keys(
        &mut self,
        kind: SourceKind,
        name: &str,
        items: Option<&[KeyToPath]>,
        optional: Option<bool>,
    ) -> Result<(), SetUpProblem> {
        let optional = optional == Some(true);
        let Some(source) = self.sources.get(kind, name) else {
            let missing = EnvError::Missing { kind, name: name.to_owned() };
            return if optional { Ok(()) } else { Err(missing.into()) };
        };
        let binary = source.binary.iter().map(|(key, value)| (key.as_str(), value.0.as_slice()));
        let data = source.data.iter().map(|(key, value)| (key.as_str(), value.as_slice()));
        let data: BTreeMap<&str, &[u8]> = data.chain(binary).collect();
        let Some(items) = items.filter(|items| !items.is_empty()) else {
            for (key, bytes) in data {
                self.add(key, bytes, None);
            }
            return Ok(());
        };
        for item in items {
            match data.get(item.key.as_str()) {
                Some(bytes) => self.add(&item.path, bytes, item.mode),
                None if optional => {}
                None => return Err(SetUpProblem::MissingKey { kind, key: item.key.clone() }),
            }
        }
        Ok(())
    }

    fn downward(&mut self, items: Option<&[DownwardAPIVolumeFile]>) -> Result<(), SetUpProblem> {
        for item in items.unwrap_or_default() {
            let value = if let Some(reference) = &item.field_ref {
                env::field_value(self.pod, &reference.field_path, self.facts)?
            } else if let Some(selector) = &item.resource_field_ref {
                env::resource_value(self.pod, None, selector)?
            } else {
                String::new()
            };
            self.add(&item.path, value.as_bytes(), item.mode);
        }
        Ok(())
    }
}
