//! The ConfigMaps and Secrets that a pod refers to. They are read once per preparation of a container.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Client};

/// A kind of object with data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SourceKind {
    ConfigMap,
    Secret,
}

/// The data of an object.
#[derive(Debug, Default)]
pub(crate) struct Source {
    pub(crate) data: BTreeMap<String, Vec<u8>>,
    /// `binaryData`, which is no text.
    pub(crate) binary: BTreeMap<String, ByteString>,
}

/// Objects of one namespace by kind and name. The value is `None` if the object does not exist.
#[derive(Debug, Default)]
pub(crate) struct Sources(BTreeMap<SourceKey, Option<Source>>);

/// The kind and the name of an object.
pub(crate) type SourceKey = (SourceKind, String);

impl SourceKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
        }
    }

    /// The name as the kubelet writes it where the object is missing.
    pub(crate) fn lower_case(self) -> &'static str {
        match self {
            Self::ConfigMap => "configmap",
            Self::Secret => "secret",
        }
    }
}

impl From<ConfigMap> for Source {
    fn from(map: ConfigMap) -> Self {
        let data = map.data.into_iter().flatten().map(|(key, value)| (key, value.into_bytes()));
        Self { data: data.collect(), binary: map.binary_data.unwrap_or_default() }
    }
}

impl From<Secret> for Source {
    fn from(secret: Secret) -> Self {
        let data = secret.data.into_iter().flatten().map(|(key, value)| (key, value.0));
        Self { data: data.collect(), ..Self::default() }
    }
}

impl Sources {
    /// Reads each object in `wanted` once.
    pub(crate) async fn load(
        client: &Client,
        namespace: &str,
        wanted: Vec<SourceKey>,
    ) -> Result<Self, kube::Error> {
        let mut all = BTreeMap::new();
        for key in wanted {
            let Entry::Vacant(entry) = all.entry(key) else { continue };
            let (kind, name) = entry.key();
            let found = match kind {
                SourceKind::ConfigMap => Api::<ConfigMap>::namespaced(client.clone(), namespace)
                    .get_opt(name)
                    .await?
                    .map(Into::into),
                SourceKind::Secret => {
                    Api::<Secret>::namespaced(client.clone(), namespace).get_opt(name).await?.map(Into::into)
                }
            };
            entry.insert(found);
        }
        Ok(Self(all))
    }

    pub(crate) fn get(&self, kind: SourceKind, name: &str) -> Option<&Source> {
        self.0.get(&(kind, name.to_owned()))?.as_ref()
    }

    #[cfg(test)]
    pub(crate) fn of(maps: Vec<ConfigMap>, secrets: Vec<Secret>) -> Self {
        use kube::ResourceExt;

        let maps = maps.into_iter().map(|map| ((SourceKind::ConfigMap, map.name_any()), Some(map.into())));
        let secrets =
            secrets.into_iter().map(|secret| ((SourceKind::Secret, secret.name_any()), Some(secret.into())));
        Self(maps.chain(secrets).collect())
    }
}
