//! Uid and resource version of an object.

use std::hash::{DefaultHasher, Hash, Hasher};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Distinguishes an object from earlier objects with the same name, and from its own earlier versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// A hash of its uid.
    uid: u64,
    resource: ResourceVersion,
}

/// The resource version, which is officially opaque. If both are numbers, as in practice, the smaller one is older.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ResourceVersion {
    Number(u64),
    Text(Option<Box<str>>),
}

/// A hash of a uid, or of its absence.
pub(crate) fn hash(uid: Option<&str>) -> u64 {
    let mut hasher = DefaultHasher::new();
    uid.hash(&mut hasher);
    hasher.finish()
}

// === impl Version ===

impl Version {
    /// The version of an object with this metadata.
    pub fn of(metadata: &ObjectMeta) -> Self {
        let text = metadata.resource_version.as_deref();
        let resource = match text.and_then(|text| text.parse().ok()) {
            Some(number) => ResourceVersion::Number(number),
            None => ResourceVersion::Text(text.map(Into::into)),
        };
        Self { uid: hash(metadata.uid.as_deref()), resource }
    }

    /// Whether both are versions of one object.
    pub(crate) fn is_same_object(&self, other: &Self) -> bool {
        self.uid == other.uid
    }

    /// Whether this version differs from `known` and is not older. Another object with the same name is always newer.
    pub fn is_newer(&self, known: &Self) -> bool {
        match (&self.resource, &known.resource) {
            _ if !self.is_same_object(known) => true,
            (ResourceVersion::Number(new), ResourceVersion::Number(old)) => new > old,
            (new, old) => new != old,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(uid: &str, version: Option<&str>) -> Version {
        Version::of(&ObjectMeta {
            uid: Some(uid.into()),
            resource_version: version.map(Into::into),
            ..ObjectMeta::default()
        })
    }

    #[test]
    fn numbers_are_compared_as_numbers_and_other_versions_only_differ() {
        let newer = |new, old| version("1", new).is_newer(&version("1", old));
        assert!(
            newer(Some("10"), Some("9")) && !newer(Some("9"), Some("10")) && !newer(Some("9"), Some("9"))
        );
        assert!(newer(Some("a"), Some("b")) && newer(Some("b"), Some("a")) && !newer(Some("a"), Some("a")));
        assert!(newer(Some("1"), None) && newer(None, Some("1")) && !newer(None, None));
    }

    #[test]
    fn a_successor_is_newer_whatever_its_version() {
        let (old, new) = (version("1", Some("10")), version("2", Some("5")));
        assert!(new.is_newer(&old) && !new.is_same_object(&old));
        assert!(old.is_same_object(&version("1", Some("11"))));
    }
}
