//! The registry of the resources that are served at this moment.

use std::{cmp::Ordering, collections::HashMap, sync::Arc};

use indexmap::IndexMap;
use parking_lot::RwLock;
use serde_json::Value;

use super::{Resource, builtin};

/// Converts an object of a custom resource in place to an `apiVersion`, or returns why it cannot. The object may be a part
/// of an object: server-side apply also converts the remainder of an object from which some fields were removed.
pub type Convert = fn(object: &mut Value, api_version: &str) -> Result<(), String>;

/// Group → versions → resources, in the order of discovery.
pub type Groups = IndexMap<String, IndexMap<String, Vec<Arc<Resource>>>>;

/// All served resources: the built-in rows, and the versions of established custom resource definitions.
#[derive(Debug)]
pub struct Registry {
    inner: RwLock<Inner>,
    /// Groups whose objects are converted in this process, whatever the conversion strategy of their definitions is.
    conversions: RwLock<HashMap<String, Convert>>,
}

#[derive(Debug, Default)]
struct Inner {
    by_path: HashMap<(String, String, String), Arc<Resource>>,
    groups: Groups,
    custom: IndexMap<String, Vec<Arc<Resource>>>,
    /// Incremented at each change, for ETags.
    generation: u64,
}

// === impl Registry ===

impl Default for Registry {
    fn default() -> Self {
        let registry = Self { inner: RwLock::default(), conversions: RwLock::default() };
        registry.inner.write().rebuild();
        registry
    }
}

impl Registry {
    /// The resource at `/apis/<group>/<version>/<plural>` (`/api/v1/…` for the empty group).
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Resource>> {
        let key = (group.to_owned(), version.to_owned(), plural.to_owned());
        self.inner.read().by_path.get(&key).cloned()
    }

    /// The resource of a kind in `group/version`.
    pub fn find_kind(&self, api_version: &str, kind: &str) -> Option<Arc<Resource>> {
        let (group, version) = split_api_version(api_version);
        let inner = self.inner.read();
        let resources = inner.groups.get(group)?.get(version)?;
        resources.iter().find(|r| r.kind == kind).cloned()
    }

    /// Groups with their versions and resources in the order of discovery, the preferred version first.
    pub fn groups(&self) -> Groups {
        self.inner.read().groups.clone()
    }

    /// A number that changes whenever the set of served resources changes.
    pub fn generation(&self) -> u64 {
        self.inner.read().generation
    }

    /// Registers an in-process conversion for the custom resources of `group`.
    pub fn convert_with(&self, group: &str, convert: Convert) {
        self.conversions.write().insert(group.to_owned(), convert);
    }

    /// Returns the in-process conversion of `group`, if there is one.
    pub fn conversion_of(&self, group: &str) -> Option<Convert> {
        self.conversions.read().get(group).copied()
    }

    /// Serves these resources for the definition `crd_name` from now on.
    pub fn put_custom(&self, crd_name: &str, resources: Vec<Resource>) {
        let mut inner = self.inner.write();
        inner.custom.insert(crd_name.to_owned(), resources.into_iter().map(Arc::new).collect());
        inner.rebuild();
    }

    /// Stops serving the definition `crd_name`.
    pub fn remove_custom(&self, crd_name: &str) {
        let mut inner = self.inner.write();
        if inner.custom.shift_remove(crd_name).is_some() {
            inner.rebuild();
        }
    }

    /// Returns one resource for each table. Garbage collection and namespace deletion iterate over them.
    pub fn tables(&self) -> Vec<Arc<Resource>> {
        let mut seen: IndexMap<Arc<str>, Arc<Resource>> = IndexMap::new();
        let inner = self.inner.read();
        for resource in inner.groups.values().flat_map(IndexMap::values).flatten() {
            if resource.verbs.iter().any(|v| v == "list") {
                seen.entry(Arc::clone(&resource.table)).or_insert_with(|| Arc::clone(resource));
            }
        }
        seen.into_values().collect()
    }
}

// === impl Inner ===

impl Inner {
    fn rebuild(&mut self) {
        let mut groups = Groups::new();
        let built_in = builtin::TABLE.iter().map(|row| Arc::new(row.resource()));
        for resource in built_in.chain(self.custom.values().flatten().cloned()) {
            let versions = groups.entry(resource.group.clone()).or_default();
            versions.entry(resource.version.clone()).or_default().push(resource);
        }
        for (group, versions) in &mut groups {
            if !builtin::TABLE.iter().any(|row| row.group == group) {
                versions.sort_by(|a, _, b, _| version_order(b, a));
            }
            for resources in versions.values_mut() {
                resources.sort_by(|a, b| a.plural.cmp(&b.plural));
            }
        }
        self.by_path = groups
            .values()
            .flat_map(IndexMap::values)
            .flatten()
            .map(|r| ((r.group.clone(), r.version.clone(), r.plural.clone()), Arc::clone(r)))
            .collect();
        self.groups = groups;
        self.generation += 1;
    }
}

/// Splits `group/version`; the group is empty for core.
pub fn split_api_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

/// Compares versions in the Kubernetes order: v2 > v1 > v1beta2 > v1beta1 > v1alpha1 > anything else.
pub(super) fn version_order(a: &str, b: &str) -> Ordering {
    match (parse_version(a), parse_version(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(_), None) => Ordering::Greater,
        (None, Some(_)) => Ordering::Less,
        (None, None) => b.cmp(a),
    }
}

fn parse_version(version: &str) -> Option<(u8, u32, u32)> {
    let rest = version.strip_prefix('v')?;
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let major: u32 = rest[..digits].parse().ok()?;
    let rest = &rest[digits..];
    if rest.is_empty() {
        return Some((2, major, 0));
    }
    let (stage, minor) = if let Some(minor) = rest.strip_prefix("beta") {
        (1, minor)
    } else {
        (0, rest.strip_prefix("alpha")?)
    };
    Some((stage, major, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stable_versions_come_before_beta_before_alpha() {
        let mut versions = vec!["v1alpha1", "v1", "odd", "v2beta1", "v2", "v1beta1"];
        versions.sort_by(|a, b| version_order(b, a));
        assert_eq!(versions, ["v2", "v1", "v2beta1", "v1beta1", "v1alpha1", "odd"]);
    }
}
