//! The versions that are served.

use std::fmt;

use crate::v1alpha2::GROUP;

/// The versions of objects that are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// `v1alpha1`: served, but not stored.
    V1Alpha1,
    /// `v1alpha2`: served and stored. All other code works on this version.
    V1Alpha2,
}

// === impl Version ===

impl Version {
    /// Both versions, the older first.
    pub const ALL: [Self; 2] = [Self::V1Alpha1, Self::V1Alpha2];

    /// Returns the version with this name, if it is known.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|version| version.name() == name)
    }

    /// Returns the version of an `apiVersion`, if it is known.
    pub fn of_api_version(api_version: &str) -> Option<Self> {
        Self::of(api_version.strip_prefix(GROUP)?.strip_prefix('/')?)
    }

    /// Returns `v1alpha1` or `v1alpha2`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::V1Alpha1 => "v1alpha1",
            Self::V1Alpha2 => "v1alpha2",
        }
    }

    /// Returns the `apiVersion` of the version.
    pub const fn api_version(self) -> &'static str {
        match self {
            Self::V1Alpha1 => "serving.kserve.io/v1alpha1",
            Self::V1Alpha2 => crate::v1alpha2::API_VERSION,
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.api_version())
    }
}
