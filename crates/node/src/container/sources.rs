//! The ConfigMaps and Secrets that a pod refers to. They are read once per preparation of a container.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Client};

/// Objects of one namespace by name. The value is `None` if the object does not exist.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    config_maps: BTreeMap<String, Option<ConfigMap>>,
    secrets: BTreeMap<String, Option<Secret>>,
}

/// The names to read.
#[derive(Debug, Default)]
pub(crate) struct SourceNames {
    pub(crate) config_maps: Vec<String>,
    pub(crate) secrets: Vec<String>,
}

impl Sources {
    /// Reads the objects in `wanted` that were not read yet.
    pub(crate) async fn load(
        &mut self,
        client: &Client,
        namespace: &str,
        wanted: SourceNames,
    ) -> Result<(), kube::Error> {
        for name in wanted.config_maps {
            if let Entry::Vacant(entry) = self.config_maps.entry(name) {
                let found = Api::namespaced(client.clone(), namespace).get_opt(entry.key()).await?;
                entry.insert(found);
            }
        }
        for name in wanted.secrets {
            if let Entry::Vacant(entry) = self.secrets.entry(name) {
                let found = Api::namespaced(client.clone(), namespace).get_opt(entry.key()).await?;
                entry.insert(found);
            }
        }
        Ok(())
    }

    pub(crate) fn config_map(&self, name: &str) -> Option<&ConfigMap> {
        self.config_maps.get(name).and_then(Option::as_ref)
    }

    pub(crate) fn secret(&self, name: &str) -> Option<&Secret> {
        self.secrets.get(name).and_then(Option::as_ref)
    }

    #[cfg(test)]
    pub(crate) fn of(config_maps: Vec<ConfigMap>, secrets: Vec<Secret>) -> Self {
        Self {
            config_maps: config_maps
                .into_iter()
                .map(|o| (o.metadata.name.clone().unwrap(), Some(o)))
                .collect(),
            secrets: secrets.into_iter().map(|o| (o.metadata.name.clone().unwrap(), Some(o))).collect(),
        }
    }
}
