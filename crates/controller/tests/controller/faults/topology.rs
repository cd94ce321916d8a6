//! The shapes of services, as data.

use std::{fs, path::Path};

use serde_json::Value;

/// A service of one shape, with the objects to which it refers.
pub(super) struct Topology {
    /// The file's name.
    pub(super) name: String,
    objects: Vec<Value>,
}

// === impl Topology ===

impl Topology {
    /// Returns all topologies, or the one that `LONGBOAT_TOPOLOGY` names.
    pub(super) fn all() -> Vec<Self> {
        let only = std::env::var("LONGBOAT_TOPOLOGY").ok();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases/topology");
        let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        let mut all: Vec<Self> = files.iter().map(|path| Self::read(path)).collect();
        all.retain(|topology| only.as_ref().is_none_or(|only| *only == topology.name));
        assert!(!all.is_empty(), "no topology");
        all
    }

    fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap();
        let documents = text.split("\n---\n").filter(|text| !text.trim().is_empty());
        let objects = documents.map(|text| {
            serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        });
        Self { name: path.file_stem().unwrap().to_string_lossy().into_owned(), objects: objects.collect() }
    }

    /// Returns the objects in a namespace. Objects to which others refer come first.
    pub(super) fn objects(&self, namespace: &str) -> Vec<Value> {
        let mut objects = self.objects.clone();
        for object in &mut objects {
            object["metadata"]["namespace"] = namespace.into();
        }
        objects
    }

    /// The names of its services.
    pub(super) fn services(&self) -> Vec<String> {
        let services = self.objects.iter().filter(|object| object["kind"] == "LLMInferenceService");
        services.map(|service| service["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Whether the service in it is stopped.
    pub(super) fn is_stopped(&self) -> bool {
        self.name == "stopped"
    }
}
