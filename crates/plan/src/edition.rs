//! Which object of a name it is, and which version of it.

use std::hash::{DefaultHasher, Hash, Hasher};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// What tells an object from its predecessors of the same name, and from its own earlier versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edition {
    /// A sum of its uid.
    uid: u64,
    version: Version,
}

/// Versions are opaque by contract; where both are numbers, as they are everywhere, the smaller one is older.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Version {
    Number(u64),
    Text(Option<Box<str>>),
}

/// A sum of a uid, or of there being none.
pub(crate) fn sum(uid: Option<&str>) -> u64 {
    let mut hasher = DefaultHasher::new();
    uid.hash(&mut hasher);
    hasher.finish()
}

// === impl Edition ===

impl Edition {
    /// Of an object with this metadata.
    pub fn of(metadata: &ObjectMeta) -> Self {
        let text = metadata.resource_version.as_deref();
        let version = match text.and_then(|text| text.parse().ok()) {
            Some(number) => Version::Number(number),
            None => Version::Text(text.map(Into::into)),
        };
        Self { uid: sum(metadata.uid.as_deref()), version }
    }

    /// Whether both are of one object, of whatever version.
    pub fn is_of_same(&self, other: &Self) -> bool {
        self.uid == other.uid
    }

    /// Whether it is another version than `known`, and not an older one. Another object of the name is always newer.
    pub fn is_newer(&self, known: &Self) -> bool {
        match (&self.version, &known.version) {
            _ if !self.is_of_same(known) => true,
            (Version::Number(new), Version::Number(old)) => new > old,
            (new, old) => new != old,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edition(uid: &str, version: Option<&str>) -> Edition {
        Edition::of(&ObjectMeta {
            uid: Some(uid.into()),
            resource_version: version.map(Into::into),
            ..ObjectMeta::default()
        })
    }

    #[test]
    fn numbers_are_compared_as_such_and_other_versions_only_differ() {
        let newer = |new, old| edition("1", new).is_newer(&edition("1", old));
        assert!(
            newer(Some("10"), Some("9")) && !newer(Some("9"), Some("10")) && !newer(Some("9"), Some("9"))
        );
        assert!(newer(Some("a"), Some("b")) && newer(Some("b"), Some("a")) && !newer(Some("a"), Some("a")));
        assert!(newer(Some("1"), None) && newer(None, Some("1")) && !newer(None, None));
    }

    #[test]
    fn a_successor_is_newer_whatever_its_version() {
        let (old, new) = (edition("1", Some("10")), edition("2", Some("5")));
        assert!(new.is_newer(&old) && !new.is_of_same(&old));
        assert!(old.is_of_same(&edition("1", Some("11"))));
    }
}
