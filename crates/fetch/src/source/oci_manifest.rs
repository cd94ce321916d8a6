//! The data of an OCI registry about a model: indexes, manifests, and the layouts of models in them.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::{
    digest::{Algorithm, Digest},
    filter::Filter,
    remote::{Identity, Members, Placement, RemoteFile},
};

/// Most layers of a model.
const MAX_LAYERS: usize = 10_000;

/// A manifest, or an index of manifests.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Manifest {
    artifact_type: Option<String>,
    config: Option<Descriptor>,
    layers: Vec<Descriptor>,
    manifests: Vec<Descriptor>,
}

/// A blob or a manifest.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Descriptor {
    media_type: String,
    digest: String,
    size: u64,
    annotations: BTreeMap<String, String>,
    platform: Option<Platform>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Platform {
    os: String,
    architecture: String,
}

/// The layouts of models in a registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    /// An image with the model below `/models`.
    Image,
    /// Files and archives, each with its media type: ModelPack, KitOps, Docker's models.
    Artifact,
    /// Files with their names in annotations, as ORAS writes them.
    Files,
}

/// The wanted layers of a model.
#[derive(Debug)]
pub struct Layers(pub(crate) Vec<RemoteFile>);

// === impl Manifest ===

impl Manifest {
    /// Reads a manifest or an index.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let manifest: Self =
            serde_json::from_slice(text).map_err(|error| format!("cannot read the manifest: {error}"))?;
        if manifest.layers.len().max(manifest.manifests.len()) > MAX_LAYERS {
            return Err(format!("it has more than {MAX_LAYERS} layers"));
        }
        Ok(manifest)
    }

    /// If this is an index, returns the digest of the manifest for this architecture.
    pub fn of_platform(&self, architecture: &str) -> Result<Option<String>, String> {
        if self.manifests.is_empty() {
            return Ok(None);
        }
        let fits = |platform: &Platform| platform.os == "linux" && platform.architecture == architecture;
        // Artifacts are for every platform, and have no platform field.
        let found = self
            .manifests
            .iter()
            .find(|manifest| manifest.platform.as_ref().is_some_and(fits))
            .or_else(|| self.manifests.iter().find(|manifest| manifest.platform.is_none()));
        let found = found.ok_or_else(|| format!("the index has no manifest for linux/{architecture}"))?;
        // A manifest with another digest could not be verified.
        let digest = Digest::parse(&found.digest).filter(|digest| digest.algorithm == Algorithm::Sha256);
        let digest = digest.ok_or_else(|| {
            let shown = crate::names::shown(&found.digest);
            format!("the index has a manifest with the digest `{shown}`; expected sha256")
        })?;
        Ok(Some(digest.to_string()))
    }

    /// Whether this is an index, which lists manifests and has no layers.
    pub(crate) fn is_index(&self) -> bool {
        !self.manifests.is_empty()
    }

    fn layout(&self) -> Layout {
        let config = self.config.as_ref().map_or("", |config| config.media_type.as_str());
        let artifact = self.artifact_type.as_deref().unwrap_or_default();
        let has = |text: &str| [config, artifact].iter().any(|kind| kind.starts_with(text));
        if has("application/vnd.cncf.model.")
            || has("application/vnd.cnai.model.")
            || has("application/vnd.kitops.")
            || has("application/vnd.jozu.")
            || has("application/vnd.docker.ai.")
        {
            return Layout::Artifact;
        }
        let is_image = matches!(
            config,
            "application/vnd.oci.image.config.v1+json" | "application/vnd.docker.container.image.v1+json"
        );
        let are_layers = self.layers.iter().all(|layer| is_layer(&layer.media_type));
        if is_image && are_layers && artifact.is_empty() { Layout::Image } else { Layout::Files }
    }

    /// Returns the wanted layers with their paths.
    pub fn layers(&self, filter: &Filter) -> Result<Layers, String> {
        let layout = self.layout();
        let mut files = Vec::new();
        for layer in &self.layers {
            let Some((path, placement)) = place(layer, layout, filter)? else { continue };
            if placement == Placement::File && !filter.wants(&path) {
                continue;
            }
            let digest = Digest::parse(&layer.digest).filter(|digest| digest.algorithm == Algorithm::Sha256);
            let shown = crate::names::shown(&layer.digest);
            let digest =
                digest.ok_or_else(|| format!("a layer has the digest `{shown}`; expected sha256"))?;
            let mut file = RemoteFile::new(path, &layer.digest);
            // The same blob under two names counts as two files.
            let place = &placement;
            if files.iter().any(|other: &RemoteFile| {
                other.locator == file.locator && other.placement == *place && other.path == file.path
            }) {
                continue;
            }
            file.size = Some(layer.size);
            file.identity = Identity::Text(layer.digest.as_str().into());
            file.digest = Some(digest);
            file.placement = placement;
            files.push(file);
        }
        if files.is_empty() && !self.layers.is_empty() && *filter == Filter::default() {
            let mut kinds: Vec<String> =
                self.layers.iter().map(|layer| crate::names::shown(&layer.media_type)).collect();
            kinds.sort_unstable();
            kinds.dedup();
            kinds.truncate(8);
            return Err(format!(
                "no layer is part of a model; the types of the layers are {}",
                kinds.join(", ")
            ));
        }
        Ok(Layers(files))
    }
}

/// Whether a layer is one of an image.
fn is_layer(media_type: &str) -> bool {
    media_type.starts_with("application/vnd.oci.image.layer.v1.tar")
        || media_type.starts_with("application/vnd.oci.image.layer.nondistributable.v1.tar")
        || media_type.starts_with("application/vnd.docker.image.rootfs.")
}

/// Returns the path of a layer. Returns `None` if the layer is not part of the model.
fn place(layer: &Descriptor, layout: Layout, filter: &Filter) -> Result<Option<(String, Placement)>, String> {
    let annotation = |names: &[&str]| {
        names
            .iter()
            .find_map(|name| layer.annotations.get(*name))
            .map(|path| path.trim_start_matches("./").to_owned())
    };
    let all = Members { filter: filter.clone(), ..Members::default() };
    // A layer that is unpacked is not itself a file of the model, so its name is private.
    let private = || layer.digest.replace(':', "-");
    match layout {
        Layout::Image => {
            let members = Members { below: Some("models".into()), whiteouts: true, filter: filter.clone() };
            Ok(Some((private(), Placement::Archive(Box::new(members)))))
        }
        Layout::Artifact => {
            let kind = layer.media_type.as_str();
            let name = annotation(&[
                "org.cncf.model.filepath",
                "org.cnai.model.filepath",
                "org.opencontainers.image.title",
            ]);
            let is_tar = kind.split(['.', '+']).any(|part| part == "tar");
            if is_tar {
                return Ok(Some((private(), Placement::Archive(Box::new(all)))));
            }
            if let Some(name) = name {
                return Ok(Some((name, Placement::File)));
            }
            // The first version of Docker's models has no file names.
            let name = match kind {
                "application/vnd.docker.ai.gguf.v3" => "model.gguf",
                "application/vnd.docker.ai.license" => "LICENSE",
                kind if kind.starts_with("application/vnd.docker.ai.mmproj") => "mmproj.gguf",
                kind if kind.starts_with("application/vnd.docker.ai.chat.template") => "chat_template.jinja",
                kind if kind.starts_with("application/vnd.docker.ai.safetensors") => "model.safetensors",
                kind => {
                    let kind = crate::names::shown(kind);
                    return Err(format!("a layer of type `{kind}` has no file name"));
                }
            };
            Ok(Some((name.into(), Placement::File)))
        }
        Layout::Files => {
            let Some(name) = annotation(&["org.opencontainers.image.title"]) else { return Ok(None) };
            let unpack =
                layer.annotations.get("io.deis.oras.content.unpack").is_some_and(|value| value == "true");
            Ok(Some(if unpack {
                (private(), Placement::Archive(Box::new(all)))
            } else {
                (name, Placement::File)
            }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layers(text: &str) -> Result<Vec<(String, bool)>, String> {
        let text = text.replace("DIGEST", &format!("sha256:{}", "a".repeat(64)));
        let layers = Manifest::parse(text.as_bytes())?.layers(&Filter::default())?;
        Ok(layers
            .0
            .into_iter()
            .map(|file| (file.path.to_string(), file.placement != Placement::File))
            .collect())
    }

    #[test]
    fn every_layout_is_recognised() {
        let private = format!("sha256-{}", "a".repeat(64));
        for (text, expected) in [
            (
                r#"{"config":{"mediaType":"application/vnd.oci.image.config.v1+json"},
                "layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar+zstd","digest":"DIGEST"}]}"#,
                (private.as_str(), true),
            ),
            (
                r#"{"config":{"mediaType":"application/vnd.docker.container.image.v1+json"},
                "layers":[{"mediaType":"application/vnd.docker.image.rootfs.diff.tar","digest":"DIGEST"}]}"#,
                (&private, true),
            ),
            (
                r#"{"artifactType":"application/vnd.cncf.model.manifest.v1+json","config":{},
                "layers":[{"mediaType":"application/vnd.cncf.model.weight.v1.raw","digest":"DIGEST",
                "annotations":{"org.cncf.model.filepath":"d/w"}}]}"#,
                ("d/w", false),
            ),
            (
                r#"{"config":{"mediaType":"application/vnd.kitops.modelkit.config.v1+json"},
                "layers":[{"mediaType":"application/vnd.kitops.modelkit.model.v1.tar+gzip","digest":"DIGEST"}]}"#,
                (&private, true),
            ),
            (
                r#"{"config":{"mediaType":"application/vnd.docker.ai.model.config.v0.1+json"},
                "layers":[{"mediaType":"application/vnd.docker.ai.gguf.v3","digest":"DIGEST"}]}"#,
                ("model.gguf", false),
            ),
            (
                r#"{"config":{"mediaType":"application/vnd.oci.empty.v1+json"},
                "layers":[{"mediaType":"text/plain","digest":"DIGEST",
                "annotations":{"org.opencontainers.image.title":"a.txt"}}]}"#,
                ("a.txt", false),
            ),
        ] {
            assert_eq!(layers(text).unwrap(), [(expected.0.to_owned(), expected.1)]);
        }
        let ollama = r#"{"config":{},"layers":[{"mediaType":"application/vnd.ollama.image.model","digest":"DIGEST"}]}"#;
        assert!(layers(ollama).unwrap_err().contains("application/vnd.ollama.image.model"));
    }

    #[test]
    fn an_index_gives_the_manifest_of_the_platform() {
        let digest = format!("sha256:{}", "a".repeat(64));
        let text = r#"{"manifests":[{"digest":"../../x","platform":{"os":"linux","architecture":"s390x"}},
            {"digest":"DIGEST","platform":{"os":"linux","architecture":"amd64"}}]}"#;
        let index = Manifest::parse(text.replace("DIGEST", &digest).as_bytes()).unwrap();
        assert_eq!(index.of_platform("amd64"), Ok(Some(digest)));
        assert!(index.of_platform("s390x").unwrap_err().contains("`../../x`; expected sha256"));
        assert!(index.of_platform("arm64").unwrap_err().contains("linux/arm64"));
    }
}
